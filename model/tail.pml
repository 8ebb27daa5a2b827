/* tail.pml: the slots of one index table, in a ring: entries come, go and come back while a reader
 * probes. A removed entry becomes empty where the slot after it is empty, and the tombstones before
 * it with it; elsewhere it becomes a tombstone, which an insert may take again.
 *
 * An entry is a hint: what it leads to is checked by its record (find.pml, probe.pml). So a key is
 * its entry here, and the claim is that a probe meets it.
 *
 * As in growth.pml the server runs first and the reader reads from the history that it left.
 *
 * Knock-outs: see docs/memory_model.md.
 */
#define SLOTS 4
#ifndef KEYS
#define KEYS 3
#endif
#ifndef OPS
#define OPS 5 /* inserts and removals */
#endif

#define LOCATIONS SLOTS
#define READERS 1
#define LOG 32
#include "common/weak.pml"

/* An entry: nothing, what has left, or a key. */
#define EMPTY 0
#define TOMB 1
#define ENTRY(k) (1 + (k)) /* keys count from 1 */
#define TAKEN(i) (NOW(i) > TOMB)
#define NEXT(i) (((i) + 1) % SLOTS)
#define BEFORE(i) (((i) + SLOTS - 1) % SLOTS)

bit missed_key; /* the claim: in the table for the whole call and not met */

byte home[KEYS + 1];
byte wanted; /* the key looked for; 0 before the call */
bit stopped; /* the history is complete */
byte gone;   /* the first store of the call that left the key out */
#define NOT_YET 255

#define IN(k) \
  (NOW(0) == ENTRY(k) || NOW(1) == ENTRY(k) || NOW(2) == ENTRY(k) || NOW(3) == ENTRY(k))

inline put(loc, value) {
  atomic {
    store(loc, value, ORDERED);
    gone = (wanted != 0 && gone == NOT_YET && !IN(wanted) -> log_end : gone)
  }
}

/* The first slot on the way of key k that holds no entry. There is one: there are more slots than
 * keys. */
inline first_free() {
  i = home[k];
#ifdef KO_FIRST_FREE
  i = (TAKEN(i) || NOW(NEXT(i)) != EMPTY -> i : NEXT(i));
#endif
  do
  :: TAKEN(i) -> i = NEXT(i)
  :: else -> break
  od
}

inline find_slot() {
  i = 0;
  do
  :: NOW(i) != ENTRY(k) -> i++
  :: else -> break
  od
}

#ifdef KO_TAIL_NEXT
#define WAY_LEADS_ON(i) false
#else
#define WAY_LEADS_ON(i) (NOW(NEXT(i)) != EMPTY)
#endif

/* The entry in slot i. The way back may end early: the code bounds it. */
inline remove() {
#ifdef KO_RELOCATE
  /* The entry behind it moves up, in before out, if that is on its way. */
  if
  :: TAKEN(NEXT(i)) && home[NOW(NEXT(i)) - 1] != NEXT(i) ->
     put(i, NOW(NEXT(i)));
     i = NEXT(i)
  :: else
  fi;
#endif
  if
  :: WAY_LEADS_ON(i) -> put(i, TOMB)
  :: else ->
     put(i, EMPTY);
     i = BEFORE(i);
#ifdef KO_TAIL_PAST_ENTRY
     i = (TAKEN(i) -> BEFORE(i) : i);
#endif
     do
     :: NOW(i) == TOMB -> put(i, EMPTY); i = BEFORE(i)
     :: break
     od
  fi
}

proctype Server() {
  byte ops = OPS;
  byte i, k;

  do
  :: atomic {
       ops > 0 ->
       ops--;
       select(k : 1 .. KEYS);
       if
       :: IN(k) -> find_slot(); goto leaves
       :: else -> first_free()
       fi
     }
     put(i, ENTRY(k));
     goto done;
leaves:
     remove();
done:
     atomic {
       i = 0;
       k = 0
     }
  :: break
  od;
  atomic {
    wanted != 0 ->
    /* From here on counted from the end, 1 for the newest store, since reading moves log
     * positions; 0 is never. */
    gone = (gone == NOT_YET -> 0 : log_end - gone + 1);
    stopped = 1
  }
}

#include "common/unread.pml"

proctype Reader() {
  byte ix, i, e, probed, left;

  atomic {
    select(i : 1 .. KEYS);
    wanted = i;
    i = home[wanted];
    begin_call(0);
    gone = (IN(wanted) -> NOT_YET : 0)
  }
  stopped;
probe:
  load(0, i, ORDERED, e);
  atomic {
    if
    :: e == ENTRY(wanted) -> goto done
    :: e == EMPTY -> goto miss
    :: else
    fi;
    e = 0;
    i = NEXT(i);
    probed++;
    if
    :: probed < SLOTS -> goto probe
    :: else
    fi
  }
miss:
  count_unread();
  NEVER(missed_key, gone <= left); /* in the table for the whole call */
done:
  atomic {
    e = 0;
    i = 0;
    probed = 0;
    left = 0;
    gone = 0;
    end_call(0)
  }
}

/* Homes are slots 0 and 1 or 0 and 3, which lies before 0 in the ring: more differ in nothing but
 * where the ring begins or in keys that never meet. */
inline draw_home(k) {
  if
  :: home[k] = 0
  :: home[k] = 1
  :: home[k] = 3
  fi
}

init {
  atomic {
    weak_init();
    draw_home(1);
    draw_home(2);
#if KEYS > 2
    draw_home(3);
#endif
    run Server();
    run Reader()
  }
}
