// The state word of a page record: one 64-bit atomic that says which state the page is in.
//
//    63  60 59                          28 27       16 15                0
//   +------+------------------------------+-----------+------------------+
//   | state|          generation          | reserved 0|    client slot   |
//   +------+------------------------------+-----------+------------------+
//
// client slot: of the client that the page is granted to while GRANTED, 0 otherwise.
// generation: starts at 1, grows with each grant and with each answer that leaves a page with its
// client (duplicate, rejected, settle); never reset (docs/memory_model.md: what each prevents).
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "layout/geometry.h"

namespace maru::layout {

// Written to pools: numbers are never reused for something else.
enum class PageState : uint8_t {
  kAbsent = 0,  // no page was ever cut for this record
  kFree = 1,
  kGranted = 2,
  kLive = 3,
  kRetiring = 4,
  kCondemned = 5,
  kQuarantined = 6,
  kWorn = 7,
};
inline constexpr uint8_t kPageStateLast = 7;

class StateWord {
 public:
  static constexpr int kStateBits = 4, kGenerationBits = 32, kReservedBits = 12, kClientBits = 16;
  static_assert(kStateBits + kGenerationBits + kReservedBits + kClientBits == 64);

  constexpr StateWord() = default;
  constexpr explicit StateWord(uint64_t bits) : bits_(bits) {}
  static constexpr StateWord Make(PageState state, Generation generation,
                                  ClientSlot client = ClientSlot(0)) {
    return StateWord(uint64_t{static_cast<uint8_t>(state)} << 60 |
                     uint64_t{generation.value()} << 28 | client.value());
  }

  constexpr uint64_t bits() const { return bits_; }
  // May be outside the enumeration when the word comes from a damaged pool: see Valid().
  constexpr PageState state() const { return static_cast<PageState>(bits_ >> 60); }
  constexpr Generation generation() const { return Generation(static_cast<uint32_t>(bits_ >> 28)); }
  constexpr ClientSlot client() const { return ClientSlot(static_cast<uint16_t>(bits_)); }
  constexpr StateWord With(PageState state) const { return Make(state, generation()); }

  // State in the enumeration, generation in [1, kGenerationMax] unless absent, reserved bits zero,
  // a client slot only while GRANTED.
  bool Valid() const;

  friend constexpr bool operator==(StateWord, StateWord) = default;

 private:
  uint64_t bits_ = 0;
};

// A lease slot: one 64-bit atomic in a client's lease area; 0 is an empty slot.
//
//    63                              32 31                         1   0
//   +----------------------------------+----------------------------+-----+
//   |              record              |         generation         | pin |
//   +----------------------------------+----------------------------+-----+
class SlotWord {
 public:
  static constexpr int kRecordBits = 32, kGenerationBits = 31, kPinBits = 1;
  static_assert(kRecordBits + kGenerationBits + kPinBits == 64);
  static_assert(kGenerationMax < (1ull << kGenerationBits));

  enum class Kind : uint8_t { kLease = 0, kPin = 1 };

  constexpr SlotWord() = default;
  constexpr explicit SlotWord(uint64_t bits) : bits_(bits) {}
  static constexpr SlotWord Make(RecordNumber record, Generation generation, Kind kind) {
    return SlotWord(uint64_t{record.value()} << 32 | uint64_t{generation.value()} << 1 |
                    static_cast<uint8_t>(kind));
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr RecordNumber record() const { return RecordNumber(static_cast<uint32_t>(bits_ >> 32)); }
  constexpr Generation generation() const {
    return Generation(static_cast<uint32_t>(bits_ >> 1) & kGenerationMax);
  }
  constexpr bool pinned() const { return (bits_ & 1) != 0; }

  friend constexpr bool operator==(SlotWord, SlotWord) = default;

 private:
  uint64_t bits_ = 0;
};

}  // namespace maru::layout
