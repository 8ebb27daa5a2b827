// Regions of pages as they are cut: planned as a whole, then given memory and pages a unit at a
// time.
//
// What a crash leaves, in the order of the stores: units reserved, of which nobody knows; record
// chunks and numbers without a region, which are free; a region that says how many pages it has,
// with records of some of them not bound, which recovery completes, and with units behind the last
// page, which the next start frees.
#include <algorithm>

#include "base/check.h"
#include "base/sequence_point.h"
#include "layout/text.h"
#include "pool/pool_impl.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::RegionKind;

constexpr uint64_t kUnit = layout::kUnitBytes;

RecordNumber RecordAt(const Pool::Cutting& cutting, uint32_t index) {
  return RecordNumber(cutting.first_record.value() + index);
}

}  // namespace

// Less than planned where the free units lie so scattered that the index could not grow any more,
// though there would be enough of them.
RegionPlan Pool::Impl::WithRoomForIndex(const PoolRoom& room, RegionPlan plan,
                                        uint64_t page_bytes) {
  const uint64_t table = IndexTableBytes(room.pages() + room.extents + plan.page_count);
  uint64_t rooms = 2;
  for (const auto& [slot, region] : carver->table().regions()) {
    const bool holds = region.kind == RegionKind::kIndex && region.length_bytes >= table;
    if (holds && rooms > 0) --rooms;
  }
  if (!carver->FitsBeside(0, table / kUnit, rooms)) return plan;  // scattered before already
  while (plan.units > 0 && !carver->FitsBeside(plan.units, table / kUnit, rooms)) {
    plan = PlanRegion(room, page_bytes, plan.units / 4 * 3 * kUnit);
    if (plan.units * kUnit / page_bytes <= 1) break;
  }
  return plan;
}

Result<Pool::Cutting> Pool::BeginCut(uint64_t page_bytes, uint64_t wanted_bytes) {
  if (page_bytes < layout::kPageBytesMin || page_bytes % layout::kPageAlignBytes != 0 ||
      page_bytes > layout::kPoolBytesMax) {
    return InvalidArgument(Concat("pages cannot have ", page_bytes, " bytes: a multiple of ",
                                  layout::kPageAlignBytes, ", up to ", layout::kPoolBytesMax));
  }
  const PoolRoom room = impl_->Room();
  RegionPlan plan =
      PlanRegion(room, page_bytes, std::min<uint64_t>(wanted_bytes, layout::kPoolBytesMax));
  if (plan.units > 0) plan = impl_->WithRoomForIndex(room, plan, page_bytes);
  if (plan.units == 0) {
    return ResourceExhausted(
        Concat("pool ", impl_->name, " has no room for a region of pages of ", page_bytes,
               " bytes: ", room.free_units * kUnit, " bytes are free, ", room.largest_run * kUnit,
               " in one piece, of which ", KeptUnits(room, room.pages()) * kUnit,
               " are kept for leases, for the index and for ", kTextBytesKept,
               " bytes of key text for each page"));
  }
  MARU_ASSIGN_OR_RETURN(const Carver::Hold hold, impl_->carver->HoldBareUnits(plan.units));
  impl_->pages_to_come += plan.page_count;
  impl_->units_begun += plan.units;
  Cutting cutting;
  cutting.region.page_bytes = page_bytes;
  cutting.pages_planned = plan.page_count;
  cutting.first_unit = hold.units.first;
  cutting.units = hold.units.count;
  return cutting;
}

Result<uint32_t> Pool::ContinueCut(Cutting* cutting) {
  MARU_CHECK(!cutting->over());
  if (cutting->units_ready < cutting->units) {
    const uint64_t unit = cutting->first_unit + cutting->units_ready;
    if (Result<bool> reserved = impl_->carver->ReserveUnit(unit); !reserved.ok()) {
      EndCut(cutting);
      return std::move(reserved).status();
    }
    ++cutting->units_ready;
  }
  Result<uint32_t> added = impl_->AddPages(cutting);
  if (!added.ok() && !cutting->over()) EndCut(cutting);
  return added;
}

Result<uint32_t> Pool::Impl::AddPages(Cutting* cutting) {
  PageRegion& region = cutting->region;
  const uint32_t before = region.page_count;
  const auto covered = static_cast<uint32_t>(
      std::min<uint64_t>(cutting->pages_planned, cutting->units_ready * kUnit / region.page_bytes));
  // None: the numbers behind its own are another's, or there is no memory for them.
  Result<uint32_t> more = 1u;
  if (covered > cutting->records && cutting->records == 0) {
    MARU_ASSIGN_OR_RETURN(const auto run, writer->AllocateSomeRecords(cutting->pages_planned));
    cutting->first_record = run.first;
    cutting->records = run.count;
  } else if (covered > cutting->records) {
    more = writer->ExtendRecords(RecordAt(*cutting, cutting->records),
                                 cutting->pages_planned - cutting->records);
    cutting->records += more.value_or(0);
  }
  const uint32_t pages = std::min(covered, cutting->records);
  if (pages > before) MARU_RETURN_IF_ERROR(Publish(cutting, pages));
  if (more.value_or(0) == 0) EndCut(cutting);
  if (pages == before) MARU_RETURN_IF_ERROR(more.status());
  return pages - before;
}

Status Pool::Impl::Publish(Cutting* cutting, uint32_t pages) {
  PageRegion& region = cutting->region;
  const uint32_t before = region.page_count;
  if (before == 0) {
    Carver::Hold hold{{cutting->first_unit, cutting->units}, RegionId(0)};
    MARU_RETURN_IF_ERROR(carver->NameHold(&hold));
    Region published;
    published.kind = RegionKind::kPages;
    published.page_bytes = region.page_bytes;
    published.page_count = pages;
    published.first_record = cutting->first_record;
    const RegionSlot slot = carver->Publish(hold, published);
    region = PagesOf(*carver->table().Find(slot));
    units_begun -= cutting->units;
  } else {
    carver->Grow(region.slot, pages);
    region.page_count = pages;
  }
  pages_to_come -= pages - before;
  writer->BindRecords(RecordAt(*cutting, before), pages - before, region.slot);
  MARU_PUBLICATION_POINT("pool:cut");
  return OkStatus();
}

void Pool::EndCut(Cutting* cutting) { impl_->EndCut(cutting); }

void Pool::Impl::EndCut(Cutting* cutting) {
  PageRegion& region = cutting->region;
  const uint32_t pages = region.page_count;
  pages_to_come -= cutting->pages_planned - pages;
  cutting->pages_planned = pages;
  if (cutting->records > pages) {
    writer->DropRecords(RecordAt(*cutting, pages), cutting->records - pages);
    cutting->records = pages;
  }
  if (pages == 0) {
    units_begun -= cutting->units;
    carver->GiveUp({{cutting->first_unit, cutting->units}, RegionId(0)});
    return;
  }
  carver->Shorten(region.slot);
  region.length_bytes = carver->table().Find(region.slot)->length_bytes;
}

Result<Pool::PageRegion> Pool::CutPages(uint64_t page_bytes, uint64_t wanted_bytes) {
  MARU_ASSIGN_OR_RETURN(Cutting cutting, BeginCut(page_bytes, wanted_bytes));
  Status status;
  while (!cutting.over()) {
    const Result<uint32_t> added = ContinueCut(&cutting);
    if (!added.ok()) status = added.status();
  }
  if (cutting.region.page_count > 0) return cutting.region;
  return status.ok() ? ResourceExhausted("the pool's record numbers are in use") : status;
}

}  // namespace maru::pool
