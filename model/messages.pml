/* messages.pml: one client, one server and somebody else, over connections that lose, delay and
 * repeat requests: grant, register, give-back, free, settle; time-outs, reconnects, crashes. With
 * RECALL the server asks for pages back, with CUTS a region of free pages ends and is cut anew,
 * with REJECTS a register may find no room (catalogue full, quota used up).
 *
 * The network keeps every request ever sent, and the server may read any of them at any time and
 * any number of times: losing is never reading, delay is reading late. Order inside a connection is
 * not assumed either. The client matches replies to the request that it waits for.
 *
 * Page records are the catalogue and outlive the server; what it knows of settles and the reply in
 * flight do not. Everybody stores one key, K.
 *
 * Knock-outs: see docs/memory_model.md.
 */
#ifndef PAGES
#define PAGES 1
#endif
#ifndef GEN_LAST
#define GEN_LAST 4 /* a page at this generation is never granted again */
#endif
#ifndef SETTLES
#define SETTLES 2 /* settles that the client can send */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

#ifndef CUTS
#define CUTS 0 /* regions cut anew */
#endif

#include "common/claims.pml"

mtype:record = { FREE, GRANTED, GRANTED_OTHER, LIVE, LIVE_OTHER, WORN };
mtype:page = { NONE, HELD, STORING, STORED };
mtype:link = { IDLE, WAIT, LOST, SETTLING };
mtype:request = { NOTHING, GRANT, REGISTER, BACK };
mtype:outcome = { NO_REPLY, GOT, FULL, ADDED, DUPLICATE, REJECTED, STALE, DONE, SETTLED };

/* The catalogue: survives the server. */
mtype:record state[PAGES] = FREE;
byte gen[PAGES]; /* 0: never granted yet */
byte epoch;
#ifdef RECALL
bool recalled; /* the server's mark in the client's lease area: it wants pages back */
#endif
#if PAGES == 1
bool elsewhere; /* K is live on a page that this model does not follow */
#endif

/* The server's own memory. */
byte seen; /* highest settle number answered in this epoch */

/* The client. HELD is free in hand, or in the caller's hands being written. */
mtype:link conn = IDLE;
mtype:page mine[PAGES] = NONE;
byte mine_gen[PAGES];
mtype:request ask = NOTHING; /* waited for */
byte ask_page, ask_gen;

/* The network. Bit g of a mask: sent for generation g. */
byte register_sent[PAGES];
byte back_sent[PAGES];
bool grant_sent; /* by a connection that is dead now */
byte settles;    /* settle numbers 1..settles are sent */
byte settle_epoch[SETTLES];
byte settle_gen[SETTLES * PAGES]; /* 0: page not named */
mtype:outcome reply = NO_REPLY;
byte reply_page;
byte reply_gen[PAGES]; /* 0: gone */
bool reply_key;        /* K is in the pool */

/* Claims. */
bit page_taken;   /* a page that the client holds is not granted to it any more */
bit late_effect;  /* a register of a store that is over adds a key, a free removes another's */
bit leaked;       /* a page is granted to the client, which does not know and has settled */
bit wrong_answer; /* of a store */

/* For the claims only. */
bool was_in, was_out; /* K was in, was out of the pool at some moment of this store */
bool late[PAGES];     /* granted after the last settle that the server answered */
byte crashes, cuts;

#define IS_LIVE(p) (state[p] == LIVE || state[p] == LIVE_OTHER)
#if PAGES == 2
#define KEY_IN (IS_LIVE(0) || IS_LIVE(1))
#define STORE_OPEN (mine[0] == STORING || mine[1] == STORING)
#else
#define KEY_IN (elsewhere || IS_LIVE(0))
#define STORE_OPEN (mine[0] == STORING)
#endif
#define CONNECTED (conn == IDLE || conn == WAIT)
#define CURRENT(what, p, g) (conn == WAIT && ask == what && ask_page == p && ask_gen == g)

/* What a settle tells of the store in flight. */
#ifdef KO_SETTLE_KEY
#define KEY_FOR_SETTLE (mine[0] == STORING && state[0] == LIVE) /* with PAGES 1 */
#else
#define KEY_FOR_SETTLE KEY_IN
#endif

inline pick_page(p) { select(p : 0 .. PAGES - 1) }

/* While a settle is under way the client's generation may be behind, and a page that has used its
 * last one is nobody's. */
#define KEPT(p) \
  ((state[p] == GRANTED && (gen[p] == mine_gen[p] || !CONNECTED)) \
   || (state[p] == WORN && !CONNECTED))

#if PAGES == 2
#define TAKEN ((mine[0] == HELD && !KEPT(0)) || (mine[1] == HELD && !KEPT(1)))
#else
#define TAKEN (mine[0] == HELD && !KEPT(0))
#endif

/* After each step. */
inline check() {
  NEVER(page_taken, TAKEN);
  d_step {
    was_in = STORE_OPEN && (was_in || KEY_IN);
    was_out = STORE_OPEN && (was_out || !KEY_IN)
  }
}

inline forget_reply() {
#ifdef KO_REPLY_MATCH
  skip
#else
  reply = NO_REPLY;
  reply_page = 0;
  reply_gen[0] = 0;
#if PAGES == 2
  reply_gen[1] = 0;
#endif
  reply_key = false
#endif
}

#include "messages_server.pml"
#include "messages_client.pml"
