#include "engine/lease_scan.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "layout/state_word.h"

namespace maru::engine {

LeaseScan::LeaseScan(size_t pages_max) : table_(std::bit_ceil(2 * pages_max + 2)) {
  pages_.reserve(pages_max);
}

size_t LeaseScan::Home(RecordNumber record) const {
  // Fibonacci hashing: neighbours in a region spread over the table.
  return (record.value() * 0x9E3779B97F4A7C15ull >> 32) & (table_.size() - 1);
}

int64_t LeaseScan::IndexOf(RecordNumber record) const {
  for (size_t at = Home(record);; at = (at + 1) & (table_.size() - 1)) {
    if (table_[at] == 0) return -1;
    if (pages_[table_[at] - 1].record == record) return table_[at] - 1;
  }
}

void LeaseScan::Add(RecordNumber record, Generation generation) {
  MARU_CHECK_LT(2 * pages_.size() + 1, table_.size());
  size_t at = Home(record);
  while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
  pages_.push_back({record, generation, false, false});
  table_[at] = static_cast<uint32_t>(pages_.size());
}

void LeaseScan::Run(const catalogue::LeaseAreas& areas) {
  for (Page& page : pages_) page.leased = page.pinned = false;
  areas.Scan([this](ClientSlot, layout::SlotWord word) {
    const int64_t index = IndexOf(word.record());
    if (index < 0) return;
    Page& page = pages_[static_cast<size_t>(index)];
    // A word of another life of the page holds nothing: its reader is about to see that.
    if (page.generation != word.generation()) return;
    page.leased = true;
    page.pinned = page.pinned || word.pinned();
  });
}

}  // namespace maru::engine
