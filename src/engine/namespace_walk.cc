#include "engine/namespace_walk.h"

#include "engine/evict.h"

namespace maru::engine {

NamespaceWalk::NamespaceWalk(Core* core, std::string_view name_space)
    : name_space_(name_space), began_tick_(core->use_tick) {
  std::vector<PageLists::Id> lists;
  for (const std::unique_ptr<Stock>& stock : core->stocks) {
    Places& places = pools_.emplace_back(stock.get());
    lists.clear();
    for (uint32_t i = 0; i < stock->recency().classes(); ++i) {
      stock->recency().Lists(ClassIndex(i), &lists);
    }
    for (const PageLists::Id list : lists) {
      const RecordNumber last = stock->lists().Back(list);
      if (last.value() != 0) places.records.insert(last.value());
    }
  }
}

NamespaceWalk::~NamespaceWalk() = default;

void NamespaceWalk::Places::Leaves(RecordNumber record, uint32_t /*next*/) {
  if (records.erase(record.value()) == 0) return;
  const uint32_t newer = stock_->lists().NodeBefore(record.value());
  if (!PageLists::IsList(newer)) records.insert(newer);
}

void NamespaceWalk::Next(size_t keys_max, uint64_t bytes_wanted, uint64_t* looks,
                         std::vector<Target>* batch) {
  Victims victims;
  for (Places& places : pools_) {
    for (const uint32_t record : places.records) {
      victims.Push(places.stock_, RecordNumber(record));
    }
    places.records.clear();
  }
  uint64_t bytes = 0;
  Victims::Victim victim;
  while (*looks > 0 && batch->size() < keys_max && bytes < bytes_wanted && victims.Next(&victim)) {
    --*looks;
    const Stock& stock = *victim.stock;
    // Used since it began, like all before it in its list: a key that was spared comes by again.
    if (stock.recency().LastUse(victim.record) > began_tick_) continue;
    if (stock.writer().KeyOf(victim.record).name_space != name_space_) continue;
    batch->push_back({victim.stock, victim.record, Target::Fate::kSpared});
    bytes += stock.PageBytes(victim.record);
  }
  victims.Rest([this](const Victims::Victim& next) {
    if (next.stock->recency().LastUse(next.record) > began_tick_) return;
    pools_[next.stock->index().value()].records.insert(next.record.value());
  });
}

bool NamespaceWalk::at_end() const {
  for (const Places& places : pools_) {
    if (!places.records.empty()) return false;
  }
  return true;
}

}  // namespace maru::engine
