#include "pool/carver.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/sequence_point.h"
#include "base/units.h"
#include "layout/text.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::RegionKind;

constexpr uint64_t kUnit = layout::kUnitBytes;

UnitRun UnitsOf(const Region& region) {
  return {region.offset_bytes / kUnit, region.length_bytes / kUnit};
}

Status Refusal(const std::string& name, const RegionScan& scan) {
  std::string text = Concat("pool ", name, ": ", scan.offences.front());
  if (scan.offence_count > 1) text += Concat("; and ", scan.offence_count - 1, " more");
  return DataLoss(text + "; `maru pool check` lists what is wrong");
}

}  // namespace

Result<std::unique_ptr<Carver>> Carver::Open(Backing* backing) {
  RegionScan scan = ScanRegions(backing->base(), backing->bytes());
  if (scan.offence_count > 0) return Refusal(backing->name(), scan);
  return std::unique_ptr<Carver>(new Carver(backing, std::move(scan)));
}

Carver::Carver(Backing* backing, RegionScan scan)
    : backing_(backing),
      table_(backing->base(), backing->bytes(), scan),
      units_(backing->bytes() / kUnit),
      unnamed_tables_(std::move(scan.unnamed_tables)),
      unfilled_(std::move(scan.unfilled)),
      other_ids_(std::move(scan.other_ids)) {
  // Regions come by offset and do not overlap: what lies between them is free.
  uint64_t next = layout::kHeadBytes / kUnit;
  for (const Region& region : scan.regions) {
    const UnitRun run = UnitsOf(region);
    if (run.first > next) units_.Release({next, run.first - next});
    next = run.first + run.count;
  }
  if (next < units_.units()) units_.Release({next, units_.units() - next});
}

Status Carver::Mend() {
  for (const RegionSlot slot : std::exchange(unnamed_tables_, {})) Free(slot);
  for (const RegionSlot slot : std::exchange(unfilled_, {})) Shorten(slot);
  for (const RegionSlot slot : std::exchange(other_ids_, {})) {
    MARU_ASSIGN_OR_RETURN(const RegionId id, table_.NextId());
    table_.ChangeId(slot, id);
  }
  return OkStatus();
}

Result<UnitRun> Carver::TakeUnits(uint64_t count, UnitMap::Place place) {
  const std::optional<UnitRun> run = units_.Take(count, place);
  if (run) return *run;
  return ResourceExhausted(Concat("pool ", backing_->name(), " has no room for ",
                                  FormatSize(count * kUnit), ": ",
                                  FormatSize(units_.free_units() * kUnit), " are free, ",
                                  FormatSize(units_.largest_run() * kUnit), " in one piece"));
}

Result<UnitRun> Carver::TakeReserved(uint64_t count, UnitMap::Place place, os::PageHint pages) {
  MARU_ASSIGN_OR_RETURN(const UnitRun run, TakeUnits(count, place));
  if (Status status = backing_->Reserve(run.first * kUnit, run.count * kUnit, pages);
      !status.ok()) {
    units_.Release(run);
    return status;
  }
  MARU_PUBLICATION_POINT("carve:reserved");
  return run;
}

Status Carver::EnsureSlots(uint64_t kept) {
  const uint64_t available = table_.free_slots() - slots_held_;
  if (available > kept + 1) return OkStatus();
  // A further table takes one of the slots that are left, so it is made before they are gone.
  if (available > 0 && table_.CanAddTable() && AddTable().ok()) return OkStatus();
  if (table_.free_slots() - slots_held_ > kept) return OkStatus();
  return ResourceExhausted(
      Concat("pool ", backing_->name(), ": the region table is full and cannot grow: ",
             table_.regions().size(), " regions, ", units_.free_units(), " units free"));
}

Status Carver::AddTable() {
  MARU_ASSIGN_OR_RETURN(const UnitRun run,
                        TakeReserved(1, UnitMap::Place::kHighest, os::PageHint::kDefault));
  std::memset(backing_->base() + run.first * kUnit, 0, kUnit);
  Region region;
  region.kind = RegionKind::kRegionTable;
  region.offset_bytes = run.first * kUnit;
  region.length_bytes = kUnit;
  table_.Publish(region);
  table_.AddTable(run.first);
  return OkStatus();
}

Result<Region> Carver::Carve(RegionKind kind, uint64_t length_bytes) {
  MARU_ASSIGN_OR_RETURN(const UnitRun run, BeginCarve(length_bytes));
  for (uint64_t ready = 0; ready < run.count; ++ready) {
    MARU_RETURN_IF_ERROR(ContinueCarve(run, ready));
  }
  return EndCarve(kind, run);
}

Result<UnitRun> Carver::BeginCarve(uint64_t length_bytes) {
  MARU_CHECK(length_bytes > 0 && IsAligned(length_bytes, kUnit)) << length_bytes << " bytes";
  MARU_RETURN_IF_ERROR(EnsureSlots(0));
  MARU_ASSIGN_OR_RETURN(const UnitRun run,
                        TakeUnits(length_bytes / kUnit, UnitMap::Place::kHighest));
  ++slots_held_;
  return run;
}

Status Carver::ContinueCarve(const UnitRun& run, uint64_t ready_units) {
  MARU_CHECK_LT(ready_units, run.count);
  const uint64_t offset_bytes = (run.first + ready_units) * kUnit;
  // Readers touch it all over, and with small pages each look-up would wait for the page table too.
  if (Status status = backing_->Reserve(offset_bytes, kUnit, os::PageHint::kHuge); !status.ok()) {
    GiveUp({run, RegionId(0)});
    return status;
  }
  // Always, also where fresh memory is zero by itself: the units may have held anything, before
  // this start as well, and 2 MiB take a fraction of a millisecond.
  std::memset(backing_->base() + offset_bytes, 0, kUnit);
  MARU_PUBLICATION_POINT("carve:reserved");
  return OkStatus();
}

Region Carver::EndCarve(RegionKind kind, const UnitRun& run) {
  MARU_CHECK(kind != RegionKind::kNone && kind != RegionKind::kPages &&
             kind != RegionKind::kClientCut && kind != RegionKind::kRegionTable)
      << "kind " << kind;
  Region region;
  region.kind = kind;
  region.slot = Publish({run, RegionId(0)}, region);
  return *table_.Find(region.slot);
}

Result<Carver::Hold> Carver::HoldUnits(uint64_t units) {
  MARU_ASSIGN_OR_RETURN(Hold hold, HoldBareUnits(units));
  Status status;
  for (uint64_t i = 0; status.ok() && i < units; ++i) {
    status = ReserveUnit(hold.units.first + i).status();
  }
  if (status.ok()) status = NameHold(&hold);
  if (status.ok()) return hold;
  GiveUp(hold);
  return status;
}

Result<Carver::Hold> Carver::HoldBareUnits(uint64_t units) {
  MARU_RETURN_IF_ERROR(EnsureSlots(kSlotsKept));
  MARU_ASSIGN_OR_RETURN(const UnitRun run, TakeUnits(units, UnitMap::Place::kBestFit));
  ++slots_held_;
  return Hold{run, RegionId(0)};
}

Status Carver::NameHold(Hold* hold) {
  MARU_ASSIGN_OR_RETURN(hold->id, table_.NextId());
  return OkStatus();
}

Result<bool> Carver::ReserveUnit(uint64_t unit) {
  MARU_ASSIGN_OR_RETURN(const bool is_new, backing_->ReserveNew(unit * kUnit, kUnit));
  MARU_PUBLICATION_POINT("carve:reserved");
  return is_new;
}

Status Carver::DiscardUnit(uint64_t unit) { return backing_->Discard(unit * kUnit, kUnit); }

RegionSlot Carver::Publish(const Hold& hold, Region region) {
  MARU_CHECK_GT(slots_held_, 0u);
  --slots_held_;
  region.offset_bytes = hold.units.first * kUnit;
  region.length_bytes = hold.units.count * kUnit;
  region.id = hold.id;
  return table_.Publish(region);
}

void Carver::GiveUp(const Hold& hold) {
  MARU_CHECK_GT(slots_held_, 0u);
  --slots_held_;
  units_.Release(hold.units);
}

void Carver::Shorten(RegionSlot slot) {
  const Region* region = table_.Find(slot);
  MARU_CHECK(region != nullptr) << "region slot " << slot;
  const UnitRun run = UnitsOf(*region);
  const uint64_t filled = region->filled_bytes() / kUnit;
  if (filled == run.count) return;
  table_.Shorten(slot, filled * kUnit);
  units_.Release({run.first + filled, run.count - filled});
}

void Carver::Free(RegionSlot slot) {
  const Region* region = table_.Find(slot);
  MARU_CHECK(region != nullptr) << "region slot " << slot;
  const UnitRun run = UnitsOf(*region);
  table_.Withdraw(slot);
  units_.Release(run);
}

bool Carver::FitsBeside(uint64_t units, uint64_t room_units, uint64_t rooms) {
  std::vector<UnitRun> taken;
  const auto take = [&](uint64_t count, UnitMap::Place place) {
    const std::optional<UnitRun> run = units_.Take(count, place);
    if (run) taken.push_back(*run);
    return run.has_value();
  };
  bool fits = units == 0 || take(units, UnitMap::Place::kBestFit);
  for (uint64_t i = 0; fits && i < rooms; ++i) fits = take(room_units, UnitMap::Place::kHighest);
  for (const UnitRun& run : taken) units_.Release(run);
  return fits;
}

}  // namespace maru::pool
