// The region table as the server changes it: slots taken and freed, ids given out. The bytes come
// first: a region is in the table from the store of its word on, and no longer from the store of
// kNone on; a crash between leaves one or the other.
//
// Not thread-safe: the server's. Readers of other processes read the bytes beside it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "layout/region.h"
#include "layout/superblock.h"
#include "maru/result.h"
#include "pool/region_scan.h"

namespace maru::pool {

class RegionTable {
 public:
  // REQUIRES: base is mapped read-write for `bytes` and outlives this; the scan is of these bytes
  // and has no offences.
  RegionTable(std::byte* base, uint64_t bytes, const RegionScan& scan);

  // Slots that Publish can still use.
  uint64_t free_slots() const;
  // Stores the region in a free slot, which it returns; `region.slot` is not looked at.
  // REQUIRES: free_slots() > 0; the units have memory behind them and are in no other region.
  RegionSlot Publish(Region region);
  // REQUIRES for both: a region of pages has the slot. Grow: the pages that are new have memory
  // behind them and are in its length.
  void Grow(RegionSlot slot, uint32_t page_count);
  // REQUIRES: all of its pages lie in the new length.
  void Shorten(RegionSlot slot, uint64_t length_bytes);
  // REQUIRES: the slot is in use.
  void Withdraw(RegionSlot slot);
  void ChangeId(RegionSlot slot, RegionId id);
  // REQUIRES for both: a client-cut region has the slot.
  void EndOwner(RegionSlot slot);
  void SetLeaseDeadline(RegionSlot slot, uint64_t unix_ns);
  void SetHoldUntil(RegionSlot slot, uint64_t unix_ns);

  // Whether the directory has room for a further table.
  bool CanAddTable() const { return tables_ < layout::kRegionTablesMax; }
  // REQUIRES: CanAddTable(); the unit is zero and published as a region of kRegionTable.
  void AddTable(uint64_t unit);

  // An id that no region of this pool ever had; stored as used before it is returned.
  // ResourceExhausted when all kRegionIdsPerPool were used.
  Result<RegionId> NextId();
  uint32_t id_base() const { return id_base_; }

  // nullptr: not in use.
  const Region* Find(RegionSlot slot) const;
  // Of a region that has an id; nullptr: none.
  const Region* ById(RegionId id) const;
  const std::map<RegionSlot, Region>& regions() const { return regions_; }
  uint64_t BytesOf(layout::RegionKind kind) const;

 private:
  layout::RegionRecord& Record(RegionSlot slot);
  RegionSlot TakeSlot();

  std::byte* const base_;
  const uint64_t bytes_;
  layout::Root& root_;
  const uint32_t id_base_;
  uint32_t tables_ = 0;         // further tables that the directory names
  uint32_t slots_high_ = 0;     // slots below it were used before
  std::vector<uint32_t> cuts_;  // of each slot
  // Slots below slots_high_ that are free, the lowest first.
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> free_;
  std::map<RegionSlot, Region> regions_;
  std::unordered_map<RegionId, RegionSlot> by_id_;
  std::array<uint64_t, layout::kRegionKindLast + 1> bytes_of_{};
};

}  // namespace maru::pool
