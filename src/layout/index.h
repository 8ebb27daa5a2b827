// The index: an open-addressed table of 64-bit entries, derived from the records.
// Format: docs/formats/index.md.
//
//    63                              32 31                               0
//   +----------------------------------+----------------------------------+
//   |           tag: hash_high >> 32   |          record number           |
//   +----------------------------------+----------------------------------+
//
// 0 is an empty entry and ends a probe; kTombstone does not. The home of a key is
// hash_low & (entries - 1); the probe is linear and wraps.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/ids.h"
#include "layout/geometry.h"

namespace maru::layout {

class IndexEntry {
 public:
  static constexpr uint64_t kEmpty = 0;
  static constexpr uint64_t kTombstone = 0xFFFFFFFFull;  // tag 0, record 0xFFFFFFFF

  constexpr IndexEntry() = default;
  constexpr explicit IndexEntry(uint64_t bits) : bits_(bits) {}
  static constexpr IndexEntry Make(const Hash128& hash, RecordNumber record) {
    return IndexEntry((hash.high >> 32) << 32 | record.value());
  }
  static constexpr uint64_t Home(const Hash128& hash, uint64_t entries) {
    return hash.low & (entries - 1);
  }
  constexpr uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == kEmpty; }
  constexpr bool tombstone() const { return bits_ == kTombstone; }
  constexpr bool MatchesTag(const Hash128& hash) const {
    return (bits_ >> 32) == (hash.high >> 32);
  }
  constexpr RecordNumber record() const { return RecordNumber(static_cast<uint32_t>(bits_)); }

 private:
  uint64_t bits_ = 0;
};

}  // namespace maru::layout
