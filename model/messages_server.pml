/* messages_server.pml: the server of messages.pml, and somebody else whose messages arrive. */

/* The generation of a page that stays with its client. */
inline grow(p) {
  if
  :: gen[p] < GEN_LAST -> gen[p]++
  :: else -> state[p] = WORN
  fi
}

/* A reply may get lost, and an earlier one to the same request may come first. */
inline answer(kind, p) {
  if
  :: reply = kind;
     reply_page = p;
     reply_gen[p] = (state[p] == GRANTED -> gen[p] : 0)
  :: true
  fi
}

inline grant_page(p, to, to_client) {
#ifdef KO_GRANT_GENERATION
  gen[p] = (gen[p] == 0 -> 1 : gen[p]);
#else
  gen[p]++;
#endif
  state[p] = to;
  late[p] = to_client
}

inline serve_grant(p) {
  if
  :: state[p] == FREE && gen[p] < GEN_LAST ->
     grant_page(p, GRANTED, true);
     verdict = GOT
  :: else -> verdict = FULL
  fi
}

inline serve_register(p, g) {
  verdict = STALE;
  if
  :: state[p] == GRANTED && gen[p] == g && KEY_IN ->
     verdict = DUPLICATE;
#ifndef KO_DUPLICATE_GENERATION
     grow(p)
#endif
#ifdef REJECTS
  :: state[p] == GRANTED && gen[p] == g && !KEY_IN ->
     verdict = REJECTED;
#ifndef KO_REJECT_GENERATION
     grow(p)
#endif
#endif
  :: state[p] == GRANTED && gen[p] == g && !KEY_IN ->
     NEVER(late_effect, mine[p] != STORING || mine_gen[p] != g);
     verdict = ADDED;
     state[p] = LIVE
  :: state[p] == LIVE && gen[p] == g -> verdict = ADDED /* a repeat */
  :: else
  fi;
  if
  :: CURRENT(REGISTER, p, g) -> answer(verdict, p)
  :: else
  fi;
  verdict = NO_REPLY
}

/* Give-back of a granted page, free of a stored one: the same for the server. */
inline serve_back(p, g) {
  if
  :: gen[p] == g && state[p] == GRANTED -> state[p] = FREE
  :: gen[p] == g && IS_LIVE(p) ->
     NEVER(late_effect, state[p] == LIVE_OTHER);
     state[p] = FREE
  :: else
  fi;
  if
  :: CURRENT(BACK, p, g) -> answer(DONE, p)
  :: else
  fi
}

#define NAMED(n, p) settle_gen[((n) - 1) * PAGES + (p)] /* generation, 0: not */

/* Page p in settle number n. */
inline settle_page(n, p) {
  late[p] = false;
  if
#ifdef KO_SETTLE_BY_PAGE
  :: state[p] == GRANTED && NAMED(n, p) != gen[p] -> state[p] = FREE
  :: state[p] == GRANTED && NAMED(n, p) == gen[p] ->
#else
  :: state[p] == GRANTED && NAMED(n, p) != 0 ->
#endif
#ifndef KO_SETTLE_GENERATION
     grow(p)
#endif
#ifndef KO_SETTLE_FREES
  :: state[p] == GRANTED && NAMED(n, p) == 0 -> state[p] = FREE
#endif
  :: else
  fi
}

inline settle_accepted(n, ok) {
  ok = true;
#ifndef KO_SETTLE_NUMBER
  ok = ok && n > seen;
#endif
#ifndef KO_SETTLE_EPOCH
  ok = ok && settle_epoch[n - 1] == epoch;
#endif
}

inline crash() {
  crashes++;
  epoch++;
  seen = 0;
  forget_reply()
}

/* The server answers all of it or crashes on the way. */
inline serve_settle(n) {
  seen = n;
  p = 0;
  do
  :: p < PAGES -> settle_page(n, p); p++
  :: p == PAGES ->
     if
     :: conn == SETTLING && n == settles ->
        answer(SETTLED, 0);
        if
        :: reply == SETTLED ->
           reply_key = KEY_FOR_SETTLE;
           p = 0;
           do
           :: p < PAGES ->
              reply_gen[p] = (state[p] == GRANTED -> gen[p] : 0);
              p++
           :: else -> break
           od
        :: else
        fi
     :: else
     fi;
     break
  :: p > 0 && crashes < CRASHES -> crash(); break
  od;
  p = 0
}

active proctype Server() {
  byte p, g;
  bool ok;
  mtype:outcome verdict = NO_REPLY;
end:
  do
  :: atomic {
       grant_sent ->
       pick_page(p);
       serve_grant(p);
       verdict = NO_REPLY;
       p = 0;
       check()
     }
  :: atomic {
       conn == WAIT && ask == GRANT ->
       pick_page(p);
       serve_grant(p);
       answer(verdict, p);
       verdict = NO_REPLY;
       p = 0;
       check()
     }
  :: atomic { conn == WAIT && ask == REGISTER -> serve_register(ask_page, ask_gen); check() }
  :: atomic { conn == WAIT && ask == BACK -> serve_back(ask_page, ask_gen); check() }
     /* Late and repeated ones. Those of another generation than the page's have no effect. */
  :: atomic {
       pick_page(p);
       if
       :: register_sent[p] & (1 << gen[p]) -> serve_register(p, gen[p])
       :: back_sent[p] & (1 << gen[p]) -> serve_back(p, gen[p])
       :: else
       fi;
       p = 0;
       check()
     }
  :: atomic {
       settles > 0 ->
       select(g : 1 .. settles);
       settle_accepted(g, ok);
       if
       :: ok -> serve_settle(g)
       :: else
       fi;
       ok = false;
       g = 0;
       check()
     }
  :: atomic { crashes < CRASHES -> crash(); check() }
#ifdef RECALL
  :: atomic { !recalled -> recalled = true }
#ifdef KO_RECALL_TAKES
  :: atomic { recalled && state[0] == GRANTED -> state[0] = FREE; check() }
#endif
#endif
#if CUTS > 0
     /* The page's region ends and its record serves in another: generations go on. */
  :: atomic {
       pick_page(p);
       if
       :: cuts < CUTS && state[p] == FREE ->
          cuts++;
#ifdef KO_CUT_GENERATION
          gen[p] = 0
#endif
       :: else
       fi;
       p = 0;
       check()
     }
#endif
     /* Somebody else, whose messages arrive. */
  :: atomic {
       pick_page(p);
       if
       :: state[p] == FREE && gen[p] < GEN_LAST -> grant_page(p, GRANTED_OTHER, false)
       :: state[p] == GRANTED_OTHER -> state[p] = FREE
       :: state[p] == GRANTED_OTHER && !KEY_IN -> state[p] = LIVE_OTHER
       :: IS_LIVE(p) -> state[p] = FREE /* anyone may delete any key */
       :: else
       fi;
       p = 0;
       check()
     }
#if PAGES == 1
  :: atomic { !KEY_IN || elsewhere -> elsewhere = !elsewhere; check() }
#endif
  od
}
