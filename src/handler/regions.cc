// Regions of pages, as adapters that know pages by their addresses ask for them.

#include <string>

#include "base/bytes.h"
#include "catalogue/page_regions.h"
#include "handler/impl.h"

namespace maru::handler {

namespace {

// Regions are told once, and get their memory little by little: with all pages that fit. Those
// that have none yet are granted to nobody.
uint32_t PagesInTheEnd(const catalogue::PoolView::PageRegion& region) {
  const uint64_t filled = AlignUp(region.page_count * region.page_bytes, layout::kUnitBytes);
  if (filled >= region.length_bytes) return region.page_count;
  return static_cast<uint32_t>(region.length_bytes / region.page_bytes);
}

}  // namespace

Result<std::vector<RegionOfPages>> Handler::Impl::Regions() const {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  std::vector<RegionOfPages> regions;
  for (const SessionPool& pool : current->pools) {
    catalogue::FindPageRegion(pool.mapped->view(), [&](const auto& region) {
      regions.push_back({region.region_id, PagesInTheEnd(region), region.page_bytes});
      return false;
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
    const bool found = catalogue::FindPageRegion(view, [&](const auto& region) {
      if (region.region_id != region_id || offset_bytes > region.length_bytes ||
          length_bytes > region.length_bytes - offset_bytes) {
        return false;
      }
      memory.bytes = {view.base() + region.offset_bytes + offset_bytes, length_bytes};
      return true;
    });
    if (!found) continue;
    memory.mapping = pool.mapped;
    return memory;
  }
  return NotFound("region " + std::to_string(region_id) + " has no " +
                  std::to_string(length_bytes) + " bytes at " + std::to_string(offset_bytes));
}

}  // namespace maru::handler
