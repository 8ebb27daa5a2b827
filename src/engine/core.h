// What the parts of the engine share. Each part takes a Core and keeps nothing of its own between
// two steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "catalogue/key.h"
#include "engine/asked_regions.h"
#include "engine/asked_registers.h"
#include "engine/client_regions.h"
#include "engine/clients.h"
#include "engine/endpoint_names.h"
#include "engine/engine.h"
#include "engine/namespace_use.h"
#include "engine/region_leases.h"
#include "engine/rm_clients.h"
#include "engine/stats_book.h"
#include "engine/stock.h"

namespace maru::engine {

// Since this server started.
struct Counters {
  uint64_t requests = 0, errors = 0;
  uint64_t attached = 0, returned = 0, died = 0;
  uint64_t pages_granted = 0, pages_given_back = 0, grants_refused = 0;
  uint64_t registered = 0, duplicates = 0, stale = 0, rejected = 0;
  uint64_t deleted = 0, delete_missing = 0, delete_pinned = 0;
  uint64_t evicted = 0, evicted_for_budget = 0, eviction_spared = 0;
  uint64_t resolved = 0, found = 0, find_missed = 0, touches = 0;
  uint64_t settled_kept = 0, settled_live = 0, settled_gone = 0, settled_returned = 0;
  uint64_t lease_scans = 0, regions_cut = 0, regions_freed = 0, recalled = 0;
  // Of clients that cut their regions by themselves.
  uint64_t client_regions_cut = 0, client_regions_refused = 0, client_regions_ended = 0;
  uint64_t extents_registered = 0, extents_refused = 0, extents_overwritten = 0;
  uint64_t overwritten_while_held = 0;  // those of them that were leased or pinned
};

struct Core {
  Core(EngineOptions engine_options, uint32_t pools)
      : options(std::move(engine_options)),
        // Of the one size that is right.
        handle_mac(wire::auth::HandleMac::Create(options.handle_key).value()),
        clients(pools) {}

  EngineOptions options;
  wire::auth::HandleMac handle_mac;
  Liveness* liveness = nullptr;
  uint64_t epoch = 0;
  uint64_t started_ns = 0, started_unix_ns = 0;
  uint64_t now_ns = 0;    // of the step under way
  uint64_t last_ns = 0;   // of the one before
  uint64_t use_tick = 0;  // the clock of last_use: grows with each use that is known
  Clients clients;
  RegionUsages region_usage;
  NamespaceUse namespace_use;
  EndpointNames endpoint_names;
  RegionLeases region_leases;
  AskedRegions asked_regions;
  AskedRegisters asked_registers;
  RmClients rm_clients;
  StatsBooks stats_books;
  uint64_t next_refusal_log_ns = 0;
  std::vector<std::unique_ptr<Stock>> stocks;  // by pool
  Counters counters;

  uint64_t NowUnix() const { return started_unix_ns + (now_ns - started_ns); }

  // The bytes of that key were told to a reader that holds no lease, for longer than now.
  bool OnHold(const Stock& stock, RecordNumber record) const {
    return HoldEnd(stock, record) > NowUnix();
  }
  static uint64_t HoldEnd(const Stock& stock, RecordNumber record) {
    // Relaxed: this process wrote it.
    return stock.pool().view().Record(record)->hold_until_unix_ns.load(std::memory_order_relaxed);
  }
  // A process holds one of the client's locks. In a pool that it does not know, the lock of its
  // slot is another's.
  bool Lives(const Client& client) const {
    for (const std::unique_ptr<Stock>& stock : stocks) {
      const bool present = client.pools[stock->index().value()].present;
      if (present && liveness->Held(client.slot, stock->index())) return true;
    }
    return false;
  }
  // Pins that came over a wire that names no client.
  static bool GloballyPinned(const Stock& stock, RecordNumber record) {
    // Relaxed: this process wrote it.
    return stock.pool().view().Record(record)->global_pins.load(std::memory_order_relaxed) != 0;
  }

  struct Hit {
    Stock* stock = nullptr;
    RecordNumber record{0};
    layout::StateWord state;
  };
  // LIVE (or RETIRING, within a step) under that key, in the first pool that has it.
  bool Find(const catalogue::KeyRef& key, Hit* hit) const {
    for (const std::unique_ptr<Stock>& stock : stocks) {
      catalogue::Writer::Hit in_pool;
      if (!stock->writer().Lookup(key, &in_pool)) continue;
      *hit = {stock.get(), in_pool.record, in_pool.state};
      return true;
    }
    return false;
  }

  // Frees regions of pages that nobody uses, but those of the size to be kept: what they take is
  // room for everything else. How many.
  uint32_t FreeIdleRegions(Stock* stock, uint64_t kept_page_bytes) {
    // In a cache of one page size, which is full most of the time, there is nothing to look at.
    const auto may_be_idle = [kept_page_bytes](const Stock::SizeClass& other) {
      return other.page_bytes != kept_page_bytes && other.free_pages > 0;
    };
    if (std::ranges::none_of(stock->classes(), may_be_idle)) return 0;
    const uint32_t freed = stock->FreeWholeIdleRegions(kept_page_bytes);
    counters.regions_freed += freed;
    return freed;
  }

  // The stock of a page that a client names; nullptr when no page has that name.
  Stock* StockOf(const wire::PageRef& page) const {
    if (page.pool.value() >= stocks.size()) return nullptr;
    Stock* const stock = stocks[page.pool.value()].get();
    return stock->Known(page.record) ? stock : nullptr;
  }
  // The same, while that life of the page is granted to the client; else nullptr.
  Stock* GrantedStock(const wire::PageRef& page, const Client& client) const {
    Stock* const stock = StockOf(page);
    const bool granted =
        stock != nullptr &&
        stock->State(page.record) ==
            layout::StateWord::Make(layout::PageState::kGranted, page.generation, client.slot);
    return granted ? stock : nullptr;
  }
};

}  // namespace maru::engine
