#include "engine/recover.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"

namespace maru::engine {

using layout::PageState;

namespace {

// Keys whose records are asked for before they are taken over.
constexpr size_t kAhead = 16;

std::string LabelOf(const layout::ClientRecord& record) {
  const char* const label = reinterpret_cast<const char*>(record.label);
  return std::string(label, std::find(label, label + layout::kLabelBytes, '\0'));
}

// Of two pools: whether one attachment wrote both. Slots and ids are counted anew in each pool, so
// that the first clients of two pools that were served apart have the same.
bool SameClient(const layout::ClientRecord& a, const layout::ClientRecord& b) {
  // Relaxed: the server that stored them is gone, and its lock with it.
  const auto same = [](const std::atomic<uint64_t>& one, const std::atomic<uint64_t>& other) {
    return one.load(std::memory_order_relaxed) == other.load(std::memory_order_relaxed);
  };
  return same(a.client_id, b.client_id) && same(a.process, b.process) &&
         same(a.attached_unix_ns, b.attached_unix_ns) && LabelOf(a) == LabelOf(b);
}

}  // namespace

void Recovery::Run() {
  // All clients first: Clients knows each by every pool that it is present in.
  for (const std::unique_ptr<Stock>& stock : core_->stocks) TakeOverClients(stock.get());
  for (const std::unique_ptr<Stock>& stock : core_->stocks) TakeOverPages(stock.get());
  for (const std::unique_ptr<Stock>& stock : core_->stocks) TakeOverExtents(stock.get());
  for (size_t i = 1; i < core_->stocks.size(); ++i) RetireSecondKeys(core_->stocks[i].get());
}

void Recovery::TakeOverClients(Stock* stock) {
  catalogue::LeaseAreas& leases = stock->pool().leases();
  for (const ClientSlot slot : leases.Clients()) {
    const layout::ClientRecord& record = leases.Record(slot);
    // Relaxed: the server that stored them is gone, and its lock with it.
    const ClientId id(static_cast<uint32_t>(record.client_id.load(std::memory_order_relaxed)));
    if (core_->clients.ById(stock->index(), id) != nullptr) {
      // Honoured already, with the first pool that knows it.
      if (core_->clients.BySlot(stock->index(), slot) != nullptr) continue;
      LogWarning("client " + std::to_string(id.value()) + " is named twice in " +
                 stock->pool().name() + ": the second is dropped");
      leases.DropClient(slot);
      continue;
    }
    auto client = std::make_unique<Client>();
    client->id = id;
    client->slot = slot;
    client->label = LabelOf(record);
    client->budget_bytes = record.budget_bytes.load(std::memory_order_relaxed);
    const uint64_t process = record.process.load(std::memory_order_relaxed);
    client->peer = {static_cast<uint32_t>(process), static_cast<uint32_t>(process >> 32)};
    client->attached_unix_ns = record.attached_unix_ns.load(std::memory_order_relaxed);
    client->pools.resize(core_->stocks.size());
    for (const std::unique_ptr<Stock>& other : core_->stocks) {
      if (other->index() < stock->index()) continue;  // there it would have been met before
      const std::vector<ClientSlot> slots = other->pool().leases().Clients();
      if (std::find(slots.begin(), slots.end(), slot) == slots.end()) continue;
      if (!SameClient(record, other->pool().leases().Record(slot))) continue;
      client->pools[other->index().value()].present = true;
    }
    if (!core_->Lives(*client)) {
      leases.DropClient(slot);  // in a later pool of its own it is met again
      continue;
    }
    for (const std::unique_ptr<Stock>& other : core_->stocks) {
      if (client->pools[other->index().value()].present) other->Welcome(client.get());
    }
    // What the server of before wanted back is its affair.
    if (stock->index() == PoolIndex(0)) leases.SetRecall(slot, 0);
    core_->clients.Add(std::move(client));
  }
}

uint64_t Recovery::HoldMax(const Stock& stock) const {
  return stock.pool().new_boot() ? 0 : core_->NowUnix() + core_->options.wire_hold_ns;
}

void Recovery::BoundHold(Stock* stock, RecordNumber record) {
  const layout::PageRecord* const page = stock->pool().view().Record(record);
  const uint64_t hold = page->hold_until_unix_ns.load(std::memory_order_relaxed);
  if (hold == 0) return;
  const PageState state = stock->State(record).state();
  if (state != PageState::kLive && state != PageState::kCondemned) return;
  if (hold > HoldMax(*stock)) stock->writer().SetHoldUntil(record, HoldMax(*stock));
}

void Recovery::TakeOverPages(Stock* stock) {
  std::vector<std::pair<uint64_t, RecordNumber>> by_last_use;
  by_last_use.reserve(stock->pool().recovery().live);
  uint64_t tick = stock->pool().view().root().use_tick.load(std::memory_order_relaxed);
  for (const pool::Pool::PageRegion& region : stock->pool().PageRegions()) {
    stock->AdoptRegion(region);
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      BoundHold(stock, record);
      if (stock->State(record).state() != PageState::kLive) {
        stock->Adopt(record, core_->now_ns);
        continue;
      }
      const uint64_t use = stock->recency().LastUse(record);
      tick = std::max(tick, use);
      by_last_use.emplace_back(use, record);
    }
  }
  std::sort(by_last_use.begin(), by_last_use.end());
  // In no order of memory: the records ahead are on their way while these are taken over.
  for (size_t i = 0; i < by_last_use.size(); ++i) {
    if (i + kAhead < by_last_use.size()) stock->PrefetchUse(by_last_use[i + kAhead].second);
    stock->Adopt(by_last_use[i].second, core_->now_ns);
  }
  core_->use_tick = std::max(core_->use_tick, tick);
}

void Recovery::TakeOverExtents(Stock* stock) {
  for (pool::Pool::ClientRegion& region : stock->pool().ClientRegions()) {
    if (region.hold_until_unix_ns > HoldMax(*stock)) {
      region.hold_until_unix_ns = HoldMax(*stock);
      stock->pool().SetHoldUntil(region.slot, region.hold_until_unix_ns);
    }
    stock->AdoptClientRegion(region);
  }
  for (const RecordNumber record : stock->pool().Extents()) {
    stock->AdoptExtent(record);
    if (stock->State(record).state() != PageState::kLive) continue;
    core_->use_tick = std::max(core_->use_tick, stock->recency().LastUse(record));
  }
  // What a server left that died before it could let them go.
  std::vector<RegionSlot> slots;
  for (const auto& [slot, region] : stock->client_regions().all()) slots.push_back(slot);
  for (const RegionSlot slot : slots) {
    stock->client_regions().DropIfIdle(stock->client_regions().BySlot(slot));
  }
  stock->client_regions().EndHolds(core_->NowUnix());
}

void Recovery::AddSecond(Stock* stock, RecordNumber record, std::vector<Target>* second) const {
  if (stock->State(record).state() != PageState::kLive) return;
  const catalogue::Writer::StoredKey key = stock->writer().KeyOf(record);
  const layout::PageRecord* const page = stock->pool().view().Record(record);
  const catalogue::KeyRef ref{key.name_space,
                              key.key,
                              {page->hash_low.load(std::memory_order_relaxed),
                               page->hash_high.load(std::memory_order_relaxed)}};
  Core::Hit hit;
  if (!core_->Find(ref, &hit) || hit.stock == stock) return;
  second->push_back({stock, record, Target::Fate::kSpared});
}

void Recovery::RetireSecondKeys(Stock* stock) {
  std::vector<Target> second;
  for (const pool::Pool::PageRegion& region : stock->pool().PageRegions()) {
    for (uint32_t i = 0; i < region.page_count; ++i) {
      AddSecond(stock, RecordNumber(region.first_record.value() + i), &second);
    }
  }
  for (const RecordNumber record : stock->pool().Extents()) AddSecond(stock, record, &second);
  if (second.empty()) return;
  retirement_->Retire(second, Cause::kSecondKey);
  LogWarning(std::to_string(second.size()) + " keys of " + stock->pool().name() +
             " are in an earlier pool as well: their pages here come back");
}

}  // namespace maru::engine
