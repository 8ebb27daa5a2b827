#include "base/hash.h"

#include "base/hash_stream.h"

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

struct HashStream64::State {
  XXH3_state_t xxh3;
};

HashStream64::HashStream64() : state_(std::make_unique<State>()) { Begin(); }
HashStream64::~HashStream64() = default;

// The library reports null pointers only, of which there are none.
void HashStream64::Begin() { (void)XXH3_64bits_reset(&state_->xxh3); }
void HashStream64::Add(std::span<const std::byte> bytes) {
  (void)XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}
std::uint64_t HashStream64::Sum() const { return XXH3_64bits_digest(&state_->xxh3); }

}  // namespace maru
