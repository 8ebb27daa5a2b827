// The regions of pages that a pool has now, as whoever maps it sees them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "catalogue/view.h"
#include "layout/geometry.h"

namespace maru::catalogue {

// Calls visit(const PoolView::PageRegion&) for one after the other, until it answers true. True: it
// did. The table is short, one entry for each 64 MiB or more.
template <typename Visit>
bool FindPageRegion(const PoolView& view, const Visit& visit) {
  // Acquire, with the release by which the server raises it before it publishes a region there.
  const uint64_t high = view.root().region_slots_high.load(std::memory_order_acquire);
  for (uint64_t slot = 0; slot < std::min<uint64_t>(high, layout::kRegionSlotsMax); ++slot) {
    PoolView::PageRegion region;
    if (view.Pages(RegionSlot(static_cast<uint32_t>(slot)), &region) && visit(region)) return true;
  }
  return false;
}

}  // namespace maru::catalogue
