#include "engine/list_census.h"

#include <algorithm>
#include <utility>

namespace maru::engine {

ListCensus::ListCensus(Stock* stock) : stock_(stock), lists_(stock->lists()) {
  stock_->WatchLists(this);
}

ListCensus::~ListCensus() { stock_->UnwatchLists(this); }

PageLists::Id ListCensus::Where(RecordNumber record) const {
  const size_t chunk = record.value() >> layout::kRecordsPerChunkLog2;
  if (chunk >= chunks_.size() || chunks_[chunk] == nullptr) return PageLists::Id(0);
  return PageLists::Id(chunks_[chunk][record.value() & (layout::kRecordsPerChunk - 1)]);
}

uint32_t& ListCensus::Place(RecordNumber record) {
  const size_t chunk = record.value() >> layout::kRecordsPerChunkLog2;
  if (chunk >= chunks_.size()) chunks_.resize(chunk + 1);
  std::unique_ptr<uint32_t[]>& lists = chunks_[chunk];
  if (lists == nullptr) lists = std::make_unique<uint32_t[]>(layout::kRecordsPerChunk);
  return lists[record.value() & (layout::kRecordsPerChunk - 1)];
}

uint64_t ListCensus::Count(PageLists::Id list) const {
  const uint32_t number = PageLists::NumberOf(list);
  return number < counts_.size() ? counts_[number] : 0;
}

bool ListCensus::Release(uint64_t* work) {
  stock_->UnwatchLists(this);
  for (; !chunks_.empty(); chunks_.pop_back()) {
    if (*work == 0) return false;
    *work -= std::min(*work, kWorkPerChunk);
  }
  return true;
}

uint64_t& ListCensus::CountOf(uint32_t list) {
  const uint32_t number = PageLists::NumberOf(PageLists::Id(list));
  if (number >= counts_.size()) counts_.resize(number + 1);
  return counts_[number];
}

void ListCensus::Meet(RecordNumber record, uint32_t list) {
  Place(record) = list;
  ++CountOf(list);
}

uint32_t ListCensus::MetBefore(uint32_t node) const {
  if (in_list_ && node == cursor_) return lists_.ListAt(number_).value();
  if (!PageLists::IsList(node)) return Where(RecordNumber(node)).value();
  // The end of a list: of one that is done. Of the one under way it is the cursor, or ahead.
  return PageLists::NumberOf(PageLists::Id(node)) < number_ ? node : 0;
}

void ListCensus::Inserted(RecordNumber record, uint32_t node) {
  const uint32_t list = MetBefore(node);
  if (list != 0) Meet(record, list);
}

void ListCensus::Leaves(RecordNumber record, uint32_t next) {
  if (in_list_ && record.value() == cursor_) cursor_ = next;
  if (Where(record).value() == 0) return;
  uint32_t& place = Place(record);
  --CountOf(std::exchange(place, 0));
}

void ListCensus::CheckOrder(RecordNumber record, uint64_t use_tick, const Offend& offend) const {
  const Recency& recency = stock_->recency();
  const uint64_t use = recency.LastUse(record);
  if (use > use_tick) offend(record, "used later than now");
  const RecordNumber newer = lists_.Prev(record);
  if (newer.value() != 0 && stock_->Known(newer) && use > recency.LastUse(newer)) {
    offend(record, "out of the order of last use");
  }
}

bool ListCensus::Visit(uint32_t list, uint64_t use_tick, const Offend& offend) {
  const RecordNumber record(cursor_);
  if (cursor_ == 0 || PageLists::IsList(cursor_) || !lists_.Covered(cursor_) ||
      stock_->pool().view().Record(record) == nullptr) {
    offend(record, "a list leads to it, but there is no such page");
    return false;
  }
  // A list that runs in a circle meets a page twice.
  if (Where(record).value() != 0) {
    offend(record, "in two lists, or twice in one");
    return false;
  }
  const uint32_t before = lists_.NodeBefore(cursor_);
  if (!lists_.Covered(before) || lists_.NodeAfter(before) != cursor_) {
    offend(record, "its list does not lead back from it");
  }
  Meet(record, list);
  ++met_;
  const ListKind kind = lists_.Kind(PageLists::Id(list));
  const bool extent = list == stock_->condemned_extents().value();
  if (stock_->RunOf(record) == nullptr && !extent) {
    offend(record, "in a list, but of no region");
  } else if (kind == ListKind::kLive) {
    CheckOrder(record, use_tick, offend);
  }
  cursor_ = lists_.NodeAfter(cursor_);
  return true;
}

bool ListCensus::Step(uint64_t* work, uint64_t use_tick, const Offend& offend) {
  while (number_ < lists_.lists_end()) {
    const uint32_t list = lists_.ListAt(number_).value();
    if (!in_list_) {
      if (*work == 0) return false;
      --*work;
      if (!lists_.InUse(PageLists::Id(list))) {
        ++number_;
        continue;
      }
      in_list_ = true;
      cursor_ = lists_.NodeAfter(list);
    }
    while (cursor_ != list) {
      if (*work == 0) return false;
      --*work;
      if (!Visit(list, use_tick, offend)) break;
    }
    in_list_ = false;
    ++number_;
  }
  number_ = kAllMet;  // a list that comes to be from now on is met as it fills
  return true;
}

}  // namespace maru::engine
