#include "os/clock.h"

#include <time.h>

namespace maru::os {
namespace {

std::int64_t Read(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);  // cannot fail for these clocks
  return std::int64_t{time.tv_sec} * kNanosPerSecond + time.tv_nsec;
}

}  // namespace

std::int64_t SteadyClock::Now() const { return Read(CLOCK_MONOTONIC); }

const SteadyClock& RealClock() {
  static const SteadyClock* const clock = new SteadyClock;
  return *clock;
}

std::int64_t WallTimeNs() { return Read(CLOCK_REALTIME); }

}  // namespace maru::os
