/* weak.pml: the part of the C++ memory model that the protocol can meet.
 *
 * Everything that readers load is written by one process at a time, the server. Its stores stand
 * in a log in the order of its program. A load may return any store to its location that the
 * reader is not yet bound to have passed; it is not bound to the newest. Two marks bind a reader:
 *
 *   floor[r]        every store up to here happens before the reader's next step
 *   seen[r].at[l]   coherence: the store that it has loaded from location l
 *
 * An acquire load of a release store raises the floor to that store. A relaxed load, or a load of
 * a relaxed store, raises `seen` alone. A seq_cst load returns nothing older than the newest
 * seq_cst store to the location. Why this covers every execution: docs/memory_model.md.
 *
 * Stores that all readers have passed move from the log to `base`, so that runs which differ only
 * in what nobody can read any more are one state. Log positions count from 1; 0 is `base`.
 *
 * The includer defines before: LOCATIONS, READERS, LOG (the most stores that wait for a reader).
 */
#define RELAXED 0
#define ORDERED 1 /* release on a store, acquire on a load */
#define SEQ_CST 2

#include "claims.pml"

#define IDLE 255 /* floor of a reader outside a call: it will start from what it is told */

typedef Coherence { byte at[LOCATIONS] };

byte now[LOCATIONS]; /* the newest values */
byte base[LOCATIONS]; /* the oldest that some reader may load */
byte log_loc[LOG + 1];
byte log_val[LOG + 1];
byte log_order[LOG + 1];
byte log_end; /* position of the newest store */
byte newest[LOCATIONS]; /* position of the newest store to a location, 0: in base */
byte newest_sc[LOCATIONS]; /* and of the newest seq_cst one */
byte floor[READERS];
Coherence seen[READERS];

byte wi_; /* scratch, zero between steps */
byte wl_;
bit wkeep_;

/* What the server reads: it knows all of its own stores. */
#define NOW(loc) now[loc]

#define DOWN(x) x = (x > 0 -> x - 1 : 0)

/* Moves the oldest stores to base while no reader can load anything before them. */
inline trim() {
  do
  :: log_end > 0 ->
     wkeep_ = 0;
     for (wi_ : 0 .. READERS - 1) {
       if
       :: floor[wi_] == 0 -> wkeep_ = 1
       :: else
       fi
     }
     if
     :: wkeep_ -> break
     :: else
     fi;
     base[log_loc[1]] = log_val[1];
     for (wi_ : 1 .. log_end - 1) {
       log_loc[wi_] = log_loc[wi_ + 1];
       log_val[wi_] = log_val[wi_ + 1];
       log_order[wi_] = log_order[wi_ + 1]
     }
     log_loc[log_end] = 0;
     log_val[log_end] = 0;
     log_order[log_end] = 0;
     log_end--;
     for (wi_ : 0 .. LOCATIONS - 1) {
       DOWN(newest[wi_]);
       DOWN(newest_sc[wi_])
     }
     for (wi_ : 0 .. READERS - 1) {
       if
       :: floor[wi_] != IDLE -> floor[wi_]--
       :: else
       fi;
       for (wl_ : 0 .. LOCATIONS - 1) { DOWN(seen[wi_].at[wl_]) }
     }
  :: else -> break
  od;
  wi_ = 0;
  wl_ = 0;
  wkeep_ = 0
}

inline store(loc, value, order_) {
  d_step {
    assert(log_end < LOG);
    log_end++;
    log_loc[log_end] = loc;
    log_val[log_end] = value;
    log_order[log_end] = order_;
    newest[loc] = log_end;
    now[loc] = log_val[log_end];
    if
    :: order_ == SEQ_CST -> newest_sc[loc] = log_end
    :: else
    fi;
    trim()
  }
}

/* Begins a call: everything stored so far happens before it. A reader that was told less is one
 * that began earlier and is slow. */
inline begin_call(r) { floor[r] = log_end }

inline end_call(r) {
  d_step {
    floor[r] = IDLE;
    for (wi_ : 0 .. LOCATIONS - 1) { seen[r].at[wi_] = 0 }
    trim()
  }
}

/* REQUIRES: a byte `ix` in the proctype; zero between loads. */
inline load(r, loc, order_, dst) {
  atomic {
    d_step {
      ix = (floor[r] > seen[r].at[loc] -> floor[r] : seen[r].at[loc]);
      if
      :: order_ == SEQ_CST && newest_sc[loc] > ix -> ix = newest_sc[loc]
      :: else
      fi;
      do
      :: ix == 0 || log_loc[ix] == loc -> break
      :: else -> ix--
      od
    }
    do
    :: ix == 0 || log_loc[ix] == loc -> break
    :: ix < newest[loc] -> ix++
    od;
    skip; /* spin allows no break to the start of a d_step */
    d_step {
      dst = (ix == 0 -> base[loc] : log_val[ix]);
      if
      :: order_ != RELAXED && log_order[ix] != RELAXED && ix > floor[r] -> floor[r] = ix
      :: else
      fi;
      seen[r].at[loc] = (ix > floor[r] -> ix : 0);
      ix = 0;
      trim()
    }
  }
}

/* Before any process runs. */
inline weak_init() {
  for (wi_ : 0 .. READERS - 1) { floor[wi_] = IDLE }
  wi_ = 0
}
