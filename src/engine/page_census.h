// Counts the records of a stock over several steps, while they change in between: how many pages
// are in each state and of each size, what is granted to whom, whose the live bytes are.
//
// Records below a frontier are counted. What a record counts for is taken off before it changes and
// added again after, read from the record itself and not from what the engine keeps beside it. So
// the census equals the engine's own counts exactly when the frontier has come to the end
// (docs/audit.md).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/clients.h"
#include "engine/engine.h"
#include "engine/namespace_use.h"
#include "engine/stock.h"

namespace maru::engine {

// Of one client over all pools.
struct ClientSums {
  uint64_t granted_bytes = 0, live_bytes = 0, live_pages = 0;
};
// By the client's serial. Those of clients that died meanwhile stay behind.
using ClientCensus = std::unordered_map<uint64_t, ClientSums>;

class PageCensus final : public StockWatch {
 public:
  // REQUIRES: all of them outlive this.
  PageCensus(Stock* stock, const Clients* clients, ClientCensus* by_client,
             NamespaceUse* by_namespace);
  ~PageCensus() override;
  PageCensus(const PageCensus&) = delete;
  PageCensus& operator=(const PageCensus&) = delete;

  // The first record that is not counted yet.
  uint64_t frontier() const { return frontier_; }
  // Counts the record at the frontier.
  void Advance();
  // Whatever comes to be from now on is counted as it comes.
  void Finish() { frontier_ = ~uint64_t{0}; }

  const Engine::PoolCounts& pages() const { return pages_; }
  uint64_t page_bytes_stored() const { return stored_bytes_; }
  struct SizeSums {
    uint64_t pages = 0, live = 0;
  };
  SizeSums OfSize(ClassIndex size_class) const;
  struct RegionSums {
    uint64_t live = 0, live_bytes = 0, condemned = 0;
  };
  RegionSums OfRegion(RegionSlot slot) const;
  const RegionSums& extents() const { return extents_; }

  void Before(RecordNumber record) override;
  void After(RecordNumber record) override;

 private:
  enum class Sign : uint8_t { kAdd, kTakeOff };
  void Count(RecordNumber record, Sign sign);
  void CountPage(RecordNumber record, ClassIndex size_class, Sign sign);
  void CountKey(RecordNumber record, const NamespaceUse::Use& use, Sign sign);
  void CountExtent(RecordNumber record, Sign sign);

  Stock* stock_;
  const Clients* clients_;
  ClientCensus* by_client_;
  NamespaceUse* by_namespace_;
  uint64_t frontier_ = 1;
  Engine::PoolCounts pages_;
  uint64_t stored_bytes_ = 0;
  std::vector<SizeSums> sizes_;
  std::unordered_map<RegionSlot, RegionSums> regions_;  // client-cut ones
  RegionSums extents_;                                  // of all of them
};

}  // namespace maru::engine
