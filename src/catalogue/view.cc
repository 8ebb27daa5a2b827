#include "catalogue/view.h"

#include "base/sequence_point.h"

namespace maru::catalogue {

const layout::RegionRecord* PoolView::Region(RegionSlot slot) const {
  const uint32_t number = slot.value();
  if (number < layout::kRegionTableEntriesFirst) {
    return At<layout::RegionRecord>(layout::kRegionTableOffset +
                                    number * sizeof(layout::RegionRecord));
  }
  if (number >= layout::kRegionSlotsMax) return nullptr;
  const uint32_t further = number - layout::kRegionTableEntriesFirst;
  const auto* directory = At<layout::RegionDirectory>(layout::kRegionDirectoryOffset);
  // Acquire, with the release by which the server adds a region table that it has zeroed.
  const uint64_t unit =
      directory->units[further / layout::kRegionTableEntriesUnit].load(std::memory_order_acquire);
  if (unit == 0 || unit >= bytes_ / layout::kUnitBytes) return nullptr;
  return At<layout::RegionRecord>(unit * layout::kUnitBytes) +
         further % layout::kRegionTableEntriesUnit;
}

const layout::ClientRecord* PoolView::Client(ClientSlot slot) const {
  if (slot.value() >= layout::kClientSlots) return nullptr;
  return At<layout::ClientRecord>(layout::kClientTableOffset +
                                  slot.value() * sizeof(layout::ClientRecord));
}

const layout::LeaseDirectory* PoolView::Leases(uint64_t unit_offset_bytes) const {
  if (!IsAligned(unit_offset_bytes, layout::kUnitBytes)) return nullptr;
  if (!InBounds(unit_offset_bytes, layout::kUnitBytes)) return nullptr;
  return At<layout::LeaseDirectory>(unit_offset_bytes);
}

bool PoolView::ReadRegion(RegionSlot slot, layout::RegionKind* kind, PageRegion* out) const {
  const layout::RegionRecord* region = Region(slot);
  if (region == nullptr) return false;
  // The word is stored last (release) when a region begins and first when it ends. It cannot end
  // while the caller holds a page of it. Who holds none reads the word again: a field of the slot's
  // next region was stored (release) after the end of this one.
  const uint64_t word = region->word.load(std::memory_order_acquire);
  *kind = layout::RegionWord(word).kind();
  const uint64_t offset = region->offset_bytes.load(std::memory_order_acquire);
  const uint64_t length = region->length_bytes.load(std::memory_order_acquire);
  const uint64_t page_bytes = region->page_bytes.load(std::memory_order_acquire);
  const uint64_t pages = region->pages.load(std::memory_order_acquire);
  const uint64_t region_id = region->region_id.load(std::memory_order_acquire);
  MARU_SEQUENCE_POINT("region:copied");
  if (region->word.load(std::memory_order_seq_cst) != word) return false;

  if (!IsAligned(offset, layout::kUnitBytes) || !InBounds(offset, length)) return false;
  if (region_id > layout::kRegionIdMax) return false;
  *out = {offset,
          length,
          page_bytes,
          layout::RegionPageCount(pages),
          layout::RegionFirstRecord(pages),
          static_cast<uint32_t>(region_id)};
  return true;
}

namespace {

bool MakesPages(const PoolView::PageRegion& region) {
  return region.page_bytes >= layout::kPageBytesMin &&
         IsAligned(region.page_bytes, layout::kPageAlignBytes) &&
         region.page_count <= region.length_bytes / region.page_bytes;
}

}  // namespace

bool PoolView::Pages(RegionSlot slot, PageRegion* out) const {
  layout::RegionKind kind;
  return ReadRegion(slot, &kind, out) && kind == layout::RegionKind::kPages && MakesPages(*out);
}

bool PoolView::Page(RecordNumber record, PageExtent* out) const {
  const layout::PageRecord* page = Record(record);
  if (page == nullptr) return false;
  // Acquire, with the release stores of Writer::BindRecords and RegisterExtent.
  const uint64_t slot = page->region_slot.load(std::memory_order_acquire);
  if (slot >= layout::kRegionSlotsMax) return false;
  PageRegion region;
  layout::RegionKind kind;
  if (!ReadRegion(RegionSlot(static_cast<uint32_t>(slot)), &kind, &region)) return false;

  uint64_t begin = 0;
  uint64_t page_bytes = 0;
  uint32_t index = 0;
  if (kind == layout::RegionKind::kPages) {
    if (!MakesPages(region) || record.value() < region.first_record) return false;
    index = record.value() - region.first_record;
    if (index >= region.page_count) return false;
    begin = index * region.page_bytes;
    page_bytes = region.page_bytes;
  } else if (kind == layout::RegionKind::kClientCut) {
    // Acquire, with the release store of RegisterExtent: of the life that the caller holds.
    begin = page->extent_offset_bytes.load(std::memory_order_acquire);
    if (begin >= region.length_bytes) return false;
    page_bytes = region.length_bytes - begin;
  } else {
    return false;
  }
  *out = {.offset_bytes = region.offset_bytes + begin,
          .page_bytes = page_bytes,
          .region_id = region.region_id,
          .page_index = index,
          .region_offset_bytes = region.offset_bytes,
          .region_length_bytes = region.length_bytes,
          .is_extent = kind == layout::RegionKind::kClientCut};
  return true;
}

}  // namespace maru::catalogue
