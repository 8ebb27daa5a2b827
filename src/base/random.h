#pragma once

// A small seeded generator for tests, the simulator and jitter: xoshiro256** seeded by splitmix64
// (Blackman and Vigna, https://prng.di.unimi.it). The same seed gives the same numbers everywhere.
// Not for secrets. Not thread-safe.

#include <bit>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace maru {

inline constexpr std::uint64_t SplitMix64(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Random {
 public:
  using result_type = std::uint64_t;  // a UniformRandomBitGenerator

  explicit constexpr Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) word = SplitMix64(seed);
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  constexpr result_type operator()() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). REQUIRES: bound > 0
  std::uint64_t Below(std::uint64_t bound) {
    MARU_DCHECK(bound > 0);
    // Draws that fall into the incomplete last stretch are drawn again: less than one in two.
    const std::uint64_t reject = (0 - bound) % bound;
    std::uint64_t drawn = (*this)();
    while (drawn < reject) drawn = (*this)();
    return drawn % bound;
  }
  // Uniform in [low, high]. REQUIRES: low <= high
  std::uint64_t Between(std::uint64_t low, std::uint64_t high) {
    MARU_DCHECK(low <= high);
    const std::uint64_t span = high - low + 1;
    return span == 0 ? (*this)() : low + Below(span);
  }
  // True once in N. REQUIRES: n > 0
  bool OneIn(std::uint64_t n) { return Below(n) == 0; }
  // In [0, 1).
  double Unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_[4] = {};
};

}  // namespace maru
