#include "base/hash.h"

// Inlined: short keys are hashed on the path of every look-up.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace maru {

Hash128 HashBytes128(std::span<const std::byte> bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

std::uint64_t HashBytes64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace maru
