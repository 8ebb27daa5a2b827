/* messages_client.pml: the handler of messages.pml, one request at a time. */

inline wait_for(what, p, g) {
  conn = WAIT;
  ask = what;
  ask_page = p;
  ask_gen = g
}

inline stop_waiting(next) {
  conn = next;
  ask = NOTHING;
  ask_page = 0;
  ask_gen = 0;
  forget_reply()
}

/* True: K was in the pool at some moment of the call. False: it was out at some moment. */
inline store_returns(answer_true) {
  NEVER(wrong_answer, (answer_true && !was_in) || (!(answer_true) && !was_out))
}

inline take(p, g) {
  mine[p] = (g != 0 -> HELD : NONE);
  mine_gen[p] = g
}

inline receive() {
  p = ask_page;
  if
  :: reply == GOT && ask == GRANT ->
     take(reply_page, reply_gen[reply_page]);
     late[reply_page] = false;
     stop_waiting(IDLE)
  :: reply == FULL && ask == GRANT -> stop_waiting(IDLE)
  :: reply == ADDED && ask == REGISTER ->
     store_returns(true);
     mine[p] = STORED;
     stop_waiting(IDLE)
  :: reply == DUPLICATE && ask == REGISTER ->
     store_returns(true);
     take(p, reply_gen[p]);
     stop_waiting(IDLE)
#ifdef REJECTS
  :: reply == REJECTED && ask == REGISTER ->
     store_returns(false);
     take(p, reply_gen[p]);
     stop_waiting(IDLE)
#endif
  :: reply == STALE && ask == REGISTER -> stop_waiting(LOST)
  :: reply == DONE && ask == BACK -> stop_waiting(IDLE)
  :: else
  fi;
  p = 0
}

inline send_settle() {
  conn = SETTLING;
  settle_epoch[settles] = epoch;
  do
  :: p < PAGES ->
     settle_gen[settles * PAGES + p] =
         (mine[p] == HELD || mine[p] == STORING -> mine_gen[p] : 0);
     p++
  :: else -> p = 0; break
  od;
  settles++
}

inline receive_settled() {
  do
  :: p < PAGES ->
     if
     :: mine[p] == HELD ->
        NEVER(page_taken, reply_gen[p] == 0 && state[p] != WORN);
        take(p, reply_gen[p])
     :: mine[p] == STORING ->
        store_returns(reply_key);
        take(p, reply_gen[p])
     :: else
     fi;
     NEVER(leaked, state[p] == GRANTED && !late[p] && (mine[p] != HELD || mine_gen[p] != gen[p]));
     p++
  :: else -> p = 0; break
  od;
  stop_waiting(IDLE)
}

active proctype Client() {
  byte p;
end:
  do
  :: atomic { conn == IDLE -> wait_for(GRANT, 0, 0); check() }
  :: atomic {
       conn == IDLE ->
       pick_page(p);
       if
       :: mine[p] == HELD ->
          mine[p] = STORING;
          register_sent[p] = register_sent[p] | (1 << mine_gen[p]);
          wait_for(REGISTER, p, mine_gen[p])
       :: mine[p] == HELD || mine[p] == STORED ->
          back_sent[p] = back_sent[p] | (1 << mine_gen[p]);
          wait_for(BACK, p, mine_gen[p]);
          take(p, 0)
       :: else
       fi;
       p = 0;
       check()
     }
#ifdef RECALL
     /* Answers a recall with a page that lies idle: not one that the caller writes into, and none
      * before a settle is answered. */
  :: atomic {
       conn == IDLE && recalled ->
       recalled = false;
       pick_page(p);
       if
       :: mine[p] == HELD ->
          back_sent[p] = back_sent[p] | (1 << mine_gen[p]);
          wait_for(BACK, p, mine_gen[p]);
#ifndef KO_RECALL_IN_USE
          take(p, 0)
#endif
       :: else
       fi;
       p = 0;
       check()
     }
#endif
  :: atomic { conn == WAIT && reply != NO_REPLY -> receive(); check() }
  :: atomic { conn == SETTLING && reply == SETTLED -> receive_settled(); check() }
     /* Disconnect or time-out. */
  :: atomic {
       conn != LOST ->
       grant_sent = grant_sent || (conn == WAIT && ask == GRANT);
       stop_waiting(LOST);
       check()
     }
  :: atomic { conn == LOST && settles < SETTLES -> send_settle(); check() }
  od
}
