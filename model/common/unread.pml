/* unread.pml: when a call ends, for models whose server runs first.
 *
 * The call may end right after the newest store that it has seen. A claim about the whole call is
 * checked for this shortest one: it may not lean on a store that the reader has not seen yet.
 */

/* How many stores are newer than all that reader 0 has seen. REQUIRES: bytes `ix`, `left`. */
inline count_unread() {
  d_step {
    left = floor[0];
    for (ix : 0 .. LOCATIONS - 1) {
      left = (seen[0].at[ix] > left -> seen[0].at[ix] : left)
    }
    ix = 0;
    left = log_end - left
  }
}
