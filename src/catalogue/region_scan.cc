#include "catalogue/region_scan.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"

namespace maru::catalogue {
namespace {

std::string Slot(RegionSlot slot) { return "region slot " + std::to_string(slot.value()); }

Status CheckExtent(const PoolView& view, const RegionExtent& region) {
  if (static_cast<uint8_t>(region.kind) > layout::kRegionKindLast) {
    return DataLoss(Slot(region.slot) + " has the unknown kind " +
                    std::to_string(static_cast<int>(region.kind)));
  }
  if (region.length_bytes == 0 || !IsAligned(region.offset_bytes, layout::kUnitBytes) ||
      !IsAligned(region.length_bytes, layout::kUnitBytes) ||
      !view.InBounds(region.offset_bytes, region.length_bytes)) {
    return DataLoss(Slot(region.slot) + " lies at " + std::to_string(region.offset_bytes) +
                    ", length " + std::to_string(region.length_bytes) +
                    ": not whole units inside the pool");
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<RegionExtent>> ReadRegions(const PoolMemory& memory) {
  const PoolView& view = memory.view();
  const uint64_t high = memory.root().region_slots_high.load(std::memory_order_relaxed);
  if (high > layout::kRegionSlotsMax) {
    return DataLoss("the root counts " + std::to_string(high) + " region slots, the most is " +
                    std::to_string(layout::kRegionSlotsMax));
  }
  std::vector<RegionExtent> regions;
  for (uint32_t number = 0; number < high; ++number) {
    const layout::RegionRecord* record = view.Region(RegionSlot(number));
    if (record == nullptr) {
      return DataLoss(Slot(RegionSlot(number)) + " lies in a region table that is not there");
    }
    // Relaxed throughout: the server is the only writer, and it is not running yet.
    const layout::RegionWord word(record->word.load(std::memory_order_relaxed));
    if (word.kind() == layout::RegionKind::kNone) continue;
    RegionExtent region;
    region.slot = RegionSlot(number);
    region.kind = word.kind();
    region.offset_bytes = record->offset_bytes.load(std::memory_order_relaxed);
    region.length_bytes = record->length_bytes.load(std::memory_order_relaxed);
    if (region.kind == layout::RegionKind::kPages) {
      const uint64_t pages = record->pages.load(std::memory_order_relaxed);
      region.page_bytes = record->page_bytes.load(std::memory_order_relaxed);
      region.page_count = layout::RegionPageCount(pages);
      region.first_record = RecordNumber(layout::RegionFirstRecord(pages));
    }
    MARU_RETURN_IF_ERROR(CheckExtent(view, region));
    regions.push_back(region);
  }
  std::sort(regions.begin(), regions.end(), [](const RegionExtent& a, const RegionExtent& b) {
    return a.offset_bytes < b.offset_bytes;
  });
  for (size_t i = 1; i < regions.size(); ++i) {
    const RegionExtent& before = regions[i - 1];
    if (before.offset_bytes + before.length_bytes > regions[i].offset_bytes) {
      return DataLoss(Slot(before.slot) + " and " + Slot(regions[i].slot) + " overlap");
    }
  }
  return regions;
}

}  // namespace maru::catalogue
