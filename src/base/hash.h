#pragma once

// XXH3 over bytes (https://xxhash.com, format specified in doc/xxhash_spec.md of its repository).
// The values are the same in every process and version: they are stored in pools.

#include <cstddef>
#include <cstdint>
#include <span>

namespace maru {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend constexpr bool operator==(const Hash128&, const Hash128&) = default;
};

Hash128 HashBytes128(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t HashBytes64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace maru
