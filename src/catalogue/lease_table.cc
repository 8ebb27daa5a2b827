#include "catalogue/lease_table.h"

#include <utility>

#include "base/check.h"

namespace maru::catalogue {

namespace {

constexpr uint64_t kEntriesMin = 16;

}  // namespace

uint64_t LeaseTable::Home(uint64_t word) const {
  // Multiplied by 2^64 divided by the golden ratio; the upper bits are well mixed.
  return (word * 0x9e3779b97f4a7c15) >> 32 & (entries_.size() - 1);
}

LeaseEntry* LeaseTable::Find(layout::SlotWord word) {
  return const_cast<LeaseEntry*>(std::as_const(*this).Find(word));
}

const LeaseEntry* LeaseTable::Find(layout::SlotWord word) const {
  if (size_ == 0) return nullptr;
  for (uint64_t at = Home(word.bits());; at = (at + 1) & (entries_.size() - 1)) {
    if (entries_[at].word == word.bits()) return &entries_[at];
    if (entries_[at].word == 0) return nullptr;  // met at the latest after 3/4 of the entries
  }
}

void LeaseTable::ReserveOne() {
  if ((size_ + 1) * 4 <= entries_.size() * 3) return;
  std::vector<LeaseEntry> old(entries_.empty() ? kEntriesMin : 2 * entries_.size());
  old.swap(entries_);
  size_ = 0;
  for (const LeaseEntry& entry : old) {
    if (entry.word != 0) *Insert(layout::SlotWord(entry.word)) = entry;
  }
}

LeaseEntry* LeaseTable::Insert(layout::SlotWord word) {
  MARU_DCHECK((size_ + 1) * 4 <= entries_.size() * 3);
  uint64_t at = Home(word.bits());
  while (entries_[at].word != 0) at = (at + 1) & (entries_.size() - 1);
  entries_[at] = {};
  entries_[at].word = word.bits();
  ++size_;
  return &entries_[at];
}

void LeaseTable::Erase(LeaseEntry* entry) {
  // Closes the gap: what lies behind it and may lie further ahead moves up.
  const uint64_t mask = entries_.size() - 1;
  auto gap = static_cast<uint64_t>(entry - entries_.data());
  MARU_DCHECK_LT(gap, entries_.size());
  for (uint64_t at = (gap + 1) & mask; entries_[at].word != 0; at = (at + 1) & mask) {
    const uint64_t from_home = (at - Home(entries_[at].word)) & mask;
    if (from_home < ((at - gap) & mask)) continue;
    entries_[gap] = entries_[at];
    gap = at;
  }
  entries_[gap] = {};
  --size_;
}

}  // namespace maru::catalogue
