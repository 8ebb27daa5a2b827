// The part of an audit that looks at client-cut regions: extents in their regions, each record
// once, no two on a byte, and the bytes that are live there.
#include <iterator>
#include <string>

#include "engine/audit.h"

namespace maru::engine {

using layout::PageState;

void AuditRun::CheckExtent(RecordNumber record, PageState state) {
  const layout::PageRecord* const fields = stock().pool().view().Record(record);
  // Relaxed: this process wrote it.
  const uint64_t slot = fields->region_slot.load(std::memory_order_relaxed);
  const uint64_t offset = fields->extent_offset_bytes.load(std::memory_order_relaxed);
  const uint64_t length = fields->length_bytes.load(std::memory_order_relaxed);
  const PageLists::Id list = run().lists->Where(record);
  const auto& regions = stock().client_regions().all();
  const auto at = regions.find(RegionSlot(static_cast<uint32_t>(slot)));
  if (at == regions.end()) return Offend(Name(record) + "no region has it");
  if (state == PageState::kCondemned) {
    if (list != stock().condemned_extents()) Offend(Name(record) + "condemned, but in no list");
    return;
  }
  ++extents_;
  if (list.value() != 0) Offend(Name(record) + "a live extent, but in a list");
  const ClientRegions::Region& region = *at->second;
  const uint64_t bytes = region.cut.length_bytes;
  if (length == 0 || offset >= bytes || length > bytes - offset) {
    Offend(Name(record) + "its extent does not lie in its region");
  }
  const auto known = region.extents.find(offset);
  if (known == region.extents.end() || known->second != record) {
    return Offend(Name(record) + "its region does not know it");
  }
  if (known == region.extents.begin()) return;
  const auto& [begin, before] = *std::prev(known);
  const layout::PageRecord* const other = stock().pool().view().Record(before);
  if (begin + other->length_bytes.load(std::memory_order_relaxed) > offset) {
    Offend(Name(record) + "its extent overlaps the one before");
  }
}

bool AuditRun::StepClientRegions() {
  while (true) {
    const auto& regions = stock().client_regions().all();
    const auto at = regions.lower_bound(RegionSlot(static_cast<uint32_t>(cursor_)));
    if (at == regions.end()) return true;
    if (!Take(kWorkPerRegion)) return false;
    CheckClientRegion(*at->second);
    cursor_ = at->first.value() + 1;
  }
}

void AuditRun::CheckClientRegion(const ClientRegions::Region& region) {
  const std::string name = PoolName() + " region " + std::to_string(region.cut.id.value()) + ": ";
  if (region.idle() && region.cut.hold_until_unix_ns <= core_->NowUnix()) {
    Offend(name + "it has no owner and no extents, is on hold for nobody, but is still there");
  }
  // Relaxed: this process wrote it.
  const layout::RegionRecord* const record = stock().pool().view().Region(region.cut.slot);
  if (record->owner.load(std::memory_order_relaxed) != region.cut.owner.value()) {
    Offend(name + "its owner is not the one that the server knows");
  }
  const PageCensus::RegionSums is = run().pages->OfRegion(region.cut.slot);
  if (is.live == region.extents.size() && is.live_bytes == region.live_bytes &&
      is.condemned == region.condemned) {
    return;
  }
  Offend(name + std::to_string(is.live) + " extents of " + std::to_string(is.live_bytes) +
         " bytes and " + std::to_string(is.condemned) + " condemned, counted " +
         std::to_string(region.extents.size()) + ", " + std::to_string(region.live_bytes) +
         " and " + std::to_string(region.condemned));
}

}  // namespace maru::engine
