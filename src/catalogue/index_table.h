// One table of the index as its writer sees it: where its entries lie in the pool and how many of
// them are used. Behaviour over shared slots; the counts are the process's own.
//
// Why no reader misses a key while slots change: for each entry at slot p with home h, no slot from
// h up to p is ever empty. So an insert may take a tombstone, and a removed entry becomes empty
// only when the slot after it is empty, since then no entry's way leads through it. Entries never
// move inside a table.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "layout/index.h"

namespace maru::catalogue {

// Is told of each store to a table that is in service, before it is made. `table`: its serial.
class TableWatch {
 public:
  virtual ~TableWatch() = default;
  virtual void Changes(uint64_t table, uint64_t slot, layout::IndexEntry from,
                       layout::IndexEntry to) = 0;
};

class IndexTable {
 public:
  using Watches = std::vector<TableWatch*>;
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  // How many tombstones before a removed entry are emptied with it, so that a removal is bounded.
  static constexpr int kEmptiedMax = 64;

  IndexTable() = default;
  // REQUIRES: capacity is a power of two; slots and watches outlive this. serial: of no other table
  // that the writer has had, greater than 0.
  IndexTable(std::atomic<uint64_t>* slots, uint64_t capacity, uint64_t serial,
             const Watches* watches)
      : slots_(slots), capacity_(capacity), serial_(serial), watches_(watches) {}

  bool exists() const { return slots_ != nullptr; }
  uint64_t capacity() const { return capacity_; }
  uint64_t serial() const { return serial_; }
  uint64_t entries() const { return entries_; }
  uint64_t tombstones() const { return tombstones_; }
  uint64_t filled() const { return entries_ + tombstones_; }

  uint64_t Home(const Hash128& hash) const { return layout::IndexEntry::Home(hash, capacity_); }
  uint64_t Next(uint64_t slot) const { return (slot + 1) & (capacity_ - 1); }
  // Relaxed: only the writer of the slot asks.
  layout::IndexEntry At(uint64_t slot) const {
    return layout::IndexEntry(slots_[slot].load(std::memory_order_relaxed));
  }
  void Prefetch(uint64_t slot) const { maru::Prefetch(&slots_[slot]); }

  // Stops at the first slot for which `stop` answers true; kNowhere after an empty slot or a whole
  // round.
  template <typename Stop>
  uint64_t Probe(uint64_t home, const Stop& stop) const {
    uint64_t slot = home;
    for (uint64_t tried = 0; tried < capacity_; ++tried, slot = Next(slot)) {
      const layout::IndexEntry entry = At(slot);
      if (entry.empty()) return kNowhere;
      if (stop(entry)) return slot;
    }
    return kNowhere;
  }
  // The slot of exactly this entry.
  uint64_t Find(uint64_t home, layout::IndexEntry entry) const;
  // The first slot that an insert may take: a tombstone or an empty one.
  uint64_t FirstFree(uint64_t home) const;

  // REQUIRES: the slot is empty or a tombstone.
  void Put(uint64_t slot, layout::IndexEntry entry);
  // An entry leaves the index: a tombstone, or empty where no way leads on.
  void Remove(uint64_t slot);
  // An entry has been copied to the successor: always a tombstone.
  void Bury(uint64_t slot);
  // Takes over all slots of a table of the same capacity. REQUIRES: it is empty and no table word
  // names it.
  void TakeOver(const IndexTable& draft);
  // Empties the slots [first, first + count). REQUIRES: no table word names the table.
  void Clear(uint64_t first, uint64_t count);

 private:
  // Release, with the acquire load of the reader's probe: who meets a tombstone that Bury left sees
  // the entry in the successor; who meets what an insert or Clear stored sees the table word and
  // the states of records that came before it.
  void Store(uint64_t slot, uint64_t bits) {
    for (TableWatch* const watch : *watches_) {
      watch->Changes(serial_, slot, At(slot), layout::IndexEntry(bits));
    }
    slots_[slot].store(bits, std::memory_order_release);
  }

  std::atomic<uint64_t>* slots_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t entries_ = 0;
  uint64_t tombstones_ = 0;
  uint64_t serial_ = 0;
  const Watches* watches_ = nullptr;
};

}  // namespace maru::catalogue
