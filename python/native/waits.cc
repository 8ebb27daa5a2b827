#include "native/waits.h"

#include <atomic>

namespace maru::python {

void SleepForEver() {
  // Relaxed: nobody ever writes it.
  static constinit std::atomic<bool> gone{false};
  for (;;) gone.wait(false, std::memory_order_relaxed);
}

}  // namespace maru::python
