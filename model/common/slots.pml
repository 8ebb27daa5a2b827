/* slots.pml: lease slots, written by one process each and loaded by the server. The mirror image of
 * weak.pml: a slot keeps the values that the server may still load, oldest first.
 *
 * All loads are seq_cst, so a seq_cst store leaves nothing older to load. Any load leaves nothing
 * older than what it has returned. A server that starts again goes on from there: it has been told
 * by the operating system that its predecessor is gone.
 *
 * The includer defines before: SLOTS.
 */
#define EMPTY 0
#define LEASE(gen) ((gen) << 1)
#define PIN(gen) (((gen) << 1) | 1)
#define IS_PIN(word) ((word) & 1)
#define SLOT_GEN(word) ((word) >> 1)

#ifndef HISTORY
#define HISTORY 4 /* values that the server may still load */
#endif
#ifdef KO_SCAN_ORDER /* acquire loads */
#define LEAVES_NOTHING_OLDER(order_) false
#else
#define LEAVES_NOTHING_OLDER(order_) (order_ == SEQ_CST)
#endif

typedef Slot {
  byte val[HISTORY];
  byte end /* position of the newest */
};

Slot slot[SLOTS];
byte si_; /* scratch, zero between steps */

/* Forgets the oldest value. */
inline slot_forget(p) {
  for (si_ : 0 .. HISTORY - 2) { slot[p].val[si_] = slot[p].val[si_ + 1] }
  si_ = 0;
  slot[p].val[HISTORY - 1] = 0;
  slot[p].end--
}

/* The server loads nothing but the newest value from here on. */
inline slot_told(p) {
  do
  :: slot[p].end > 0 -> slot_forget(p)
  :: else -> break
  od;
  si_ = 0
}

inline slot_store(p, word, order_) {
  d_step {
    if
    :: LEAVES_NOTHING_OLDER(order_) -> slot_told(p); slot[p].val[0] = word
    :: !LEAVES_NOTHING_OLDER(order_) && slot[p].val[slot[p].end] != word ->
#ifdef FORGETFUL /* for knock-outs, which need not be exhaustive */
       if
       :: slot[p].end == HISTORY - 1 -> slot_forget(p)
       :: else
       fi;
#endif
       assert(slot[p].end < HISTORY - 1);
       slot[p].end++;
       slot[p].val[slot[p].end] = word
    :: else
    fi;
    si_ = 0
  }
}

/* REQUIRES: the caller is in an atomic sequence. */
inline slot_load(p, dst) {
  do
  :: slot[p].end > 0 -> slot_forget(p)
  :: dst = slot[p].val[0]; break
  od
}

/* The process is dead: nobody stores there any more. */
inline slot_clear(p) {
  d_step {
    slot_told(p);
    slot[p].val[0] = EMPTY
  }
}
