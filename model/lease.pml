/* lease.pml: one record, two readers that lease, pin and upgrade; a server that grants, registers,
 * deletes, evicts, scans, frees, grants anew, crashes and starts again; a reader that dies.
 *
 * JOIN: the readers are threads of one process and share its slot. ALONE: there is one reader, for
 * longer runs. Else: two processes.
 * The text of the key is find.pml's matter: here a find is one load of the state word.
 */
#if defined(JOIN) || defined(ALONE)
#define PROCESSES 1
#ifdef KO_TWO_SLOTS
#define SLOTS 2
#else
#define SLOTS 1
#endif
#define PROCESS(t) 0
#else
#define PROCESSES 2
#define SLOTS 2
#define PROCESS(t) t
#endif
#ifdef ALONE
#define READERS 1
#else
#define READERS 2
#endif
#define LOCATIONS 2
#define LOG 34
#include "common/weak.pml"
#include "common/words.pml"
#include "common/slots.pml"

#define S 0 /* state word */
#define BYTES 1 /* the page: which life wrote it */

#ifndef GEN_MAX
#define GEN_MAX 3
#endif
#ifndef LIVES_MAX
#define LIVES_MAX 2
#endif
#ifndef BATCHES
#define BATCHES 2 /* deletes and evictions while readers run */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef CALLS
#define CALLS 1 /* of each reader */
#endif

#ifdef KO_SLOT_EXCHANGE
#define SLOT_ORDER ORDERED
#else
#define SLOT_ORDER SEQ_CST
#endif
#ifdef KO_CHECK_ORDER
#define CHECK_ORDER ORDERED
#else
#define CHECK_ORDER SEQ_CST
#endif
#ifdef KO_WRITER_BARRIER
#define RETIRING_ORDER ORDERED
#else
#define RETIRING_ORDER SEQ_CST
#endif
/* WITH_HIGH_WATER: the server scans a slot only if it sees the mark that the reader has raised
 * before it filled the slot: by a seq_cst store, which every later seq_cst load sees (2), or by
 * another, which a load may miss (1). */
#ifdef KO_HIGH_WATER
#define HIGH_WATER 1
#elif defined(WITH_HIGH_WATER)
#define HIGH_WATER 2
#endif

bit between_steps; /* the server answers messages: it is up and no batch is in work */
bit expected[READERS]; /* the key was there at the start of the call and has not died since */
byte running = READERS;

/* What a process knows: the table of its slots, which its threads change under its own lock. */
typedef Process {
  byte gen; /* of the slot, 0: none */
  byte leases; /* checked ones */
  byte pins;
  byte asking; /* threads that wait for the server's word on what they put there */
  byte asking_pin; /* and want it pinned */
  bit locked; /* a thread is between filling and checking */
  byte high /* high-water mark of its slots. 0: none was ever used. 1: one, and the server may
               load either. 2: one, seen by every seq_cst load */
  bit dead;
  bit buried /* the server has dropped its area */
};
Process process[PROCESSES];

#define HOLDS(p) (!process[p].dead && process[p].leases + process[p].pins > 0)
#define PINS(p) (!process[p].dead && process[p].pins > 0)
#if PROCESSES == 1
#define ANY(what) what(0)
#define UNBURIED (process[0].dead && !process[0].buried)
#else
#define ANY(what) (what(0) || what(1))
#define UNBURIED \
  ((process[0].dead && !process[0].buried) || (process[1].dead && !process[1].buried))
#endif
#define QUIET (running == 0 && !UNBURIED)

#define NOW_STATE STATE(NOW(S))
#define NOW_GEN GEN(NOW(S))
#define NOW_LIFE LIFE(NOW(S))
#define NOW_AS(state) WORD(state, NOW_GEN, NOW_LIFE)
#define PRESENT (NOW_STATE == LIVE || NOW_STATE == RETIRING)

/* The claims. */
bit changed_bytes; /* under a held lease */
bit pinned_died; /* a pinned key was deleted or evicted */
bit leased_evicted;
bit missed_key; /* LIVE for the whole call and not found */
bit leaked; /* a page waits for a lease that nobody holds */

/* The key dies. */
inline condemn() {
  NEVER(leased_evicted, evict && ANY(HOLDS));
  expected[0] = 0;
  expected[READERS - 1] = 0;
  store(S, NOW_AS(CONDEMNED), ORDERED)
}

/* Reads one slot; `met` gathers what was found. */
inline scan(p) {
  atomic {
    if
    :: was_quiet -> slot_told(p) /* all connections were closed: it sees all that was done */
    :: else
    fi;
#ifdef HIGH_WATER
    if
    :: process[p].high == 0 || (process[p].high == 1 && !was_quiet) /* below the slot */
    :: process[p].high > 0 -> process[p].high = 2; slot_load(p, word)
    fi;
#else
    slot_load(p, word);
#endif
    if
    :: SLOT_GEN(word) == NOW_GEN && word != EMPTY && IS_PIN(word) -> met = 2
    :: SLOT_GEN(word) == NOW_GEN && word != EMPTY && !IS_PIN(word) && met == 0 -> met = 1
    :: else
    fi;
    word = 0
  }
}

#define CRASH_POINT \
  if \
  :: crashes > 0 -> crashes--; goto restart \
  :: skip \
  fi

inline bury(p) {
  if
#ifdef KO_RESTART_DROPS_ALL
  :: !process[p].dead -> slot_clear(p)
#endif
  :: process[p].dead && !process[p].buried ->
     process[p].buried = 1;
     process[p].gen = 0;
     process[p].leases = 0;
     process[p].pins = 0;
     process[p].asking = 0;
     process[p].asking_pin = 0;
     process[p].locked = 0;
#ifndef KO_BURY
     slot_clear(p)
#endif
  :: else
  fi
}

inline free_page() {
  if
  :: NOW_GEN == GEN_MAX -> store(S, NOW_AS(WORN), ORDERED)
  :: else -> store(S, NOW_AS(FREE), ORDERED)
  fi
}

proctype Server() {
  byte crashes = CRASHES, batches = BATCHES;
  byte word, met;
  bit evict, was_quiet;

  between_steps = 1;
  do
  :: atomic {
       NOW_STATE == FREE && NOW_LIFE < LIVES_MAX && !QUIET -> /* granted, and written to at once */
#ifdef KO_GEN_GRANT
       store(S, WORD(GRANTED, 1, NOW_LIFE + 1), ORDERED);
#else
       store(S, WORD(GRANTED, NOW_GEN + 1, NOW_LIFE + 1), ORDERED);
#endif
       store(BYTES, NOW_LIFE, RELAXED)
     }
  :: atomic { NOW_STATE == GRANTED -> store(S, NOW_AS(LIVE), ORDERED) }
  :: atomic { NOW_STATE == GRANTED -> store(S, NOW_AS(FREE), ORDERED) }
  :: atomic {
       NOW_STATE == LIVE && (batches > 0 || QUIET) -> /* a batch */
       was_quiet = QUIET;
       batches = (was_quiet -> 0 : batches - 1);
       between_steps = 0;
       if
       :: evict = 1
       :: evict = 0
       fi;
#ifdef KO_RETIRING_TAKE_BACK
       store(S, NOW_AS(CONDEMNED), RETIRING_ORDER)
#elif !defined(KO_RETIRING_SCAN_FIRST)
       store(S, NOW_AS(RETIRING), RETIRING_ORDER)
#endif
     }
     atomic { CRASH_POINT; scan(0) }
#if SLOTS == 2
     atomic { CRASH_POINT; scan(1) }
#endif
     atomic {
       CRASH_POINT;
       if
       :: met == 2 || (met == 1 && evict) -> store(S, NOW_AS(LIVE), ORDERED)
       :: else -> condemn()
       fi;
       goto step_done
     }
  :: atomic { NOW_STATE == CONDEMNED -> was_quiet = QUIET }
#ifndef KO_FREE_SCAN
     atomic { CRASH_POINT; scan(0) }
#if SLOTS == 2
     atomic { CRASH_POINT; scan(1) }
#endif
#endif
     atomic {
       CRASH_POINT;
       if
       :: met == 0 -> free_page()
       :: else -> NEVER(leaked, was_quiet)
       fi;
       goto step_done
     }
  :: atomic { UNBURIED -> bury(0); goto step_done }
  :: QUIET && (NOW_STATE == FREE || NOW_STATE == WORN) -> break
  :: atomic {
       crashes > 0 ->
       crashes--;
restart:
       between_steps = 0;
       met = 0;
       evict = 0;
       was_quiet = 0;
       bury(0);
#if PROCESSES == 2
       bury(1)
#endif
     }
     atomic {
       CRASH_POINT;
       if
#ifdef KO_REVERT_TO_CONDEMNED
       :: NOW_STATE == RETIRING -> condemn()
#elif !defined(KO_REVERT)
       :: NOW_STATE == RETIRING -> store(S, NOW_AS(LIVE), ORDERED)
#endif
       :: else
       fi;
step_done:
       NEVER(pinned_died, NOW_STATE == CONDEMNED && ANY(PINS));
       between_steps = 1;
       met = 0;
       evict = 0;
       was_quiet = 0
     }
  od
}

#define P process[PROCESS(t)]
#define A_LEASE 1
#define A_PIN 2
#define TAKEN (P.leases + P.pins + P.asking > 0)

#ifdef KO_TWO_SLOTS /* the pin lay in the second slot: the lease moves back to the first */
inline settle_slot() {
  if
  :: !TAKEN -> slot_store(0, EMPTY, ORDERED); P.gen = 0
  :: else -> slot_store(0, LEASE(P.gen), SEQ_CST)
  fi;
  slot_store(1, EMPTY, ORDERED)
}
#else
/* Lowers the slot to what is counted. A release: what was read under the lease was read before. */
inline settle_slot() {
  if
  :: !TAKEN -> slot_store(PROCESS(t), EMPTY, ORDERED); P.gen = 0
  :: TAKEN && P.pins + P.asking_pin == 0 -> slot_store(PROCESS(t), LEASE(P.gen), ORDERED)
  :: else
  fi
}
#endif

inline count() {
  if
  :: kind == A_LEASE -> P.leases++; lease = 1
  :: kind == A_PIN ->
     NEVER(pinned_died, !PRESENT || NOW_GEN != GEN(found));
     P.pins++;
     pin = 1
  fi;
  kind = 0
}

proctype Reader(byte t) {
  byte ix, found, ask, calls, kind;
  bit lease, pin;

  {
    calls = CALLS;
call:
    atomic {
      calls--;
      begin_call(t);
      expected[t] = PRESENT
    }
find:
    atomic {
      load(t, S, ORDERED, found);
      if
      :: STATE(found) == LIVE || STATE(found) == RETIRING
      :: else -> NEVER(missed_key, expected[t]); goto ended
      fi;
      if
      :: kind = A_LEASE
      :: kind = A_PIN
      fi
    }

    /* Leases or pins the life that was found: fills the slot or raises its mark, then loads the
     * state word again. */
take:
#ifdef HIGH_WATER
    P.high = (P.high == 0 -> HIGH_WATER : P.high);
#endif
    atomic {
#ifdef KO_JOIN
      P.gen == 0 || (P.gen == GEN(found) && (!P.locked || kind == A_LEASE));
#else
      !P.locked && (P.gen == 0 || P.gen == GEN(found));
#endif
      if
#ifdef KO_JOIN
      :: P.locked && kind == A_LEASE -> count(); goto held
#endif
      :: (kind == A_LEASE && P.leases + P.pins > 0) || (kind == A_PIN && P.pins > 0) ->
         count(); /* joins what is held and checked */
         goto held
      :: else -> P.locked = 1
      fi;
      if
#ifdef KO_TWO_SLOTS
      :: kind == A_PIN && lease -> /* from the one slot to the other */
         slot_store(1, PIN(GEN(found)), SEQ_CST);
         slot_store(0, EMPTY, ORDERED)
#endif
      :: kind == A_PIN && P.asking_pin == 0 ->
         slot_store(PROCESS(t), PIN(GEN(found)), SLOT_ORDER)
      :: kind == A_LEASE && P.gen == 0 -> slot_store(PROCESS(t), LEASE(GEN(found)), SLOT_ORDER)
      :: else /* filled, and not checked yet by who waits for the server */
      fi;
      P.gen = GEN(found)
    }
    atomic {
#ifdef KO_SECOND_CHECK
      ask = WORD(LIVE, GEN(found), 0);
#else
      load(t, S, CHECK_ORDER, ask);
#endif
      P.locked = 0;
      if
      :: SEEN_AS(ask) == SEEN_AS(WORD(LIVE, GEN(found), 0)) -> ask = 0; count(); goto held
#ifdef KO_ASK
      :: SEEN_AS(ask) == SEEN_AS(WORD(RETIRING, GEN(found), 0)) ->
         ask = 0;
         settle_slot();
         if
         :: lease -> goto refused
         :: else -> NEVER(missed_key, expected[t]); goto ended
         fi
#endif
      :: SEEN_AS(ask) == SEEN_AS(WORD(RETIRING, GEN(found), 0)) ->
         P.asking++;
         P.asking_pin = P.asking_pin + (kind == A_PIN);
         ask = 0
      :: else -> ask = 0; settle_slot(); goto refused
      fi
    }
    atomic { /* the slot stays; the server is asked by page and generation */
#ifdef KO_ANSWER_MID_BATCH
      floor[t] = log_end;
      ask = (PRESENT && NOW_GEN == GEN(found))
#else
      between_steps ->
      floor[t] = log_end;
      ask = (NOW_STATE == LIVE && NOW_GEN == GEN(found))
#endif
    }
    atomic {
      !P.locked ->
      P.asking--;
      P.asking_pin = P.asking_pin - (kind == A_PIN);
      if
      :: ask -> ask = 0; count(); goto held
      :: else -> settle_slot(); goto refused
      fi
    }
refused:
    atomic {
      kind = 0;
      if
#ifdef KO_REFUSED_TO_NOTHING
      :: lease -> slot_store(PROCESS(t), EMPTY, ORDERED); goto held
#endif
      :: lease -> goto held
      :: else -> goto find
      fi
    }
held:
    do
    :: atomic {
         load(t, BYTES, RELAXED, ask);
         NEVER(changed_bytes, ask != LIFE(found));
         ask = 0
       }
    :: atomic { lease && !pin -> kind = A_PIN; goto take }
    :: atomic {
         pin && !P.locked ->
         pin = 0;
         P.pins--;
         settle_slot();
         if
         :: lease -> goto held
         :: else -> goto ended
         fi
       }
    :: atomic {
         lease && !pin && !P.locked ->
         lease = 0;
         P.leases--;
         settle_slot();
         goto ended
       }
    od;
ended:
#ifdef KO_DROP_RELEASE /* the drop may be performed before the loads that precede it */
    atomic {
      load(t, BYTES, RELAXED, ask);
      NEVER(changed_bytes, ask != LIFE(found));
      ask = 0
    }
#endif
    atomic {
      end_call(t);
      expected[t] = 0;
      found = 0
    }
    if
    :: calls > 0 -> goto call
    :: else
    fi
  } unless {
    P.dead
  }
  atomic {
    end_call(t);
    expected[t] = 0;
    found = 0;
    ask = 0;
    calls = 0;
    kind = 0;
    lease = 0;
    pin = 0;
    running--
  }
}

#if DEATHS
proctype Death() {
  atomic { process[0].dead = 1 }
}
#endif

init {
  atomic {
    weak_init();
    run Server();
    run Reader(0);
#ifndef ALONE
    run Reader(1);
#endif
#if DEATHS
    run Death()
#endif
  }
}
