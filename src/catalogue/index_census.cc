#include "catalogue/index_census.h"

#include <algorithm>
#include <string>

namespace maru::catalogue {

using layout::IndexEntry;
using layout::PageState;
using layout::StateWord;

IndexCensus::IndexCensus(const PoolMemory* memory, IndexWriter* index)
    : memory_(memory), index_(index) {
  index_->Watch(this);
}

IndexCensus::~IndexCensus() { index_->Unwatch(this); }

// Wraps around when it takes away: only the sum counts.
void IndexCensus::Count(IndexEntry entry, uint64_t times) {
  if (entry.empty()) return;
  (entry.tombstone() ? tombstones_ : entries_) += times;
}

void IndexCensus::Changes(uint64_t table, uint64_t slot, IndexEntry from, IndexEntry to) {
  if (table != serial_ || slot >= frontier_) return;
  Count(from, ~uint64_t{0});
  Count(to, 1);
}

bool IndexCensus::Done(const IndexTable& table) const {
  return !table.exists() || table.serial() == done_[0] || table.serial() == done_[1];
}

const IndexTable* IndexCensus::Unfinished() const {
  for (const IndexTable* table : {&index_->old(), &index_->current()}) {
    if (!Done(*table)) return table;
  }
  return nullptr;
}

uint64_t IndexCensus::slots_done() const {
  uint64_t done = 0;
  for (const IndexTable* table : {&index_->old(), &index_->current()}) {
    if (Done(*table)) {
      done += table->capacity();
    } else if (table->serial() == serial_) {
      done += frontier_;
    }
  }
  return done;
}

void IndexCensus::Look(IndexEntry entry, std::vector<Writer::Offender>* offenders) const {
  const layout::PageRecord* page = memory_->Record(entry.record());
  // Relaxed: this process stored it.
  const StateWord word(page == nullptr ? 0 : page->state_word.load(std::memory_order_relaxed));
  if (word.state() == PageState::kLive || word.state() == PageState::kRetiring) return;
  offenders->push_back({entry.record(), "it is in the index without a key"});
}

void IndexCensus::Finish(const IndexTable& table, std::vector<Writer::Offender>* offenders) {
  done_[0] = done_[1];
  done_[1] = table.serial();
  if (entries_ == table.entries() && tombstones_ == table.tombstones()) return;
  offenders->push_back({RecordNumber(0), "a table has " + std::to_string(entries_) +
                                             " entries and " + std::to_string(tombstones_) +
                                             " tombstones, counted were " +
                                             std::to_string(table.entries()) + " and " +
                                             std::to_string(table.tombstones())});
}

IndexCensus::Progress IndexCensus::Step(uint64_t* slots_left,
                                        std::vector<Writer::Offender>* offenders) {
  while (const IndexTable* const table = Unfinished()) {
    if (table->serial() != serial_) {
      if (tables_ == kTablesMax) return Progress::kGaveUp;
      ++tables_;
      serial_ = table->serial();
      frontier_ = entries_ = tombstones_ = 0;
    }
    for (; frontier_ < table->capacity(); ++frontier_) {
      if (*slots_left == 0) return Progress::kMore;
      --*slots_left;
      const IndexEntry entry = table->At(frontier_);
      if (entry.empty()) continue;
      Count(entry, 1);
      if (entry.tombstone()) continue;
      Look(entry, offenders);
      *slots_left -= std::min(*slots_left, kSlotsPerEntry);
    }
    Finish(*table, offenders);
  }
  return Progress::kDone;
}

}  // namespace maru::catalogue
