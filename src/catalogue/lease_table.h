// What a process holds through its lease area: for each (page, generation) its slot and its counts.
// An open-addressed hash table with linear probing, so that a lease costs no allocation.
//
// Not thread-safe: Leases has one for each of its shards, under the shard's mutex.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/state_word.h"

namespace maru::catalogue {

struct LeaseEntry {
  // What an unanswered RETIRING left behind: the slot is filled, nothing is counted yet.
  enum class Pending : uint8_t { kNone = 0, kLease = 1, kPin = 2 };

  uint64_t word = 0;  // SlotWord without the pin mark; 0: no entry
  uint32_t slot = 0;
  uint32_t leases = 0;
  uint32_t pins = 0;
  Pending pending = Pending::kNone;

  bool held() const { return leases != 0 || pins != 0; }
};

class LeaseTable {
 public:
  // nullptr: not there. Stays valid until the next Insert or Erase.
  LeaseEntry* Find(layout::SlotWord word);
  const LeaseEntry* Find(layout::SlotWord word) const;
  // Makes room, so that the next Insert cannot fail.
  void ReserveOne();
  // REQUIRES: not there; ReserveOne was called since the last Insert.
  LeaseEntry* Insert(layout::SlotWord word);
  // REQUIRES: an entry of this table.
  void Erase(LeaseEntry* entry);

  uint64_t size() const { return size_; }
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const LeaseEntry& entry : entries_) {
      if (entry.word != 0) visit(entry);
    }
  }

 private:
  uint64_t Home(uint64_t word) const;

  std::vector<LeaseEntry> entries_;  // a power of two of them, at most 3/4 in use
  uint64_t size_ = 0;
};

}  // namespace maru::catalogue
