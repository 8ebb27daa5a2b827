#pragma once

// A moment by which something that waits has to be done, for work of several steps under one
// time-out.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "os/clock.h"

namespace maru::os {

class Deadline {
 public:
  static Deadline After(std::uint32_t timeout_ms) {
    return Deadline(RealClock().Now() + std::int64_t{timeout_ms} * kNanosPerMilli);
  }

  // Rounded up, so that 0 means that it has passed.
  std::int32_t left_ms() const {
    const std::int64_t left_ns = at_ns_ - RealClock().Now();
    return static_cast<std::int32_t>(
        std::max<std::int64_t>((left_ns + kNanosPerMilli - 1) / kNanosPerMilli, 0));
  }
  // After the first of PARTS equal parts of what is left: for tries that share it.
  Deadline FirstOf(std::size_t parts) const {
    return After(static_cast<std::uint32_t>(static_cast<std::size_t>(left_ms()) / parts));
  }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

}  // namespace maru::os
