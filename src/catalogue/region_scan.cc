#include "catalogue/region_scan.h"

#include <algorithm>
#include <string>

#include "layout/validate.h"
#include "layout/values.h"

namespace maru::catalogue {
namespace {

std::string Slot(RegionSlot slot) { return "region slot " + std::to_string(slot.value()); }

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
    const layout::RegionValues values = layout::ReadRegion(*record);
    const layout::RegionWord word(values.word);
    if (word.kind() == layout::RegionKind::kNone) continue;
    const Status valid = layout::ValidateRegionRecord(values, view.bytes());
    if (!valid.ok()) {
      return DataLoss(Slot(RegionSlot(number)) + ": " + std::string(valid.message()));
    }
    RegionExtent region;
    region.slot = RegionSlot(number);
    region.kind = word.kind();
    region.offset_bytes = values.offset_bytes;
    region.length_bytes = values.length_bytes;
    region.page_bytes = values.page_bytes;
    region.page_count = layout::RegionPageCount(values.pages);
    region.first_record = RecordNumber(layout::RegionFirstRecord(values.pages));
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
