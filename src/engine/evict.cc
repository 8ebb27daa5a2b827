#include "engine/evict.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "engine/namespace_walk.h"

namespace maru::engine {

using layout::PageState;

Evictor::Evictor(Core* core, Retirement* retirement, Touches* touches)
    : core_(core), retirement_(retirement), touches_(touches) {}
Evictor::~Evictor() = default;

void Victims::Push(Stock* stock, RecordNumber record) {
  if (record.value() == 0) return;
  heap_.push_back({stock->recency().LastUse(record), {stock, record}});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool Victims::Next(Victim* victim) {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  *victim = heap_.back().at;
  heap_.pop_back();
  Push(victim->stock, victim->stock->lists().Prev(victim->record));
  return true;
}

bool Scope::Contains(const Stock& stock, RecordNumber record) const {
  if (owner != nullptr) return stock.LivingOwner(record) == owner;
  if (pool != nullptr) return &stock == pool;
  return stock.PageBytes(record) == page_bytes;
}

uint64_t Scope::LivePages(const Core& core) const {
  if (owner != nullptr) return owner->live_pages;
  if (pool != nullptr) return pool->counts().live;
  uint64_t live = 0;
  for (const std::unique_ptr<Stock>& stock : core.stocks) {
    const auto size_class = stock->FindClass(page_bytes);
    if (size_class.has_value()) live += stock->Class(*size_class).live_pages;
  }
  return live;
}

LeasedPages::LeasedPages(Core* core, const Scope& scope) : pools_(core->stocks.size()) {
  for (const std::unique_ptr<Stock>& stock : core->stocks) {
    std::vector<bool>& bits = pools_[stock->index().value()];
    stock->pool().leases().Scan([&](ClientSlot, layout::SlotWord word) {
      const RecordNumber record = word.record();
      if (!stock->Known(record)) return;
      if (stock->State(record) != layout::StateWord::Make(PageState::kLive, word.generation())) {
        return;
      }
      if (stock->IsExtent(record) || !scope.Contains(*stock, record)) return;
      if (bits.size() <= record.value()) bits.resize(uint64_t{record.value()} + 1);
      if (!bits[record.value()]) ++count_;
      bits[record.value()] = true;
    });
    ++core->counters.lease_scans;
  }
}

bool LeasedPages::Contains(const Stock& stock, RecordNumber record) const {
  const std::vector<bool>& bits = pools_[stock.index().value()];
  return record.value() < bits.size() && bits[record.value()];
}

void Evictor::Collect(const Scope& scope, uint64_t bytes_wanted, const LeasedPages* leased,
                      std::vector<Target>* batch) {
  Victims victims;
  std::vector<PageLists::Id> lists;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    lists.clear();
    if (scope.owner != nullptr) {
      // In a pool that does not know it, its id is another's.
      if (!scope.owner->pools[stock->index().value()].present) continue;
      stock->recency().OwnerLists(scope.owner->id, &lists);
    } else if (scope.pool == stock.get()) {
      for (uint32_t i = 0; i < stock->recency().classes(); ++i) {
        stock->recency().Lists(ClassIndex(i), &lists);
      }
    } else if (const auto size_class = stock->FindClass(scope.page_bytes)) {
      stock->recency().Lists(*size_class, &lists);
    }
    for (const PageLists::Id list : lists) victims.Add(stock.get(), list);
  }

  // A sixteenth of a small stock: a full batch would empty it.
  const uint64_t keys_gently = std::max<uint64_t>(1, scope.LivePages(*core_) / 16);
  uint64_t bytes = 0;
  uint32_t passed = 0;
  std::vector<Victims::Victim> spared;
  Victims::Victim victim;
  while (batch->size() < core_->options.evict_batch && victims.Next(&victim)) {
    if (leased != nullptr && leased->Contains(*victim.stock, victim.record)) {
      if (spared.size() < kSparedMax) spared.push_back(victim);
      continue;
    }
    // Its record tells, without a scan. The page would be condemned and give no room.
    if (core_->OnHold(*victim.stock, victim.record) ||
        Core::GloballyPinned(*victim.stock, victim.record)) {
      if (spared.size() < kSparedMax) spared.push_back(victim);
      if (++passed == kPassedMax) break;
      continue;
    }
    batch->push_back({victim.stock, victim.record, Target::Fate::kSpared});
    bytes += victim.stock->PageBytes(victim.record);
    if (bytes >= bytes_wanted && batch->size() >= keys_gently) break;
  }
  // They are held, so they are in use.
  for (const Victims::Victim& held : spared) touches_->Mark(held.stock, held.record);
}

uint32_t Evictor::RetireBatch(const Scope& scope, std::vector<Target>* batch) {
  retirement_->Retire(*batch, Cause::kEvict);
  uint32_t gone = 0;
  for (const Target& target : *batch) {
    if (target.fate == Target::Fate::kSpared) {
      touches_->Mark(target.stock, target.record);
      ++core_->counters.eviction_spared;
    } else {
      ++gone;
    }
  }
  core_->counters.evicted += gone;
  if (scope.owner != nullptr) core_->counters.evicted_for_budget += gone;
  if (LogEnabled(LogLevel::kDebug)) {
    LogDebug(std::to_string(gone) + " keys evicted, " + std::to_string(batch->size() - gone) +
             " spared that are held");
  }
  return gone;
}

uint32_t Evictor::Evict(const Scope& scope, uint64_t bytes_wanted) {
  if (!on() || scope.LivePages(*core_) == 0) return 0;
  touches_->Drain();
  std::vector<Target> batch;
  Collect(scope, bytes_wanted, nullptr, &batch);
  if (batch.empty()) return 0;
  if (const uint32_t gone = RetireBatch(scope, &batch)) return gone;

  // All of them are held. One scan tells which others are; when all are, nothing is walked.
  const LeasedPages leased(core_, scope);
  if (leased.count() >= scope.LivePages(*core_)) return 0;
  batch.clear();
  Collect(scope, bytes_wanted, &leased, &batch);
  return batch.empty() ? 0 : RetireBatch(scope, &batch);
}

NamespaceWalk* Evictor::WalkOf(std::string_view name_space) {
  const auto found = trims_.find(name_space);
  if (found != trims_.end()) return found->second.get();
  // Whose walk is forgotten begins it again.
  if (trims_.size() == kTrimsMax) trims_.erase(trims_.begin());
  return trims_.emplace(name_space, std::make_unique<NamespaceWalk>(core_, name_space))
      .first->second.get();
}

Engine::Trimmed Evictor::TrimNamespace(std::string_view name_space, uint64_t bytes_max) {
  using Rest = Engine::Trimmed::Rest;
  const auto bytes = [&] { return core_->namespace_use.Of(name_space).bytes; };
  // A walk that an earlier step began ends with its trim, however that ends: it watches all lists.
  const auto end_with = [&](Rest rest) -> Engine::Trimmed {
    if (const auto at = trims_.find(name_space); at != trims_.end()) trims_.erase(at);
    return {bytes(), rest};
  };
  if (bytes() <= bytes_max) return end_with(Rest::kNone);
  if (!on()) return end_with(Rest::kHeld);
  touches_->Drain();
  NamespaceWalk* const walk = WalkOf(name_space);
  uint64_t looks = kTrimLooksMax;
  std::vector<Target> batch;
  for (uint64_t keys = 0; keys < kTrimKeysMax && bytes() > bytes_max; keys += batch.size()) {
    batch.clear();
    const uint64_t keys_max = std::min<uint64_t>(core_->options.evict_batch, kTrimKeysMax - keys);
    walk->Next(keys_max, bytes() - bytes_max, &looks, &batch);
    if (batch.empty() && !walk->at_end()) return {bytes(), Rest::kLater};
    if (batch.empty()) break;
    RetireBatch({}, &batch);
  }
  if (bytes() > bytes_max && !walk->at_end()) return {bytes(), Rest::kLater};
  return end_with(bytes() > bytes_max ? Rest::kHeld : Rest::kNone);
}

}  // namespace maru::engine
