/* two_keys.pml: two keys over one pair of records.
 *
 * Two clients hold one granted record each and register either key, also the same one. Keys are
 * deleted, the delete is refused or takes effect, records are freed, granted again and take the
 * other key, while a reader finds. Unlike the real server this one answers messages between
 * RETIRING and its end, so that "RETIRING counts as present" is put to the test by itself.
 *
 * As in growth.pml the server runs first and the reader reads from the history that it left.
 *
 * Knock-outs: see docs/memory_model.md.
 */
#ifndef OPS
#define OPS 4 /* grants, registers and deletes */
#endif
#define ROUNDS_MAX 2 /* then the reader asks the server */
#define SLOTS 2

#define LOCATIONS 6
#define READERS 1
#define LOG 40
#include "common/weak.pml"
#include "common/words.pml"

#define RECORD(r) (r)
#define TEXT(r) (2 + (r))
#define SLOT(i) (4 + (i))

/* State word: the generation has room for a whole run, so that it also names the life. */
#define STATE_WORD(state, gen) ((state) | ((gen) << 3))
#define GENERATION(w) ((w) >> 3)
#define LIVES_MAX 8
#ifdef KO_GRANT_GENERATION
#define STATES_DIFFER(a, b) (STATE(a) != STATE(b))
#else
#define STATES_DIFFER(a, b) ((a) != (b))
#endif

/* An index entry: nothing, what has left, or a record. */
#define EMPTY 0
#define TOMB 1
#define ENTRY(r) (2 + (r))
#define RECORD_OF(e) ((e) - 2)
#ifdef KO_TOMB_DELETE
#define LEFT_BY_DELETE EMPTY
#else
#define LEFT_BY_DELETE TOMB
#endif
#ifdef KO_TEXT_RELEASE
#define TEXT_STORE RELAXED
#else
#define TEXT_STORE ORDERED
#endif

bit two_records, missed_key, false_entry; /* claims */

byte wanted; /* the key looked for; 0 before the call */
bit stopped; /* the history is complete */
byte gone; /* the first store of the call that left the key absent */
byte born; /* the first store of the call that left it LIVE */
#define NOT_YET 255
byte key_of[2 * LIVES_MAX]; /* the key that a life of a record was born with */

#define NOW_STATE(r) STATE(NOW(RECORD(r)))
#define NOW_GENERATION(r) GENERATION(NOW(RECORD(r)))
#define NOW_AS(r, state) STATE_WORD(state, NOW_GENERATION(r))
#define IS(r, state, k) (NOW_STATE(r) == state && NOW(TEXT(r)) == (k))
#define IS_LIVE(k) (IS(0, LIVE, k) || IS(1, LIVE, k))
#define HOLDS(r, k) (IS(r, LIVE, k) || IS(r, RETIRING, k))
#define PRESENT(k) (HOLDS(0, k) || HOLDS(1, k))
#ifdef KO_RETIRING_REGISTER
#define REGISTERED(k) IS_LIVE(k)
#else
#define REGISTERED(k) PRESENT(k)
#endif

inline put(loc, value, order) {
  atomic {
    store(loc, value, order);
    d_step {
      gone = (wanted != 0 && gone == NOT_YET && !PRESENT(wanted) -> log_end : gone);
      born = (wanted != 0 && born == NOT_YET && IS_LIVE(wanted) -> log_end : born)
    }
    NEVER(two_records, (HOLDS(0, 1) && HOLDS(1, 1)) || (HOLDS(0, 2) && HOLDS(1, 2)))
  }
}

#define EITHER(state) (NOW_STATE(0) == state || NOW_STATE(1) == state)

inline pick_record(state) {
  if
  :: NOW_STATE(0) == state -> r = 0
  :: NOW_STATE(1) == state -> r = 1
  fi
}

inline add() {
  key_of[r * LIVES_MAX + NOW_GENERATION(r)] = k;
  put(TEXT(r), k, TEXT_STORE);
#ifdef KO_LIVE_LAST
  put(RECORD(r), NOW_AS(r, LIVE), ORDERED);
#endif
  put(SLOT((NOW(SLOT(0)) > TOMB -> 1 : 0)), ENTRY(r), ORDERED);
#ifndef KO_LIVE_LAST
  put(RECORD(r), NOW_AS(r, LIVE), ORDERED);
#endif
}

proctype Server() {
  byte ops = OPS;
  byte r, k;

  do
  :: atomic { ops > 0 && EITHER(FREE) -> ops--; pick_record(FREE) }
     put(RECORD(r), STATE_WORD(GRANTED, NOW_GENERATION(r) + 1), ORDERED);
     r = 0
  :: atomic {
       ops > 0 && EITHER(GRANTED) ->
       ops--;
       pick_record(GRANTED);
       if
       :: k = 1
       :: k = 2
       fi
     }
     if
     :: REGISTERED(k) -> put(RECORD(r), STATE_WORD(GRANTED, NOW_GENERATION(r) + 1), ORDERED)
     :: else -> add()
     fi;
     r = 0;
     k = 0
  :: atomic { ops > 0 && EITHER(LIVE) -> ops--; pick_record(LIVE) }
     put(RECORD(r), NOW_AS(r, RETIRING), SEQ_CST);
     r = 0
  :: atomic { EITHER(RETIRING) -> pick_record(RETIRING) }
     if
     :: put(RECORD(r), NOW_AS(r, LIVE), ORDERED) /* pinned */
     :: put(RECORD(r), NOW_AS(r, CONDEMNED), ORDERED);
        put(SLOT((NOW(SLOT(0)) == ENTRY(r) -> 0 : 1)), LEFT_BY_DELETE, ORDERED)
     fi;
     r = 0
  :: atomic { EITHER(CONDEMNED) -> pick_record(CONDEMNED) }
     put(RECORD(r), NOW_AS(r, FREE), ORDERED);
     r = 0
  :: else -> break
  od;
  atomic {
    wanted != 0 ->
    d_step {
      /* From here on counted from the end, 1 for the newest store, since reading moves log
       * positions; 0 is never. */
      gone = (gone == NOT_YET -> 0 : log_end - gone + 1);
      born = (born == NOT_YET -> 0 : log_end - born + 1)
    }
    stopped = 1
  }
}

#include "common/unread.pml"

inline forget() {
  e = 0;
  s1 = 0;
  s2 = 0;
  text = 0
}

proctype Reader() {
  byte ix, i, e, s1, s2, text, round, left;

  atomic {
    if
    :: wanted = 1
    :: wanted = 2
    fi;
    begin_call(0);
    gone = (PRESENT(wanted) -> NOT_YET : 0);
    born = (IS_LIVE(wanted) -> 0 : NOT_YET)
  }
  stopped;
probe:
  load(0, SLOT(i), ORDERED, e);
  if
  :: e == EMPTY -> goto miss
  :: e == TOMB -> goto next_slot
  :: else
  fi;
  load(0, RECORD(RECORD_OF(e)), ORDERED, s1);
  if
  :: STATE(s1) != LIVE && STATE(s1) != RETIRING -> goto next_slot
  :: else
  fi;
  load(0, TEXT(RECORD_OF(e)), ORDERED, text);
#ifdef KO_STATE_REREAD
  s2 = s1;
#else
  load(0, RECORD(RECORD_OF(e)), ORDERED, s2);
#endif
  if
  :: STATES_DIFFER(s1, s2) -> goto retry
  :: !STATES_DIFFER(s1, s2) && text != wanted -> goto next_slot
  :: !STATES_DIFFER(s1, s2) && text == wanted && STATE(s1) == RETIRING -> goto ask
  :: !STATES_DIFFER(s1, s2) && text == wanted && STATE(s1) == LIVE -> goto hit
  fi;
next_slot:
  atomic {
    forget();
    i++;
    if
    :: i < SLOTS -> goto probe
    :: else
    fi
  }
miss:
  count_unread();
  NEVER(missed_key, gone <= left); /* present for the whole call */
  goto done;
hit:
  count_unread();
  NEVER(false_entry,
        born <= left /* not LIVE at any moment of the call */
        || key_of[RECORD_OF(e) * LIVES_MAX + GENERATION(s2)] != wanted);
  goto done;
retry:
  atomic {
    forget();
    i = 0;
    round++;
    if
    :: round < ROUNDS_MAX -> goto probe
    :: else
    fi
  }
ask: /* answered by the one who knows */
done:
  atomic {
    forget();
    i = 0;
    round = 0;
    left = 0;
    gone = 0;
    born = 0;
    end_call(0)
  }
}

#define STORED_LONG_AGO(loc, value) \
  now[loc] = value; \
  base[loc] = value

init {
  atomic {
    weak_init();
    /* The first client has registered key 1; the second holds a granted page. */
    STORED_LONG_AGO(RECORD(0), STATE_WORD(LIVE, 1));
    STORED_LONG_AGO(TEXT(0), 1);
    STORED_LONG_AGO(SLOT(0), ENTRY(0));
    key_of[1] = 1;
    STORED_LONG_AGO(RECORD(1), STATE_WORD(GRANTED, 1));
    run Server();
    run Reader()
  }
}
