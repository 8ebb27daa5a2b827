// Pages for a client to write: within its budget, from the pools in order; what is free first, then
// a region cut anew, then what a dead client left, then what eviction frees.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core.h"
#include "engine/evict.h"
#include "engine/retire.h"
#include "wire/messages.h"

namespace maru::engine {

class Granting {
 public:
  // Batches that one grant evicts at most before it says that nothing may go.
  static constexpr int kEvictRoundsMax = 64;
  // Reserving a region takes time that others wait for: with so much of it cut, a grant takes what
  // pages there are.
  static constexpr uint64_t kCutBytesPerGrant = 64ull << 20;

  Granting(Core* core, Retirement* retirement, Evictor* evictor)
      : core_(core), retirement_(retirement), evictor_(evictor) {}

  // 1 to count pages, or why none. Evicts one batch at most that frees a page: a cache is full most
  // of the time, so a page that is asked for costs a key; but no more keys than a batch.
  Status Grant(Client* client, uint64_t page_bytes, uint32_t count,
               std::vector<wire::PageRef>* pages);

 private:
  // How many of the pages the budget has room for, after the client's own least recently used keys
  // have gone.
  Result<uint32_t> FitBudget(Client* client, uint64_t page_bytes, uint32_t count);
  // Free pages, from the pools in order.
  void TakeFree(Client* client, uint64_t page_bytes, uint32_t count,
                std::vector<wire::PageRef>* pages);
  // A region of that page size, in the first pool that has room. Returns its bytes; 0: none has.
  uint64_t CutRegion(uint64_t page_bytes);
  uint64_t RegionBytes(const Stock& stock, uint64_t page_bytes) const;
  Status NothingMayGo(uint64_t page_bytes) const;

  Core* core_;
  Retirement* retirement_;
  Evictor* evictor_;
};

}  // namespace maru::engine
