/* recut.pml: a region ends and its units are cut anew; records and generations stay. One record,
 * two slots of the region table, one reader.
 *
 * The reader finds, leases and computes the page's address; what it found may be of an earlier cut
 * than what it leases. Or it reads the words of a region while it holds nothing, as who looks for a
 * region by its id does. Late messages of an earlier cut are messages.pml's matter.
 */
#define SLOTS 1
#define READERS 1
#define LOCATIONS 6
#define LOG 40
#include "common/weak.pml"
#include "common/words.pml"
#include "common/slots.pml"

#define S 0 /* state word of the record; FREE in a region that is none is ABSENT in the code */
#define R 1 /* its region's slot */
#define WORD_OF(r) (2 + (r)) /* region word: cut and whether it is one of pages */
#define PLACE_OF(r) (4 + (r)) /* fields: the cut that stored them, for the page's address */

#ifndef CUTS
#define CUTS 2
#endif
#ifndef LIVES_MAX
#define LIVES_MAX 2
#endif
#ifndef BATCHES
#define BATCHES 3 /* deletes and evictions */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

#define NO_PAGES(cut) ((cut) << 1)
#define PAGES(cut) (((cut) << 1) | 1)
#define IS_PAGES(w) ((w) & 1)
#define CUT(w) ((w) >> 1)

#ifdef KO_FIELDS_RELEASE
#define FIELDS_STORE RELAXED
#else
#define FIELDS_STORE ORDERED
#endif
#ifdef KO_FIELDS_ACQUIRE
#define FIELDS_LOAD RELAXED
#else
#define FIELDS_LOAD ORDERED
#endif

bit held; /* the reader holds a checked lease */
byte cut_of[LIVES_MAX + 1]; /* by life */

/* The claims. */
bit wrong_address; /* under a held lease: of another cut than the life that was found */
bit cut_under_lease;
bit torn_region; /* fields of another cut than the word beside them */

#define NOW_STATE STATE(NOW(S))
#define NOW_AS(state) WORD(state, GEN(NOW(S)), LIFE(NOW(S)))

inline scan() {
  atomic {
    slot_load(0, word);
    leased = (word != EMPTY && SLOT_GEN(word) == GEN(NOW(S)));
    word = 0
  }
}

proctype Server() {
  byte cut, r, word, batches = BATCHES, crashes = CRASHES;
  bit there, leased;

  do
  :: atomic { /* cuts: fields, word, the record's slot */
       !there && cut < CUTS ->
       cut++;
       if
       :: r = 0
       :: r = 1
       fi;
       store(PLACE_OF(r), cut, FIELDS_STORE)
     }
     store(WORD_OF(r), PAGES(cut), ORDERED);
     store(R, r, ORDERED);
     atomic {
#ifdef KO_CUT_GENERATION
       store(S, WORD(FREE, 0, LIFE(NOW(S))), ORDERED);
#else
       store(S, NOW_AS(FREE), ORDERED);
#endif
       there = 1
     }
  :: atomic {
       there && NOW_STATE == FREE && LIFE(NOW(S)) < LIVES_MAX -> /* grant */
       store(S, WORD(GRANTED, GEN(NOW(S)) + 1, LIFE(NOW(S)) + 1), ORDERED);
       cut_of[LIFE(NOW(S))] = cut
     }
  :: atomic { NOW_STATE == GRANTED -> store(S, NOW_AS(LIVE), ORDERED) }
  :: atomic {
       NOW_STATE == LIVE && batches > 0 ->
       batches--;
       store(S, NOW_AS(RETIRING), SEQ_CST)
     }
     scan();
     atomic {
       if
       :: leased -> store(S, NOW_AS(LIVE), ORDERED)
       :: store(S, NOW_AS(CONDEMNED), ORDERED) /* a delete may condemn what is leased */
       fi;
       leased = 0
     }
  :: NOW_STATE == CONDEMNED ->
     scan();
     atomic {
       if
       :: !leased -> store(S, NOW_AS(FREE), ORDERED)
       :: else
       fi;
       leased = 0
     }
     /* Ends: the record first, then the word. A crash in between leaves a region that recovery
      * binds again. */
  :: atomic {
#ifdef KO_CUT_CONDEMNED
       there && (NOW_STATE == FREE || NOW_STATE == CONDEMNED) ->
#else
       there && NOW_STATE == FREE ->
#endif
       NEVER(cut_under_lease, held);
       store(S, NOW_AS(FREE), ORDERED)
     }
     if
     :: atomic {
          store(WORD_OF(r), NO_PAGES(cut), ORDERED);
          there = 0;
          r = 0
        }
     :: atomic {
          crashes > 0 ->
          crashes--;
          store(R, r, ORDERED)
        }
     fi
  :: break
  od
}

/* One look at a region's words. */
inline look(at) {
  load(0, WORD_OF(at), ORDERED, w);
  load(0, PLACE_OF(at), FIELDS_LOAD, place);
#ifndef KO_REGION_REREAD
  load(0, WORD_OF(at), SEQ_CST, w2);
#else
  w2 = w;
#endif
}

proctype Reader() {
  byte ix, found, check, region, w, w2, place;

  begin_call(0);
  if
  :: goto find
  :: goto look_only
  fi;
look_only:
  look(0);
  NEVER(torn_region, w == w2 && IS_PAGES(w) && place != CUT(w));
  goto done;
find:
  atomic {
    load(0, S, ORDERED, found);
    if
    :: STATE(found) == LIVE
    :: else -> goto done
    fi
  }
  slot_store(0, LEASE(GEN(found)), SEQ_CST);
  atomic {
    load(0, S, SEQ_CST, check);
    if
    :: SEEN_AS(check) == SEEN_AS(found) -> held = 1
    :: else -> goto drop
    fi
  }
  load(0, R, ORDERED, region);
  look(region);
  NEVER(wrong_address, w != w2 || !IS_PAGES(w) || place != cut_of[LIFE(found)]);
drop:
  atomic {
    held = 0;
    slot_store(0, EMPTY, ORDERED)
  }
done:
  atomic {
    end_call(0);
    found = 0;
    check = 0;
    region = 0;
    w = 0;
    w2 = 0;
    place = 0
  }
}

init {
  atomic {
    weak_init();
    run Server();
    run Reader()
  }
}
