#include "catalogue/index_table.h"

#include "base/check.h"

namespace maru::catalogue {

using layout::IndexEntry;

uint64_t IndexTable::Find(uint64_t home, IndexEntry entry) const {
  return Probe(home, [entry](IndexEntry met) { return met.bits() == entry.bits(); });
}

uint64_t IndexTable::FirstFree(uint64_t home) const {
  uint64_t slot = home;
  for (uint64_t tried = 0; tried < capacity_; ++tried, slot = Next(slot)) {
    const IndexEntry entry = At(slot);
    if (entry.empty() || entry.tombstone()) return slot;
  }
  return kNowhere;
}

void IndexTable::Put(uint64_t slot, IndexEntry entry) {
  const IndexEntry before = At(slot);
  MARU_CHECK(before.empty() || before.tombstone()) << "index slot " << slot << " is taken";
  if (before.tombstone()) --tombstones_;
  ++entries_;
  Store(slot, entry.bits());
}

void IndexTable::Remove(uint64_t slot) {
  MARU_CHECK_GT(entries_, 0u);
  --entries_;
  if (!At(Next(slot)).empty()) {
    ++tombstones_;
    Store(slot, IndexEntry::kTombstone);
    return;
  }
  Store(slot, IndexEntry::kEmpty);
  for (int emptied = 0; emptied < kEmptiedMax; ++emptied) {
    slot = (slot - 1) & (capacity_ - 1);
    if (!At(slot).tombstone()) return;
    --tombstones_;
    Store(slot, IndexEntry::kEmpty);
  }
}

void IndexTable::Bury(uint64_t slot) {
  MARU_CHECK_GT(entries_, 0u);
  --entries_;
  ++tombstones_;
  Store(slot, IndexEntry::kTombstone);
}

void IndexTable::TakeOver(const IndexTable& draft) {
  MARU_CHECK_EQ(capacity_, draft.capacity_);
  MARU_CHECK_EQ(filled(), 0u);
  // Nobody watches it yet. Release: as Store.
  for (uint64_t slot = 0; slot < capacity_; ++slot) {
    const uint64_t bits = draft.At(slot).bits();
    if (bits != layout::IndexEntry::kEmpty) slots_[slot].store(bits, std::memory_order_release);
  }
  entries_ = draft.entries_;
  tombstones_ = draft.tombstones_;
}

void IndexTable::Clear(uint64_t first, uint64_t count) {
  MARU_CHECK_LE(first + count, capacity_);
  // Nobody watches it yet. Release: as Store.
  for (uint64_t slot = first; slot < first + count; ++slot) {
    slots_[slot].store(IndexEntry::kEmpty, std::memory_order_release);
  }
}

}  // namespace maru::catalogue
