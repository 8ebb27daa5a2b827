/* growth.pml: the index grows, is reused and rebuilt while a reader finds.
 *
 * Two keys stand in one probe chain. The server moves entries one by one from the old table to the
 * new one, deletes and registers keys meanwhile, clears and reuses the rooms of retired tables,
 * crashes before any of its stores and rebuilds the index. The reader looks for either key.
 *
 * The reader stores nothing, and a load may return an old store (common/weak.pml). So nothing is
 * lost when the server runs first and the reader then reads from what it has written, from any
 * moment on: a search over histories, not over interleavings.
 *
 * Knock-outs: see docs/memory_model.md.
 */
#ifndef GROWTHS
#define GROWTHS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef CHURN
#define CHURN 0 /* deletes and registers */
#endif
#ifndef ROUNDS_MAX
#define ROUNDS_MAX 2 /* then the reader asks the server */
#endif
#define ROOMS 3
#define SLOTS 2

#define LOCATIONS 11
#define READERS 1
#define LOG 60
#include "common/weak.pml"
#include "common/words.pml"

#define TABLES 0 /* the table word */
#define RECORD(r) (1 + (r))
#define TEXT(r) (3 + (r))
#define SLOT(t, i) (5 + (t) * SLOTS + (i))

/* Table word: sequence, old table, current table. */
#define NO_ROOM 3
#define TABLE_WORD(seq, old, cur) ((seq) << 4 | (old) << 2 | (cur))
#define SEQ(w) ((w) >> 4)
#define OLD(w) (((w) >> 2) & 3)
#define CUR(w) ((w) & 3)
#define SEQ_FIRST 1

/* An index entry: nothing, what has left, or a record. */
#define EMPTY 0
#define TOMB 1
#define ENTRY(r) (2 + (r))
#define RECORD_OF(e) ((e) - 2)

bit missed_key, false_entry; /* claims */

byte wanted; /* the key looked for; 0 before the call */
bit stopped; /* the history is complete */
byte gone; /* the first store of the call that left the key absent */
byte born; /* the first store of the call that left it LIVE */
#define NOT_YET 255

#define NOW_SEQ SEQ(NOW(TABLES))
#define NOW_OLD OLD(NOW(TABLES))
#define NOW_CUR CUR(NOW(TABLES))
#define NOW_STATE(r) STATE(NOW(RECORD(r)))
#define NOW_AS(r, state) WORD(state, GEN(NOW(RECORD(r))), 0)
#define IS(r, state, k) (NOW_STATE(r) == state && NOW(TEXT(r)) == (k))
#define IS_LIVE(k) (IS(0, LIVE, k) || IS(1, LIVE, k))
#define PRESENT(k) (IS_LIVE(k) || IS(0, RETIRING, k) || IS(1, RETIRING, k))

#include "growth_server.pml"
#include "growth_reader.pml"

#define STORED_LONG_AGO(loc, value) \
  now[loc] = value; \
  base[loc] = value

init {
  atomic {
    weak_init();
    STORED_LONG_AGO(TABLES, TABLE_WORD(SEQ_FIRST, NO_ROOM, 0));
    STORED_LONG_AGO(RECORD(0), WORD(LIVE, 0, 0));
    STORED_LONG_AGO(TEXT(0), 1);
    STORED_LONG_AGO(SLOT(0, 0), ENTRY(0));
    if
    :: STORED_LONG_AGO(RECORD(1), WORD(LIVE, 0, 0));
       STORED_LONG_AGO(TEXT(1), 2);
       STORED_LONG_AGO(SLOT(0, 1), ENTRY(1))
    :: true
    fi;
    run Memory();
    run Server();
    run Reader()
  }
}
