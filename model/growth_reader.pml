/* growth_reader.pml: one call of find, in the history that the server of growth.pml has written. */

#define FIRST_TABLE(w) (OLD(w) == NO_ROOM -> CUR(w) : OLD(w))
#define LAST_TABLE(w) CUR(w)
#define TABLES_DIFFER(a, b) ((a) != (b))
#define TABLES_LOAD ORDERED
#define ENTRY_LOAD ORDERED
#ifdef KO_PROBE_ORDER
#undef FIRST_TABLE
#undef LAST_TABLE
#define FIRST_TABLE(w) CUR(w)
#define LAST_TABLE(w) (OLD(w) == NO_ROOM -> CUR(w) : OLD(w))
#endif
#ifdef KO_SEQUENCE
#undef TABLES_DIFFER
#define TABLES_DIFFER(a, b) (OLD(a) != OLD(b) || CUR(a) != CUR(b))
#endif
#ifdef KO_TABLES_ACQUIRE
#undef TABLES_LOAD
#define TABLES_LOAD RELAXED
#endif
#ifdef KO_ENTRY_ACQUIRE
#undef ENTRY_LOAD
#define ENTRY_LOAD RELAXED
#endif

#include "common/unread.pml"

inline forget() {
  w = 0;
  w2 = 0;
  t = 0;
  i = 0;
  e = 0;
  s1 = 0;
  s2 = 0;
  text = 0
}

proctype Reader() {
  byte ix, w, w2, t, i, e, s1, s2, text, round, left;

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
again:
  load(0, TABLES, TABLES_LOAD, w);
#ifdef FULL_POOL
  if
  :: CUR(w) == NO_ROOM -> goto probed
  :: else
  fi;
#endif
  t = FIRST_TABLE(w);
probe:
  load(0, SLOT(t, i), ENTRY_LOAD, e);
  if
  :: e == EMPTY -> goto next_table
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
  :: s1 != s2 -> goto retry
  :: s1 == s2 && text != wanted -> goto next_slot
  :: s1 == s2 && text == wanted && STATE(s1) == RETIRING -> goto ask
  :: s1 == s2 && text == wanted && STATE(s1) == LIVE -> goto hit
  fi;
next_slot:
  atomic {
    e = 0;
    s1 = 0;
    s2 = 0;
    text = 0;
    i++;
    if
    :: i < SLOTS -> goto probe
    :: else
    fi
  }
next_table:
  atomic {
    i = 0;
    e = 0;
    if
    :: t != LAST_TABLE(w) -> t = LAST_TABLE(w); goto probe
    :: else
    fi
  }
#ifdef FULL_POOL
probed:
#endif
#ifndef KO_SECOND_READ
  load(0, TABLES, ORDERED, w2);
  if
  :: TABLES_DIFFER(w, w2) -> goto retry
  :: else
  fi;
#endif
#if defined(FULL_POOL) && !defined(KO_NO_TABLE_ASK)
  if
  :: CUR(w) == NO_ROOM -> goto ask
  :: else
  fi;
#endif
  count_unread();
  NEVER(missed_key, gone <= left); /* present for the whole call */
  goto done;
hit:
  count_unread();
  NEVER(false_entry, born <= left); /* not LIVE at any moment of the call */
  goto done;
retry:
  atomic {
    forget();
    round++;
    if
    :: round < ROUNDS_MAX -> goto again
    :: else
    fi
  }
ask: /* answered by the one who knows */
done:
  atomic {
    forget();
    round = 0;
    left = 0;
    gone = 0;
    born = 0;
    end_call(0)
  }
}
