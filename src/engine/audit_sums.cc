// The part of an audit that compares sums: of lists, of pools, of clients. Each is compared at one
// moment, when everything that it is made of has been counted.
#include <algorithm>
#include <string>

#include "engine/audit.h"

namespace maru::engine {

// --- Lists.

void AuditRun::CheckList(const std::string& what, uint64_t met, uint64_t counted) {
  if (met == counted) return;
  Offend(what + ": " + std::to_string(met) + " pages in the list, counted " +
         std::to_string(counted));
}

void AuditRun::CheckSizeLists(const Stock::SizeClass& size_class, ClassIndex index) {
  const std::string bytes = std::to_string(size_class.page_bytes);
  const uint64_t free = run().lists->Count(size_class.free);
  if (free != size_class.free_pages) {
    Offend(PoolName() + ": " + std::to_string(free) + " pages in the free list of " + bytes +
           " bytes, counted " + std::to_string(size_class.free_pages));
  }
  std::vector<PageLists::Id> lists;
  stock().recency().Lists(index, &lists);
  uint64_t live = 0;
  for (const PageLists::Id list : lists) live += run().lists->Count(list);
  if (live != size_class.live_pages) {
    Offend(PoolName() + ": " + std::to_string(live) + " pages in the lists of keys of " + bytes +
           " bytes, counted " + std::to_string(size_class.live_pages));
  }
}

void AuditRun::CheckClientLists(const Client& client) {
  const Client::Holding& holding = client.pools[pool_];
  if (!holding.present) return;
  const uint64_t granted =
      run().lists->Count(holding.granted) + run().lists->Count(holding.settled);
  if (granted == holding.granted_pages) return;
  Offend("client " + std::to_string(client.id.value()) + " in " + PoolName() + ": " +
         std::to_string(granted) + " pages in its lists, counted " +
         std::to_string(holding.granted_pages));
}

bool AuditRun::StepListSums() {
  // The sizes, whose classes never become fewer; behind them the clients, by serial.
  const size_t sizes = stock().classes().size();
  for (; cursor_ < sizes; ++cursor_) {
    if (!Take(kWorkPerClient)) return false;
    const ClassIndex index(static_cast<uint32_t>(cursor_));
    CheckSizeLists(stock().Class(index), index);
  }
  constexpr uint64_t kClients = Stock::kPageSizesMax;
  cursor_ = std::max(cursor_, kClients);
  while (const Client* const client = core_->clients.FromSerial(cursor_ - kClients)) {
    if (!Take(kWorkPerClient)) return false;
    CheckClientLists(*client);
    cursor_ = kClients + client->serial + 1;
  }
  const ListCensus& lists = *run().lists;
  CheckList(PoolName() + ", quarantined", lists.Count(stock().quarantined()),
            stock().counts().quarantined);
  CheckList(PoolName() + ", condemned",
            lists.Count(stock().condemned()) + lists.Count(stock().on_hold()),
            stock().counts().condemned);
  CheckList(PoolName() + ", condemned extents", lists.Count(stock().condemned_extents()),
            stock().extents_condemned());
  return true;
}

// --- Regions of pages: the pool's table and what the engine keeps of it.

bool AuditRun::StepRegions() {
  constexpr size_t kAtOnce = 64;
  while (true) {
    if (work_ == 0) return false;
    const auto regions =
        stock().pool().PageRegions(RegionSlot(static_cast<uint32_t>(cursor_)), kAtOnce);
    for (const pool::Pool::PageRegion& region : regions) {
      Take(kWorkPerRegion);
      cursor_ = region.slot.value() + 1;
      const auto found = stock().runs().find(region.first_record.value());
      if (found != stock().runs().end() && found->second.slot == region.slot &&
          found->second.count == region.page_count) {
        continue;
      }
      Offend(PoolName() + " region " + std::to_string(region.id.value()) +
             ": the server does not know it");
    }
    if (regions.size() < kAtOnce) return true;
  }
}

bool AuditRun::StepRuns() {
  while (true) {
    const auto at = stock().runs().lower_bound(static_cast<uint32_t>(cursor_));
    if (at == stock().runs().end()) return true;
    if (!Take(kWorkPerRegion)) return false;
    const auto& [first, run] = *at;
    cursor_ = uint64_t{first} + run.count;
    const auto regions = stock().pool().PageRegions(run.slot, 1);
    if (!regions.empty() && regions[0].slot == run.slot) continue;
    Offend(PoolName() + " region slot " + std::to_string(run.slot.value()) +
           ": no region of pages has it any more");
  }
}

// --- Of a pool.

void AuditRun::CheckPoolSums() {
  CheckSizes();
  CheckPoolCounts();
  const ClientRegions& regions = stock().client_regions();
  const PageCensus& pages = *run().pages;
  if (pages.extents().live != regions.extents() ||
      pages.extents().live_bytes != regions.live_bytes()) {
    Offend(PoolName() + ": " + std::to_string(pages.extents().live) + " extents of " +
           std::to_string(pages.extents().live_bytes) + " bytes, counted " +
           std::to_string(regions.extents()) + " and " + std::to_string(regions.live_bytes()));
  }
  const uint64_t stored = pages.page_bytes_stored() + regions.live_bytes();
  if (stored != stock().stored_bytes()) {
    Offend(PoolName() + ": " + std::to_string(stored) + " bytes are stored, counted " +
           std::to_string(stock().stored_bytes()));
  }
  // Each record has exactly one entry when none lacks one and there are no more of them.
  const uint64_t keyed = stock().counts().live + regions.extents();
  const uint64_t entries = stock().writer().usage().index_entries;
  if (entries != keyed) {
    Offend(Name(RecordNumber(0)) + "the index has " + std::to_string(entries) + " entries for " +
           std::to_string(keyed) + " keys");
  }
}

void AuditRun::CheckSizes() {
  for (uint32_t i = 0; i < stock().classes().size(); ++i) {
    const Stock::SizeClass& size_class = stock().Class(ClassIndex(i));
    const PageCensus::SizeSums is = run().pages->OfSize(ClassIndex(i));
    if (is.pages == size_class.pages && is.live == size_class.live_pages) continue;
    Offend(PoolName() + ", pages of " + std::to_string(size_class.page_bytes) + " bytes: " +
           std::to_string(is.pages) + ", " + std::to_string(is.live) + " live, counted " +
           std::to_string(size_class.pages) + " and " + std::to_string(size_class.live_pages));
  }
}

void AuditRun::CheckPoolCounts() {
  const Engine::PoolCounts& believed = stock().counts();
  const Engine::PoolCounts& is = run().pages->pages();
  const auto check = [&](const char* what, uint64_t counted, uint64_t expected) {
    if (counted == expected) return;
    Offend(PoolName() + ": " + std::to_string(counted) + " pages " + what + ", counted " +
           std::to_string(expected));
  };
  check("in all states, of all pages",
        is.free + is.quarantined + is.granted + is.live + is.retiring + is.condemned + is.worn,
        is.pages);
  check("in all", is.pages, believed.pages);
  check("free", is.free, believed.free);
  check("quarantined", is.quarantined, believed.quarantined);
  check("granted", is.granted, believed.granted);
  check("live", is.live, believed.live);
  check("condemned", is.condemned, believed.condemned);
  check("worn", is.worn, believed.worn);
}

// --- Clients.

bool AuditRun::StepClients() {
  while (const Client* const client = core_->clients.FromSerial(cursor_)) {
    if (!Take(kWorkPerClient)) return false;
    CheckClient(*client);
    cursor_ = client->serial + 1;
  }
  return true;
}

bool AuditRun::StepNamespaces() {
  const auto behind_last = [this](const NamespaceUse::Uses& uses) {
    return last_namespace_.has_value() ? uses.upper_bound(*last_namespace_) : uses.begin();
  };
  const NamespaceUse::Uses& counted = core_->namespace_use.all();
  const NamespaceUse::Uses& is = by_namespace_.all();
  while (true) {
    const auto a = behind_last(counted);
    const auto b = behind_last(is);
    if (a == counted.end() && b == is.end()) return true;
    if (!Take(1)) return false;
    const bool from_counted = b == is.end() || (a != counted.end() && a->first < b->first);
    last_namespace_ = from_counted ? a->first : b->first;
    const NamespaceUse::Use sum = by_namespace_.Of(*last_namespace_);
    const NamespaceUse::Use use = core_->namespace_use.Of(*last_namespace_);
    if (sum == use) continue;
    Offend("namespace \"" + *last_namespace_ + "\": " + std::to_string(sum.bytes) +
           " bytes of pages in " + std::to_string(sum.pages) + " keys and " +
           std::to_string(sum.extents) + " extents with " + std::to_string(sum.stored_bytes) +
           " bytes stored, counted " + std::to_string(use.bytes) + ", " +
           std::to_string(use.pages) + ", " + std::to_string(use.extents) + " and " +
           std::to_string(use.stored_bytes));
  }
}

void AuditRun::CheckClient(const Client& client) {
  const ClientSums& sum = by_client_[client.serial];
  if (sum.granted_bytes != client.granted_bytes || sum.live_bytes != client.live_bytes ||
      sum.live_pages != client.live_pages) {
    Offend("client " + std::to_string(client.id.value()) + ": " +
           std::to_string(sum.granted_bytes) + " bytes granted and " +
           std::to_string(sum.live_bytes) + " live in " + std::to_string(sum.live_pages) +
           " keys, counted " + std::to_string(client.granted_bytes) + ", " +
           std::to_string(client.live_bytes) + " and " + std::to_string(client.live_pages));
  }
  CheckPublished(client);
}

void AuditRun::CheckPublished(const Client& client) {
  // Who asks is never quiet. A tool that holds nothing leaves nothing unchecked either.
  if (client.serial == asker_ && client.granted_pages() == 0) return;
  // What a client publishes is compared when nothing is on its way: the last request that was
  // answered is the last of which it has taken the reply in. A page that moves from one of its
  // counts to another while they are read makes the sum wrong for a moment.
  for (int read = 0; read < kCountReadsMax; ++read) {
    uint64_t published = 0, pending = 0, last_request = 0;
    for (const std::unique_ptr<Stock>& stock : core_->stocks) {
      if (!client.pools[stock->index().value()].present) continue;
      const auto counts = stock->pool().leases().ReadPublished(client.slot);
      published += counts.free_pages + counts.pending_pages + counts.held_pages;
      pending += counts.pending_pages;
      last_request = std::max(last_request, counts.last_request);
    }
    // A page whose fate the client does not know is settled before it counts.
    if (client.last_answered == 0 || last_request != client.last_answered || pending != 0 ||
        client.unsettled) {
      return Unchecked("client " + std::to_string(client.id.value()) +
                       ": its published counts, it is not quiet");
    }
    if (published == client.granted_pages()) return;
    if (read + 1 < kCountReadsMax) continue;
    Offend("client " + std::to_string(client.id.value()) + " (" + client.label + "): it holds " +
           std::to_string(published) + " pages, " + std::to_string(client.granted_pages()) +
           " are granted to it");
  }
}

}  // namespace maru::engine
