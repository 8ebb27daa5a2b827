/* growth_server.pml: the writer of growth.pml. */

#define TABLES_STORE SEQ_CST
#define ENTRY_STORE ORDERED
#define CLEAR_STORE ORDERED
#define LEFT_BY_MOVE TOMB
#define SEQ_AT_RESTART (NOW_SEQ + 1)
#ifdef KO_TABLES_RELEASE
#undef TABLES_STORE
#define TABLES_STORE RELAXED
#endif
#ifdef KO_ENTRY_RELEASE
#undef ENTRY_STORE
#define ENTRY_STORE RELAXED
#endif
#ifdef KO_CLEAR_RELEASE
#undef CLEAR_STORE
#define CLEAR_STORE RELAXED
#endif
#ifdef KO_TOMB_MOVE
#undef LEFT_BY_MOVE
#define LEFT_BY_MOVE EMPTY
#endif
#ifdef KO_SEQUENCE_RESTART
#undef SEQ_AT_RESTART
#define SEQ_AT_RESTART SEQ_FIRST
#endif

chan next_store = [0] of { byte, byte, byte };

/* The server's stores, in one place: the generated program stays small. */
proctype Memory() {
  byte loc, value, order;

end:
  do
  :: atomic {
       next_store?loc, value, order ->
       store(loc, value, order);
       d_step {
         gone = (wanted != 0 && gone == NOT_YET && !PRESENT(wanted) -> log_end : gone);
         born = (wanted != 0 && born == NOT_YET && IS_LIVE(wanted) -> log_end : born);
         loc = 0;
         value = 0;
         order = 0
       }
     }
  od
}

/* The server may crash before any store. */
inline put(loc, value, order) {
  atomic {
#if CRASHES > 0
    if
    :: crashes > 0 -> crashes--; goto restart
    :: true
    fi;
#endif
    next_store!loc, value, order
  }
}

#define OCCUPIED(t, i) (NOW(SLOT(t, i)) > TOMB)
#define IN_USE(t) ((t) == NOW_OLD || (t) == NOW_CUR)

inline insert(t, r) { put(SLOT(t, (OCCUPIED(t, 0) -> 1 : 0)), ENTRY(r), ENTRY_STORE) }

inline clear(t) {
  do
  :: NOW(SLOT(t, 0)) != EMPTY -> put(SLOT(t, 0), EMPTY, CLEAR_STORE)
  :: NOW(SLOT(t, 0)) == EMPTY && NOW(SLOT(t, 1)) != EMPTY -> put(SLOT(t, 1), EMPTY, CLEAR_STORE)
  :: else -> break
  od
}

/* Clears what no reader with the present table word probes. */
inline clear_unused() {
  t = 0;
  do
  :: t < ROOMS ->
     if
     :: IN_USE(t)
     :: else -> clear(t)
     fi;
     t++
  :: else -> break
  od;
  t = 0
}

/* A room outside both tables of the present table word. */
inline pick_room() {
  if
  :: !IN_USE(0) -> t = 0
  :: !IN_USE(1) -> t = 1
  :: !IN_USE(2) -> t = 2
  fi
}

#define IN_OLD(i) (NOW_OLD != NO_ROOM && OCCUPIED(NOW_OLD, i))

/* The entry in slot i of the old table. */
inline move() {
  r = RECORD_OF(NOW(SLOT(NOW_OLD, i)));
#ifdef KO_RETIRING_GROWTH
  if
  :: NOW_STATE(r) == RETIRING -> put(SLOT(NOW_OLD, i), TOMB, ENTRY_STORE); goto serve
  :: else
  fi;
#endif
#ifdef KO_INSERT_FIRST
  put(SLOT(NOW_OLD, i), LEFT_BY_MOVE, ENTRY_STORE);
  insert(NOW_CUR, r);
#else
  insert(NOW_CUR, r);
  put(SLOT(NOW_OLD, i), LEFT_BY_MOVE, ENTRY_STORE);
#endif
  r = 0;
  i = 0
}

#ifdef KO_TOMB_DELETE
#define WAY_LEADS_ON(t, i) 0
#else
#define WAY_LEADS_ON(t, i) (t != NOW_CUR || (i == 0 && NOW(SLOT(t, 1)) != EMPTY))
#endif

/* Record r leaves the index, tombstones go with it where no probe needs them any more. The old
 * table has tombstones to its end. */
inline remove() {
  t = (NOW(SLOT(NOW_CUR, 0)) == ENTRY(r) || NOW(SLOT(NOW_CUR, 1)) == ENTRY(r) -> NOW_CUR : NOW_OLD);
  i = (NOW(SLOT(t, 0)) == ENTRY(r) -> 0 : 1);
  put(SLOT(t, i), (WAY_LEADS_ON(t, i) -> TOMB : EMPTY), ENTRY_STORE);
#if CHURN > 1
  if
  :: t == NOW_CUR && NOW(SLOT(t, 1)) == EMPTY && NOW(SLOT(t, 0)) == TOMB ->
     put(SLOT(t, 0), EMPTY, ENTRY_STORE)
  :: else
  fi;
#endif
  t = 0;
  i = 0
}

inline retiring_ends() {
  if
  :: put(RECORD(r), NOW_AS(r, LIVE), ORDERED) /* pinned */
#ifndef KO_RETIRING_GROWTH /* where the entry may have gone before */
  :: put(RECORD(r), NOW_AS(r, CONDEMNED), ORDERED);
     remove();
     put(RECORD(r), NOW_AS(r, FREE), ORDERED)
#endif
  fi;
  r = 0
}

#define FULL (OCCUPIED(NOW_CUR, 0) && OCCUPIED(NOW_CUR, 1))

inline register() {
  put(RECORD(r), WORD(GRANTED, GEN(NOW(RECORD(r))) + 1, 0), ORDERED);
  put(TEXT(r), k, ORDERED);
  insert(NOW_CUR, r);
  put(RECORD(r), NOW_AS(r, LIVE), ORDERED);
  r = 0;
  k = 0
}

/* Records are the truth. */
inline recover(r) {
  if
#if CHURN > 0
  :: NOW_STATE(r) == RETIRING -> put(RECORD(r), NOW_AS(r, LIVE), ORDERED)
  :: NOW_STATE(r) == GRANTED || NOW_STATE(r) == CONDEMNED ->
     put(RECORD(r), NOW_AS(r, FREE), ORDERED)
#endif
  :: else
  fi
}

inline rebuild() {
#ifdef FULL_POOL
  /* No third room: readers are told that there is no table, and ask the server. Then either room
   * may be used, also by a server that starts after a crash from here. */
#ifndef KO_NO_TABLE_WORD
  if
  :: NOW_CUR != NO_ROOM ->
     put(TABLES, TABLE_WORD(SEQ_AT_RESTART, NO_ROOM, NO_ROOM), TABLES_STORE)
  :: else
  fi;
#endif
  if
  :: t = 0
  :: t = 1
  fi;
#elif defined(KO_RESTART_ROOM_CURRENT)
  t = NOW_CUR;
#elif defined(KO_RESTART_ROOM_OLD)
  t = (NOW_OLD == NO_ROOM -> (NOW_CUR + 1) % ROOMS : NOW_OLD);
#else
  pick_room();
#endif
  clear(t);
  if
  :: NOW_STATE(0) == LIVE -> insert(t, 0)
  :: else
  fi;
  if
  :: NOW_STATE(1) == LIVE -> insert(t, 1)
  :: else
  fi;
#ifdef KO_CLEAR_LAST
  if
  :: NOW_OLD != NO_ROOM -> clear(NOW_OLD)
  :: else
  fi;
  clear(NOW_CUR);
#endif
  put(TABLES, TABLE_WORD(SEQ_AT_RESTART, NO_ROOM, t), TABLES_STORE);
  clear_unused()
}

#define EITHER(state) (NOW_STATE(0) == state || NOW_STATE(1) == state)

inline pick_record(state) {
  if
  :: NOW_STATE(0) == state -> r = 0
  :: NOW_STATE(1) == state -> r = 1
  fi
}

proctype Server() {
  byte crashes = CRASHES, growths = GROWTHS, churn = CHURN;
  byte t, i, r, k;

serve:
  do
  :: atomic { growths > 0 && NOW_OLD == NO_ROOM -> growths--; pick_room() }
     put(TABLES, TABLE_WORD(NOW_SEQ + 1, NOW_CUR, t), TABLES_STORE);
     t = 0
  :: atomic { IN_OLD(0) || IN_OLD(1) -> i = (IN_OLD(0) -> 0 : 1) }
     move()
  :: NOW_OLD != NO_ROOM && !IN_OLD(0) && !IN_OLD(1) ->
#ifdef CLEAR_BEFORE_LAST_PUBLISH
     clear(NOW_OLD);
     put(TABLES, TABLE_WORD(NOW_SEQ + 1, NO_ROOM, NOW_CUR), TABLES_STORE)
#else
     put(TABLES, TABLE_WORD(NOW_SEQ + 1, NO_ROOM, NOW_CUR), TABLES_STORE);
     clear_unused()
#endif
#if CHURN > 0
  :: atomic { churn > 0 && EITHER(LIVE) -> churn--; pick_record(LIVE) }
     put(RECORD(r), NOW_AS(r, RETIRING), SEQ_CST);
     r = 0
  :: atomic { EITHER(RETIRING) -> pick_record(RETIRING) }
     retiring_ends()
  :: atomic {
       churn > 0 && EITHER(FREE) && !FULL ->
       churn--;
       pick_record(FREE);
       if
       :: !PRESENT(1) -> k = 1
       :: !PRESENT(2) -> k = 2
       fi
     }
     register()
#endif
#if CRASHES > 0
  :: atomic { crashes > 0 -> crashes--; goto restart }
#endif
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
    stopped = 1;
    goto end_server
  }
#if CRASHES > 0
restart:
  atomic {
    t = 0;
    i = 0;
    r = 0;
    k = 0
  }
  recover(0);
  recover(1);
  rebuild();
  t = 0;
  goto serve;
#endif
end_server:
  skip
}
