// Where a reader expects the text of a record, so that it can ask for the text's memory together
// with the record's, which alone says where the text lies. Pages and text are both handed out in
// order, so records that were stored one after the other have their text one after the other as
// well, and one offset tells all of a group. A guess is a hint and never an answer: a wrong one
// costs a few cache lines that nobody wanted.
//
// In the reader's own memory. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/ids.h"
#include "catalogue/text_classes.h"

namespace maru::catalogue {

class TextPlaces {
 public:
  static constexpr uint32_t kGroupRecordsLog2 = 6;
  // 128 KiB, which stay in the second cache; more records share the places.
  static constexpr uint32_t kGroups = 16 * 1024;
  // One wrong guess of so many is learnt from: texts that lie anywhere would else make threads
  // write to each other's cache lines with each look-up.
  static constexpr uint32_t kLearnOneOf = 8;

  // Bytes from the pool's start; any number at all.
  uint64_t Guess(RecordNumber record, uint64_t text_bytes) const {
    // Relaxed here and below: a hint that orders nothing.
    return Place(record).load(std::memory_order_relaxed) + Within(record, text_bytes);
  }
  // The text was found at that offset. chance: a number that differs from key to key; one key of
  // kLearnOneOf teaches.
  void Learn(RecordNumber record, uint64_t text_bytes, uint64_t offset_bytes, uint64_t chance) {
    if (Guess(record, text_bytes) == offset_bytes || chance % kLearnOneOf != 0) return;
    Place(record).store(offset_bytes - Within(record, text_bytes), std::memory_order_relaxed);
  }

 private:
  const std::atomic<uint64_t>& Place(RecordNumber record) const {
    return places_[(record.value() >> kGroupRecordsLog2) % kGroups];
  }
  std::atomic<uint64_t>& Place(RecordNumber record) {
    return places_[(record.value() >> kGroupRecordsLog2) % kGroups];
  }
  static uint64_t Within(RecordNumber record, uint64_t text_bytes) {
    return uint64_t{record.value()} * kTextClassBytes[TextClass(text_bytes)];
  }

  // Where the text of record 0 would lie.
  std::array<std::atomic<uint64_t>, kGroups> places_{};
};

}  // namespace maru::catalogue
