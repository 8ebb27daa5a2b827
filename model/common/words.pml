/* words.pml: the state word of a page record, as the readers compare it.
 *
 *   bits 0..2 state, 3..4 generation, 5..6 life
 *
 * A life is what the model alone knows: it counts the grants and never repeats. Code compares
 * state and generation (SEEN_AS); assertions look at the life.
 */
#define FREE 0
#define GRANTED 1
#define QUARANTINED 2
#define LIVE 3
#define RETIRING 4
#define CONDEMNED 5
#define WORN 6

#define WORD(state, gen, life) ((state) | ((gen) << 3) | ((life) << 5))
#define STATE(w) ((w) & 7)
#define GEN(w) (((w) >> 3) & 3)
#define LIFE(w) ((w) >> 5)
#define SEEN_AS(w) ((w) & 31)
