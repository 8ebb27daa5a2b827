/* What a portable build has of its own (MaruPortable.cmake). */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

_Noreturn void maru_absent_in_libzmq(void);
int pgm_init(void** error);
int pgm_shutdown(void);
uint32_t arc4random(void);

/* What a part of libzmq that is left out would call. Only sockets of the left-out transports come
 * here, and this program opens none. */
void maru_absent_in_libzmq(void) { abort(); }

/* What libzmq asks of PGM at its start and end: 1 is "done". */
int pgm_init(void** error) {
  (void)error;
  return 1;
}
int pgm_shutdown(void) { return 1; }

/* The C++ library's source of random numbers, which glibc has since 2.36 only. */
uint32_t arc4random(void) {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
    /* interrupted */
  }
  return number;
}
