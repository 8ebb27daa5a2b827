/* claims.pml: what must never be, a bit for each claim, so that pan's message names it. */
#define NEVER(claim, broken) \
  atomic { \
    claim = (broken); \
    assert(!claim); \
  }
