/* quota.pml: a namespace with a quota of QUOTA pages. A register that finds it used up retires a
 * key of its namespace, by the same RETIRING, scan and CONDEMNED as any eviction, or is refused.
 *
 * Sequential consistency: the counts are the server's own, and how a scan meets a lease is
 * lease.pml's matter. The server crashes between any two stores; it then counts anew from the
 * records. Leases come and go at any moment, but for the time between a scan and what it decides: a
 * lease that begins then asks the server.
 */
#define PAGES 3
#ifndef QUOTA
#define QUOTA 1
#endif
#ifndef CRASHES
#define CRASHES 2
#endif

#include "common/claims.pml"

mtype = { FREE, GRANTED, LIVE, RETIRING, CONDEMNED };

mtype state[PAGES] = FREE;
bit name_space[PAGES]; /* of the key, or of the client that it is granted to; 0 has the quota */
bit leased[PAGES];
byte used; /* by namespace 0, as the server has counted; lost in a crash */
bit deciding; /* between a scan and what it decides */

/* The claims. */
bit over_quota; /* more LIVE keys than the quota has room for, at any moment, crashes included */
bit other_evicted; /* a quota's retirement takes a key of another namespace */
bit leased_evicted;
bit miscounted; /* what the server counts is not what the records say, while it answers */

#define HAS_KEY(p) (state[p] == LIVE || state[p] == RETIRING)
#define COUNTS(p) (HAS_KEY(p) && name_space[p] == 0)
#define TRUTH (COUNTS(0) + COUNTS(1) + COUNTS(2))
#define IS_LIVE(p) (state[p] == LIVE && name_space[p] == 0)
#define LIVE_KEYS (IS_LIVE(0) + IS_LIVE(1) + IS_LIVE(2))

inline put(p, to) {
  atomic {
    if
    :: crashes > 0 -> crashes--; goto restart
    :: true
    fi;
    state[p] = to;
    NEVER(over_quota, LIVE_KEYS > QUOTA)
  }
}

inline pick(p, is) {
  if
  :: state[0] == is -> p = 0
  :: state[1] == is -> p = 1
  :: state[2] == is -> p = 2
  fi
}
#define SOME(is) (state[0] == is || state[1] == is || state[2] == is)

#ifdef KO_QUOTA_NAMESPACE
#define MAY_GO(v) (state[v] == LIVE)
#else
#define MAY_GO(v) (state[v] == LIVE && name_space[v] == 0)
#endif
#ifdef KO_QUOTA_LEASED /* as a delete does */
#define SPARED(v) false
#else
#define SPARED(v) leased[v]
#endif

/* Retires page v for the quota. */
inline retire() {
  put(v, RETIRING);
#ifdef KO_QUOTA_RETIRING
  put(p, LIVE);
  used++;
#endif
  deciding = 1;
  if
  :: SPARED(v) -> put(v, LIVE)
  :: else ->
     NEVER(other_evicted, name_space[v] != 0);
     NEVER(leased_evicted, leased[v]);
     put(v, CONDEMNED);
     used--
  fi;
  deciding = 0
}

proctype Server() {
  byte crashes = CRASHES;
  byte p, v;

serve:
  atomic {
    p = 0;
    v = 0;
    NEVER(miscounted, used != TRUTH)
  }
end:
  if
  :: atomic {
       SOME(FREE) -> /* grant */
       pick(p, FREE);
       if
       :: name_space[p] = 0
       :: name_space[p] = 1
       fi
     }
     put(p, GRANTED)
  :: atomic { SOME(GRANTED) -> pick(p, GRANTED) }
     put(p, FREE) /* given back */
  :: atomic { SOME(GRANTED) -> pick(p, GRANTED) }
     /* register */
     if
     :: name_space[p] != 0 -> put(p, LIVE); goto serve
     :: name_space[p] == 0 && used < QUOTA -> goto add
     :: name_space[p] == 0 && used >= QUOTA
     fi;
     atomic {
       if
       :: MAY_GO(0) -> v = 0
       :: MAY_GO(1) -> v = 1
       :: MAY_GO(2) -> v = 2
       :: else -> goto serve
       fi
     }
     retire();
#ifdef KO_QUOTA_RETIRING
     goto serve;
#endif
     if
     :: used < QUOTA -> goto add
     :: else -> goto serve /* refused: all are held */
     fi;
add:
     put(p, LIVE);
     used++
  :: atomic { SOME(CONDEMNED) -> pick(p, CONDEMNED) }
     if
     :: !leased[p] -> put(p, FREE)
     :: else
     fi
  fi;
  goto serve;
restart:
  atomic {
    deciding = 0;
    p = 0;
    v = 0;
    do
    :: p < PAGES ->
       if
       :: state[p] == RETIRING -> state[p] = LIVE
       :: else
       fi;
       p++
    :: else -> break
    od;
    p = 0;
#ifdef KO_QUOTA_RECOUNT
    used = 0;
#else
    used = TRUTH;
#endif
    NEVER(over_quota, LIVE_KEYS > QUOTA)
  }
  goto serve
}

active proctype Readers() {
  byte p;

end:
  do
  :: atomic {
       select(p : 0 .. PAGES - 1);
       if
       :: leased[p] -> leased[p] = 0
       :: !leased[p] && state[p] == LIVE && !deciding -> leased[p] = 1
       :: else
       fi;
       p = 0
     }
  od
}

init { run Server() }
