// Regions of pages, as adapters that know pages by their addresses ask for them.

#include <algorithm>
#include <string>

#include "handler/impl.h"

namespace maru::handler {

namespace {

template <typename Visit>
void ForEachRegion(const catalogue::PoolView& view, const Visit& visit) {
  // Acquire, with the release by which the server raises it before it publishes a region there.
  const uint64_t high = view.root().region_slots_high.load(std::memory_order_acquire);
  for (uint64_t slot = 0; slot < std::min<uint64_t>(high, layout::kRegionSlotsMax); ++slot) {
    catalogue::PoolView::PageRegion region;
    if (view.Pages(RegionSlot(static_cast<uint32_t>(slot)), &region)) visit(region);
  }
}

}  // namespace

Result<std::vector<RegionOfPages>> Handler::Impl::Regions() const {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  std::vector<RegionOfPages> regions;
  for (const SessionPool& pool : current->pools) {
    ForEachRegion(pool.mapped->view(), [&](const catalogue::PoolView::PageRegion& region) {
      regions.push_back({region.region_id, region.page_count, region.page_bytes});
    });
  }
  return regions;
}

Result<RegionMemory> Handler::Impl::RegionBytes(uint32_t region_id, uint64_t offset_bytes,
                                                uint64_t length_bytes) const {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  RegionMemory memory;
  for (const SessionPool& pool : current->pools) {
    const catalogue::PoolView& view = pool.mapped->view();
    ForEachRegion(view, [&](const catalogue::PoolView::PageRegion& region) {
      if (region.region_id != region_id || offset_bytes > region.length_bytes ||
          length_bytes > region.length_bytes - offset_bytes) {
        return;
      }
      memory.bytes = {view.base() + region.offset_bytes + offset_bytes, length_bytes};
      memory.mapping = pool.mapped;
    });
  }
  if (memory.mapping == nullptr) {
    return NotFound("region " + std::to_string(region_id) + " has no " +
                    std::to_string(length_bytes) + " bytes at " + std::to_string(offset_bytes));
  }
  return memory;
}

}  // namespace maru::handler
