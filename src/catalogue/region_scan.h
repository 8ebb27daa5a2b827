// The region table read once, when a pool is opened: which parts of it hold what of the catalogue.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "catalogue/pool_memory.h"
#include "layout/region.h"
#include "maru/result.h"

namespace maru::catalogue {

struct RegionExtent {
  RegionSlot slot{0};
  layout::RegionKind kind = layout::RegionKind::kNone;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  uint64_t page_bytes = 0;  // kPages, as are the next two
  uint32_t page_count = 0;
  RecordNumber first_record{0};
};

// Every region in use, by offset. DataLoss names the slot that no valid server leaves behind: an
// unknown kind, an extent outside the pool or off the unit, two regions that overlap.
Result<std::vector<RegionExtent>> ReadRegions(const PoolMemory& memory);

}  // namespace maru::catalogue
