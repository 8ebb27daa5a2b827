#pragma once

// The real clocks. Thread-safe.

#include <cstdint>

#include "base/clock.h"

namespace maru::os {

// CLOCK_MONOTONIC: comparable between the processes of one boot; stands still while the machine
// sleeps.
class SteadyClock final : public Clock {
 public:
  std::int64_t Now() const override;
};

// Lives as long as the process.
const SteadyClock& RealClock();

// Nanoseconds since 1970 UTC; may jump. For time stamps that people read.
std::int64_t WallTimeNs();

}  // namespace maru::os
