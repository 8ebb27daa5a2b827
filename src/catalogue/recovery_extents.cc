// Extents at the opening of a catalogue: records that no region of pages covers. Nothing names them
// but their own state; what no server leaves behind is found here.
#include <algorithm>
#include <string>
#include <vector>

#include "catalogue/recovery.h"

namespace maru::catalogue {

using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

// Loads are relaxed throughout: the one writer has not started yet.

const RegionExtent* Recovery::ClientCutOf(const PageRecord& page) const {
  const uint64_t slot = page.region_slot.load(std::memory_order_relaxed);
  if (slot >= layout::kRegionSlotsMax) return nullptr;
  const auto found = client_cut_.find(RegionSlot(static_cast<uint32_t>(slot)));
  return found == client_cut_.end() ? nullptr : found->second;
}

Status Recovery::ReadExtent(RecordNumber record, const PageRecord& page) {
  const RegionExtent* const region = ClientCutOf(page);
  if (region == nullptr) {
    return DataLoss("no region has it: the region slot that it names, " +
                    std::to_string(page.region_slot.load(std::memory_order_relaxed)) +
                    ", is no client-cut region");
  }
  const uint64_t offset = page.extent_offset_bytes.load(std::memory_order_relaxed);
  const uint64_t length = page.length_bytes.load(std::memory_order_relaxed);
  if (length == 0 || offset >= region->length_bytes || length > region->length_bytes - offset) {
    return DataLoss("its extent of " + std::to_string(length) + " bytes at " +
                    std::to_string(offset) + " does not lie in a region of " +
                    std::to_string(region->length_bytes));
  }
  const StateWord word(page.state_word.load(std::memory_order_relaxed));
  if (word.state() == PageState::kCondemned) {
    MARU_RETURN_IF_ERROR(CheckFields(page));
    condemned_.push_back(record);
    ++summary_.condemned;
    return OkStatus();
  }
  MARU_RETURN_IF_ERROR(CheckKeyed(page, region->length_bytes - offset));
  if (word.state() == PageState::kRetiring) retiring_.push_back(record);
  extents_.push_back(record);
  ++summary_.live;
  ++summary_.extents;
  return OkStatus();
}

Status Recovery::CheckOverlaps() {
  struct Place {
    uint64_t slot = 0, begin = 0, end = 0;
    RecordNumber record{0};
  };
  std::vector<Place> places;
  places.reserve(extents_.size());
  for (const RecordNumber record : extents_) {
    const PageRecord& page = *memory_->Record(record);
    const uint64_t begin = page.extent_offset_bytes.load(std::memory_order_relaxed);
    places.push_back({page.region_slot.load(std::memory_order_relaxed), begin,
                      begin + page.length_bytes.load(std::memory_order_relaxed), record});
  }
  std::ranges::sort(places, [](const Place& a, const Place& b) {
    return a.slot != b.slot ? a.slot < b.slot : a.begin < b.begin;
  });
  std::vector<RecordNumber> dropped;
  const Place* last = nullptr;  // that stays
  for (const Place& place : places) {
    if (last != nullptr && last->slot == place.slot && place.begin < last->end) {
      MARU_RETURN_IF_ERROR(Offend(place.record, "its extent overlaps that of record " +
                                                    std::to_string(last->record.value()) +
                                                    " in region slot " +
                                                    std::to_string(place.slot)));
      DropKeyed(place.record, RegionSlot(0));
      dropped.push_back(place.record);
      continue;
    }
    last = &place;
  }
  std::ranges::sort(dropped);
  std::erase_if(extents_, [&dropped](RecordNumber record) {
    return std::ranges::binary_search(dropped, record);
  });
  return OkStatus();
}

}  // namespace maru::catalogue
