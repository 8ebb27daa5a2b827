// Pages for a client to write: within its budget, from the pools in order; what is free first, then
// a region cut anew, then what a dead client left, then what eviction frees. A pool in which keys
// find no room (Stock::KeysFit) is passed over while a later one has, or can cut, a page.
#pragma once

#include <cstdint>
#include <string>
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
  // one step brings in; whoever asks again is that much nearer to it. Where none is free, keys go
  // for one page: however many are asked for, the caller waits for one. A batch of the evictor's at
  // most that frees a page, of which the other pages are free as well.
  Status Grant(Client* client, uint64_t page_bytes, uint32_t count,
               std::vector<wire::PageRef>* pages);
  // 0 to count pages that nobody waits for: what is free, and within the client's budget. Keys
  // go only where the pool is full and nothing is granted to the client any more, a sixteenth of
  // those of that page size at most.
  void Refill(Client* client, uint64_t page_bytes, uint32_t count,
              std::vector<wire::PageRef>* pages);

  // Another pool, in which keys find room, has a free page of that size, or cuts one.
  bool HasPageBeside(const Stock& stock, uint64_t page_bytes);

 private:
  // Of which pools pages are granted.
  enum class Pools : uint8_t {
    kAll,      // in order; where keys find room in none, first the one whose key is to go next
    kKeysFit,  // in order, but for those in which keys find no room
  };
  Pools FirstChoice() const;
  static bool Among(Pools pools, const Stock& stock) {
    return pools == Pools::kAll || stock.KeysFit();
  }
  // The one that has the least recently used key of that page size; nullptr: there is no such key.
  Stock* PoolOfOldest(uint64_t page_bytes) const;
  // Where keys find no room a page costs a key of that pool, and the key whose turn it is lies in
  // another pool.
  bool KeysGoElsewhere(uint64_t page_bytes) const;

  // Keys of a page size, of which one batch may go for a refill: it is a sixteenth of them.
  static constexpr uint64_t kLivePerRefill = 16;

  // What makes no sense, and else both as they are used.
  static Status Check(uint64_t* page_bytes, uint32_t* count);
  // What the machine refuses is told, but not each time.
  static constexpr uint64_t kMemoryLogNs = 10'000'000'000;
  void WarnOfMemory(const Stock& stock);
  // How many of the pages the budget has room for as it is.
  static uint32_t BudgetRoom(const Client& client, uint64_t page_bytes, uint32_t count);
  // The same, 1 or more, after as many of the client's own least recently used keys have gone as
  // one page takes.
  Result<uint32_t> FitBudget(Client* client, uint64_t page_bytes, uint32_t count);
  static void TakeFree(Stock* stock, Client* client, uint64_t page_bytes, uint32_t count,
                       std::vector<wire::PageRef>* pages);
  void TakeFree(Pools pools, Client* client, uint64_t page_bytes, uint32_t count,
                std::vector<wire::PageRef>* granted);
  // The same, after what dead clients left, and what waits for its last lease no more, is free.
  void TakeReturned(Pools pools, Client* client, uint64_t page_bytes, uint32_t count,
                    std::vector<wire::PageRef>* granted);
  // What regions of other sizes that nobody uses make room for, then pages of pools in which keys
  // find no room. True: none yet, but a page is being cut that is larger than a step.
  bool TakeUnused(Pools first, Client* client, uint64_t page_bytes, uint32_t count,
                  std::vector<wire::PageRef>* granted);
  // Pages of keys that go for it.
  void TakeEvicted(Client* client, uint64_t page_bytes, uint32_t count,
                   std::vector<wire::PageRef>* granted);
  // Units of regions of that size, until there are pages enough or kCutUnitsPerGrant of them.
  void Cut(Pools pools, Client* client, uint64_t page_bytes, uint32_t count,
           std::vector<wire::PageRef>* granted);
  // One unit in the pool that cuts a region of that size, else in the first that has room for one.
  // False: none has.
  bool CutUnit(Pools pools, uint64_t page_bytes);
  // The same in that pool, of a region that is begun.
  bool BeginCut(Stock* stock, uint64_t page_bytes);
  bool Cutting(Pools pools, uint64_t page_bytes) const;
  // Regions of pages of other sizes that nobody uses. How many.
  uint32_t FreeOtherSizes(Pools pools, uint64_t page_bytes);
  uint64_t RegionBytes(const Stock& stock, uint64_t page_bytes) const;
  Status NothingMayGo(uint64_t page_bytes) const;
  // "52 of 1MiB, 128 of 4KiB": the pages that there are, of the first few sizes.
  std::string PagesThere() const;

  Core* core_;
  Retirement* retirement_;
  Evictor* evictor_;
  uint64_t next_memory_log_ns_ = 0;
};

}  // namespace maru::engine
