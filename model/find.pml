/* find.pml: one record, one reader. The server births, retires, condemns, frees and overwrites the
 * record with other keys, and crashes between any two stores. The reader looks for one key whose
 * text is two words.
 */
#define LOCATIONS 3
#define READERS 1
#define LOG 32
#include "common/weak.pml"
#include "common/words.pml"

#define S 0 /* state word */
#define T0 1 /* key text, first word */
#define T1 2

#ifndef GEN_MAX
#define GEN_MAX 3
#endif
/* What a page becomes that nobody has any more, wherever it comes from: WORN at its last
 * generation. */
#ifdef KO_WORN
#define FREED_STATE FREE
#else
#define FREED_STATE (NOW_GEN == GEN_MAX -> WORN : FREE)
#endif
#ifndef LIVES_MAX
#define LIVES_MAX 3 /* grants in a run */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef REVERTS
#define REVERTS 2 /* batches that end with the key LIVE again */
#endif
#define ROUNDS_MAX 2 /* then the reader asks the server */

/* Keys: (1,1), (2,2) and the one looked for, (1,2), which a torn copy of the others would give. */
#define WANTED0 1
#define WANTED1 2

#ifdef KO_LIVE_RELEASE
#define LIVE_ORDER RELAXED
#else
#define LIVE_ORDER ORDERED
#endif
#ifdef KO_REVERT_RELEASE
#define REVERT_ORDER RELAXED
#else
#define REVERT_ORDER ORDERED
#endif
#ifdef KO_TEXT_RELEASE
#define TEXT_STORE RELAXED
#else
#define TEXT_STORE ORDERED
#endif
#ifdef KO_TEXT_ACQUIRE
#define TEXT_LOAD RELAXED
#else
#define TEXT_LOAD ORDERED
#endif
#ifdef WEAKER_SECOND_LOAD /* what the acquire loads of the text leave to do */
#define SECOND_LOAD RELAXED
#else
#define SECOND_LOAD ORDERED
#endif
#ifdef KO_FIND_ACQUIRE
#define FIRST_LOAD RELAXED
#else
#define FIRST_LOAD ORDERED
#endif

bit between_steps; /* the server answers messages: it is up and no batch is in work */
byte wanted_lives; /* a bit for each life whose key is the one looked for */
bit expected; /* the key was there at the start of the call and has not died since */

/* The claims. */
bit false_entry; /* a torn text, another key's, or one that was gone before the call */
bit missed_key; /* LIVE for the whole call and not found */

#define IS_WANTED(life_) ((wanted_lives >> (life_)) & 1)
#define NOW_STATE STATE(NOW(S))
#define NOW_GEN GEN(NOW(S))
#define NOW_LIFE LIFE(NOW(S))
#define PRESENT ((NOW_STATE == LIVE || NOW_STATE == RETIRING) && IS_WANTED(NOW_LIFE))

/* The same record, page and life in another state. */
#define NOW_AS(state) WORD(state, NOW_GEN, NOW_LIFE)

#define CRASH_POINT \
  if \
  :: crashes > 0 -> crashes--; goto restart \
  :: skip \
  fi

proctype Server() {
  byte crashes = CRASHES, reverts = REVERTS;
  byte w0, w1;

  between_steps = 1;
  do
  :: atomic {
       NOW_STATE == FREE && NOW_LIFE < LIVES_MAX -> /* grant */
#ifdef KO_GEN_GRANT
       store(S, WORD(GRANTED, 1, NOW_LIFE + 1), ORDERED)
#else
       store(S, WORD(GRANTED, NOW_GEN % GEN_MAX + 1, NOW_LIFE + 1), ORDERED)
#endif
     }
  :: atomic {
       NOW_STATE == GRANTED -> /* register */
       between_steps = 0;
       if
       :: w0 = 1; w1 = 1
       :: w0 = 2; w1 = 2
       :: w0 = 1; w1 = 2
       fi;
       store(T0, w0, TEXT_STORE)
     }
     atomic {
       CRASH_POINT;
       store(T1, w1, TEXT_STORE)
     }
     atomic {
       CRASH_POINT;
       if
       :: NOW(T0) == WANTED0 && NOW(T1) == WANTED1 ->
          wanted_lives = wanted_lives | (1 << NOW_LIFE)
       :: else
       fi;
       store(S, NOW_AS(LIVE), LIVE_ORDER);
       goto step_done
     }
  :: atomic {
       NOW_STATE == GRANTED -> /* given back: recalled, unused or settled */
       store(S, NOW_AS(FREED_STATE), ORDERED)
     }
  :: atomic {
       NOW_STATE == GRANTED -> /* its client is dead */
       store(S, NOW_AS(QUARANTINED), ORDERED)
     }
  :: atomic {
       NOW_STATE == QUARANTINED -> /* its second is over */
       store(S, NOW_AS(FREED_STATE), ORDERED)
     }
#ifndef KO_LEAVE_LIVE
  :: atomic {
       NOW_STATE == LIVE -> /* delete, evict */
       between_steps = 0;
       store(S, NOW_AS(RETIRING), SEQ_CST)
     }
     atomic {
       CRASH_POINT;
       if
       :: reverts > 0 -> /* somebody holds it */
          reverts--;
          store(S, NOW_AS(LIVE), REVERT_ORDER)
       :: expected = 0;
          store(S, NOW_AS(CONDEMNED), ORDERED)
       fi;
       goto step_done
     }
#else
  :: atomic {
       NOW_STATE == LIVE && NOW_LIFE < LIVES_MAX -> /* the next key over the living one */
       expected = 0;
       store(T0, 2, TEXT_STORE)
     }
     store(T1, 2, TEXT_STORE);
     store(S, WORD(LIVE, NOW_GEN + 1, NOW_LIFE + 1), LIVE_ORDER)
#endif
  :: atomic {
       NOW_STATE == CONDEMNED -> /* a scan has found no lease */
       store(S, NOW_AS(FREED_STATE), ORDERED)
     }
  :: NOW_STATE == WORN || (NOW_STATE == FREE && NOW_LIFE == LIVES_MAX) -> break
#ifdef KO_LEAVE_LIVE
  :: NOW_STATE == LIVE && NOW_LIFE == LIVES_MAX -> break
#endif
  :: atomic {
       crashes > 0 ->
       crashes--;
restart:
       if
       :: NOW_STATE == RETIRING -> store(S, NOW_AS(LIVE), REVERT_ORDER)
       :: else
       fi;
step_done:
       between_steps = 1;
       w0 = 0;
       w1 = 0
     }
  od
}

proctype Reader() {
  byte ix, s1, s2, t0, t1, round, gone;

  atomic {
    begin_call(0);
    expected = PRESENT;
    gone = (NOW_STATE == GRANTED || NOW_STATE == LIVE || NOW_STATE == RETIRING ->
            NOW_LIFE - 1 : NOW_LIFE) /* what the caller may have been told is gone */
  }
again:
  atomic {
    load(0, S, FIRST_LOAD, s1);
    if
    :: STATE(s1) == LIVE || STATE(s1) == RETIRING
    :: else -> goto miss
    fi
  }
  load(0, T0, TEXT_LOAD, t0);
  load(0, T1, TEXT_LOAD, t1);
  atomic {
#ifndef KO_FIND_REREAD
    load(0, S, SECOND_LOAD, s2);
    if
    :: SEEN_AS(s1) != SEEN_AS(s2) ->
       round++;
       t0 = 0;
       t1 = 0;
       s2 = 0;
       if
       :: round == ROUNDS_MAX -> goto ask
       :: else -> goto again
       fi
    :: else
    fi;
#endif
    if
    :: t0 != WANTED0 || t1 != WANTED1 -> goto miss
    :: else
    fi;
    if
    :: STATE(s1) == RETIRING -> goto retiring
    :: else
    fi;
    NEVER(false_entry, !IS_WANTED(LIFE(s1)) || LIFE(s1) <= gone);
    goto done
  }
retiring:
#ifdef KO_ASK
  goto miss;
#endif
ask:
  atomic {
    between_steps ->
    NEVER(missed_key, expected && !PRESENT);
    goto done
  }
miss:
  NEVER(missed_key, expected);
done:
  atomic {
    end_call(0);
    expected = 0;
    s1 = 0;
    s2 = 0;
    t0 = 0;
    t1 = 0;
    round = 0;
    gone = 0
  }
}

init {
  atomic {
    weak_init(); /* all words 0: FREE, generation 0, no text */
    run Server();
    run Reader()
  }
}
