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
  // Memory takes time that others wait for, a millisecond or so a unit: with so many units brought
  // in, a grant takes what pages there are.
  static constexpr int kCutUnitsPerGrant = 4;

  Granting(Core* core, Retirement* retirement, Evictor* evictor)
      : core_(core), retirement_(retirement), evictor_(evictor) {}

  // 1 to count pages, or why none. None and no error: a page is being cut that is larger than what
  // one step brings in; whoever asks again is that much nearer to it. Evicts one batch at most that
  // frees a page: a cache is full most of the time, so a page that is asked for costs a key; but no
  // more keys than a batch.
  Status Grant(Client* client, uint64_t page_bytes, uint32_t count,
               std::vector<wire::PageRef>* pages);

 private:
  // How many of the pages the budget has room for, after the client's own least recently used keys
  // have gone.
  Result<uint32_t> FitBudget(Client* client, uint64_t page_bytes, uint32_t count);
  // Free pages, from the pools in order.
  void TakeFree(Client* client, uint64_t page_bytes, uint32_t count,
                std::vector<wire::PageRef>* pages);
  // Units of regions of that size, until there are pages enough or kCutUnitsPerGrant of them.
  void Cut(Client* client, uint64_t page_bytes, uint32_t count, std::vector<wire::PageRef>* pages);
  // One unit in the pool that cuts a region of that size, else in the first that has room for one.
  // False: none has.
  bool CutUnit(uint64_t page_bytes);
  bool Cutting(uint64_t page_bytes) const;
  uint64_t RegionBytes(const Stock& stock, uint64_t page_bytes) const;
  Status NothingMayGo(uint64_t page_bytes) const;

  Core* core_;
  Retirement* retirement_;
  Evictor* evictor_;
};

}  // namespace maru::engine
