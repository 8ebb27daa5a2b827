/* probe.pml: two records in one probe chain, one reader. A key is deleted and stored again, so that
 * both records may hold its text: one LIVE, the other left from an earlier life.
 *
 * The index is left out: the probe meets record 0, then record 1. What an entry may do besides is
 * growth.pml's matter.
 */
#define LOCATIONS 4
#define READERS 1
#define LOG 32
#include "common/weak.pml"
#include "common/words.pml"

#define S(r) (r) /* state word */
#define T(r) (2 + (r)) /* text */

#ifndef OPS
#define OPS 5 /* registers and deletes */
#endif
#define READS_MAX 2 /* of one record that changes underfoot; then the reader asks the server */
#define WANTED 1
#define OTHER 2

bit between_steps; /* the server answers messages: no batch is in work */
bit expected; /* the key was there at the start of the call and has not died since */

/* The claims. */
bit false_entry; /* found with a life that has another key */
bit missed_key; /* LIVE for the whole call and not found */

byte wanted_lives[2]; /* by record: a bit for each life whose key is the one looked for */

#define STATE_OF(r) STATE(NOW(S(r)))
#define AS(r, state) WORD(state, GEN(NOW(S(r))), LIFE(NOW(S(r))))
#define HAS(r, key) ((STATE_OF(r) == LIVE || STATE_OF(r) == RETIRING) && NOW(T(r)) == (key))
#define PRESENT(key) (HAS(0, key) || HAS(1, key))

inline register(r, key) {
  atomic {
    ops > 0 && STATE_OF(r) == FREE && LIFE(NOW(S(r))) < 3 && !PRESENT(key) ->
    ops--;
    between_steps = 0;
    store(S(r), WORD(GRANTED, GEN(NOW(S(r))) + 1, LIFE(NOW(S(r))) + 1), ORDERED)
  }
  store(T(r), key, ORDERED);
  atomic {
    wanted_lives[r] = wanted_lives[r] | ((key == WANTED) << LIFE(NOW(S(r))));
    store(S(r), AS(r, LIVE), ORDERED);
    between_steps = 1
  }
}

inline retire(r) {
  atomic {
    ops > 0 && STATE_OF(r) == LIVE ->
    ops--;
    between_steps = 0;
    store(S(r), AS(r, RETIRING), SEQ_CST)
  }
  atomic {
    if
    :: store(S(r), AS(r, LIVE), ORDERED) /* somebody has pinned it */
    :: expected = (NOW(T(r)) == WANTED -> 0 : expected);
       store(S(r), AS(r, CONDEMNED), ORDERED)
    fi;
    between_steps = 1
  }
}

inline release(r) {
  atomic { STATE_OF(r) == CONDEMNED -> store(S(r), AS(r, FREE), ORDERED) }
}

proctype Server() {
  byte ops = OPS;

  between_steps = 1;
end:
  do
  :: register(0, WANTED)
  :: register(0, OTHER)
  :: register(1, WANTED)
  :: retire(0)
  :: retire(1)
  :: release(0)
  :: release(1)
  od
}

proctype Reader() {
  byte ix, r, s1, s2, text, reads;

  atomic {
    begin_call(0);
    expected = PRESENT(WANTED)
  }
again:
  atomic {
    load(0, S(r), ORDERED, s1);
    if
    :: STATE(s1) == LIVE || STATE(s1) == RETIRING
    :: else -> goto not_live
    fi
  }
  load(0, T(r), ORDERED, text);
  atomic {
    load(0, S(r), ORDERED, s2);
    if
    :: SEEN_AS(s1) != SEEN_AS(s2) ->
       text = 0;
       s2 = 0;
       reads++;
       if
       :: reads < READS_MAX -> goto again
       :: else -> goto ask
       fi
    :: else
    fi;
    if
    :: text != WANTED -> goto next_record
    :: text == WANTED && STATE(s1) == RETIRING -> goto ask
    :: else
    fi;
    NEVER(false_entry, !((wanted_lives[r] >> LIFE(s1)) & 1));
    goto done
  }
not_live:
#ifdef KO_MATCH_ENDS_PROBE
  atomic {
    load(0, T(r), ORDERED, text);
    if
    :: text == WANTED -> goto miss
    :: else
    fi
  }
#endif
next_record:
  atomic {
    reads = 0;
    text = 0;
    s1 = 0;
    s2 = 0;
    r++;
    if
    :: r < 2 -> goto again
    :: else
    fi
  }
miss:
  NEVER(missed_key, expected);
  goto done;
ask:
  atomic {
    between_steps ->
    NEVER(missed_key, expected && !PRESENT(WANTED))
  }
done:
  atomic {
    end_call(0);
    expected = 0;
    r = 0;
    s1 = 0;
    s2 = 0;
    text = 0;
    reads = 0
  }
}

init {
  atomic {
    weak_init();
    run Server();
    run Reader()
  }
}
