#include "engine/recency.h"

#include <algorithm>

#include "base/check.h"

namespace maru::engine {

uint64_t Recency::LastUse(RecordNumber record) const {
  const layout::PageRecord* const page = view_.Record(record);
  MARU_CHECK(page != nullptr) << "record " << record;
  // Relaxed: this process wrote it.
  return page->last_use.load(std::memory_order_relaxed);
}

void Recency::AddClass() {
  SizeClass added;
  added.common = lists_->New(ListKind::kLive);
  MARU_CHECK_NE(added.common.value(), 0u);
  classes_.push_back(std::move(added));
}

void Recency::Insert(ClassIndex size_class, ClientId owner, RecordNumber record) {
  SizeClass& in = classes_[size_class.value()];
  if (owner.value() == 0) return lists_->PushFront(in.common, record);
  Owned& owned = in.owned[owner];
  if (owned.list.value() == 0) owned.list = lists_->New(ListKind::kLive);
  if (owned.list.value() == 0) {  // out of lists: the key loses its place among its owner's
    in.owned.erase(owner);
    return lists_->PushFront(in.common, record);
  }
  ++owned.pages;
  lists_->PushFront(owned.list, record);
}

void Recency::Remove(ClassIndex size_class, ClientId owner, RecordNumber record) {
  lists_->Remove(record);
  if (owner.value() == 0) return;
  SizeClass& in = classes_[size_class.value()];
  const auto found = in.owned.find(owner);
  if (found != in.owned.end() && found->second.pages > 0) --found->second.pages;
}

void Recency::OwnerDied(ClientId owner) {
  for (SizeClass& in : classes_) {
    const auto found = in.owned.find(owner);
    if (found == in.owned.end()) continue;
    const Owned owned = found->second;
    in.owned.erase(found);
    if (lists_->Empty(owned.list)) {
      lists_->Delete(owned.list);
      continue;
    }
    in.orphans.push_back({owned.list, owned.pages});
    std::erase_if(in.orphans, [this](const Orphans& orphans) {
      if (!lists_->Empty(orphans.list)) return false;
      lists_->Delete(orphans.list);
      return true;
    });
    if (in.orphans.size() > kOrphanListsMax) MergeSmallest(&in);
  }
}

void Recency::MergeSmallest(SizeClass* size_class) {
  std::vector<Orphans>& orphans = size_class->orphans;
  std::sort(orphans.begin(), orphans.end(),
            [](const Orphans& a, const Orphans& b) { return a.pages_at_most > b.pages_at_most; });
  const Orphans smallest = orphans.back();
  orphans.pop_back();
  Merge(smallest.list, orphans.back().list);
  orphans.back().pages_at_most += smallest.pages_at_most;
  lists_->Delete(smallest.list);
}

void Recency::Merge(PageLists::Id from, PageLists::Id into) {
  RecordNumber place = lists_->Front(into);
  uint64_t place_use = place.value() == 0 ? 0 : LastUse(place);
  // Each step takes a record out of `from` or goes on in `into`: bounded by both lengths.
  while (!lists_->Empty(from)) {
    const RecordNumber record = lists_->Front(from);
    const uint64_t use = LastUse(record);
    while (place.value() != 0 && place_use >= use) {
      place = lists_->Next(place);
      place_use = place.value() == 0 ? 0 : LastUse(place);
    }
    lists_->Remove(record);
    if (place.value() == 0) {
      lists_->PushBack(into, record);
    } else {
      lists_->PushBefore(place, record);
    }
  }
}

void Recency::Lists(ClassIndex size_class, std::vector<PageLists::Id>* out) const {
  const SizeClass& in = classes_[size_class.value()];
  out->push_back(in.common);
  for (const auto& [owner, owned] : in.owned) out->push_back(owned.list);
  for (const Orphans& orphans : in.orphans) out->push_back(orphans.list);
}

bool Recency::Holds(ClassIndex size_class, ClientId owner, PageLists::Id list) const {
  const SizeClass& in = classes_[size_class.value()];
  if (list == in.common) return true;
  if (owner.value() != 0) {
    const auto found = in.owned.find(owner);
    return found != in.owned.end() && found->second.list == list;
  }
  return std::any_of(in.orphans.begin(), in.orphans.end(),
                     [list](const Orphans& orphans) { return orphans.list == list; });
}

void Recency::OwnerLists(ClientId owner, std::vector<PageLists::Id>* out) const {
  for (const SizeClass& in : classes_) {
    const auto found = in.owned.find(owner);
    if (found != in.owned.end()) out->push_back(found->second.list);
  }
}

}  // namespace maru::engine
