// Room of a pool: takes free units, puts memory behind them and publishes them as a region, and
// frees them again. Knows nothing of records and keys; the pool (pool.h) puts both together.
//
// Not thread-safe: the server's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "layout/region.h"
#include "maru/result.h"
#include "pool/backing.h"
#include "pool/region_scan.h"
#include "pool/region_table.h"
#include "pool/unit_map.h"

namespace maru::pool {

class Carver {
 public:
  // Slots that are left to the catalogue: pages are cut only while more than these are free.
  static constexpr uint64_t kSlotsKept = 8;

  // Recovers the free units by scanning the region table alone, and writes nothing. DataLoss names
  // the slots that cannot be. REQUIRES: the backing outlives this; its superblock is valid.
  static Result<std::unique_ptr<Carver>> Open(Backing* backing);

  // Frees region tables that a crash has left unused and units of regions that have no pages, and
  // gives new ids to the regions of a pool that was being renumbered. To be called once, before
  // pages are cut.
  Status Mend();

  // A region of the catalogue: reserved, zeroed, published. ResourceExhausted when the pool has no
  // such room. REQUIRES: kind is one of the catalogue's; length is a multiple of the unit, not 0.
  Result<Region> Carve(layout::RegionKind kind, uint64_t length_bytes);

  // The same in steps, see catalogue::SpaceSource. ContinueCarve gives up what it cannot go on
  // with.
  Result<UnitRun> BeginCarve(uint64_t length_bytes);
  Status ContinueCarve(const UnitRun& run, uint64_t ready_units);
  Region EndCarve(layout::RegionKind kind, const UnitRun& run);

  // Pages and client-cut regions. Hold: units and a slot that is free; the table does not have
  // them yet. Then either Publish, which cannot fail, or GiveUp.
  struct Hold {
    UnitRun units;
    RegionId id{0};
  };
  // ReserveUnit brings the memory in, a unit at a time, and NameHold gives the id once there is
  // some: ids are not drawn for what the machine refuses. True: the pool did not have that memory
  // before, and DiscardUnit gives it back to the machine.
  Result<Hold> HoldBareUnits(uint64_t units);
  Result<bool> ReserveUnit(uint64_t unit);
  Status DiscardUnit(uint64_t unit);
  // All of that at once, for tests.
  Result<Hold> HoldUnits(uint64_t units);
  Status NameHold(Hold* hold);
  // `region`: kind and pages, or owner; the hold gives units and id.
  RegionSlot Publish(const Hold& hold, Region region);
  void GiveUp(const Hold& hold);
  // Of a region of pages that is published with units that have no memory yet. Grow: the first
  // page_count pages have it now. Shorten: the units behind the last page are free again, if any.
  void Grow(RegionSlot slot, uint32_t page_count) { table_.Grow(slot, page_count); }
  void Shorten(RegionSlot slot);

  // Of a client-cut region. REQUIRES: one has the slot.
  void EndOwner(RegionSlot slot) { table_.EndOwner(slot); }
  void SetLeaseDeadline(RegionSlot slot, uint64_t unix_ns) {
    table_.SetLeaseDeadline(slot, unix_ns);
  }
  void SetHoldUntil(RegionSlot slot, uint64_t unix_ns) { table_.SetHoldUntil(slot, unix_ns); }

  // The units are free again, merged with their neighbours. REQUIRES: the slot is in use.
  void Free(RegionSlot slot);

  const RegionTable& table() const { return table_; }
  const UnitMap& units() const { return units_; }
  // Whether `rooms` rooms of `room_units` each could be carved once a region of pages had taken
  // `units` of them (0: as it is). Changes nothing.
  bool FitsBeside(uint64_t units, uint64_t room_units, uint64_t rooms);

 private:
  Carver(Backing* backing, RegionScan scan);

  Result<UnitRun> TakeReserved(uint64_t count, UnitMap::Place place, os::PageHint pages);
  Result<UnitRun> TakeUnits(uint64_t count, UnitMap::Place place);
  Status EnsureSlots(uint64_t kept);
  Status AddTable();

  Backing* const backing_;
  RegionTable table_;
  UnitMap units_;
  uint64_t slots_held_ = 0;  // for Publish; never more than table_ has free
  std::vector<RegionSlot> unnamed_tables_;
  std::vector<RegionSlot> unfilled_;
  std::vector<RegionSlot> other_ids_;
};

}  // namespace maru::pool
