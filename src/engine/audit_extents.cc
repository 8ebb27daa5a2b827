// The part of an audit that looks at client-cut regions: extents in their regions, each record
// once, no two on a byte, and the bytes that are live there.
#include <string>
#include <unordered_map>

#include "engine/audit.h"

namespace maru::engine {

using layout::PageState;

void AuditRun::CheckExtents(const Stock& stock) {
  struct Sum {
    uint64_t live = 0, live_bytes = 0, condemned = 0;
  };
  std::unordered_map<RegionSlot, Sum> sums;
  for (const RecordNumber record : stock.pool().Extents()) {
    const layout::PageRecord* const fields = stock.pool().view().Record(record);
    // Relaxed: this process wrote it.
    const uint64_t slot = fields->region_slot.load(std::memory_order_relaxed);
    const uint64_t offset = fields->extent_offset_bytes.load(std::memory_order_relaxed);
    const uint64_t length = fields->length_bytes.load(std::memory_order_relaxed);
    const Place place = record.value() < places_.size() ? places_[record.value()] : Place::kNone;
    if (record.value() < places_.size()) places_[record.value()] = Place::kNone;
    const auto& regions = stock.client_regions().all();
    const auto region = regions.find(RegionSlot(static_cast<uint32_t>(slot)));
    if (region == regions.end()) {
      Offend(Name(stock, record) + "no region has it");
      continue;
    }
    Sum& sum = sums[region->first];
    if (stock.State(record).state() == PageState::kCondemned) {
      ++sum.condemned;
      if (place != Place::kCondemned) Offend(Name(stock, record) + "condemned, but in no list");
      continue;
    }
    if (place != Place::kNone) Offend(Name(stock, record) + "a live extent, but in a list");
    const uint64_t bytes = region->second->cut.length_bytes;
    if (length == 0 || offset >= bytes || length > bytes - offset) {
      Offend(Name(stock, record) + "its extent does not lie in its region");
    }
    const auto known = region->second->extents.find(offset);
    if (known == region->second->extents.end() || known->second != record) {
      Offend(Name(stock, record) + "its region does not know it");
    }
    ++sum.live;
    sum.live_bytes += length;
    ++keys_;
    ++extents_;
    CheckKey(stock, record);
  }
  uint64_t live = 0, live_bytes = 0;
  for (const auto& [slot, region] : stock.client_regions().all()) {
    const Sum& sum = sums[slot];
    live += sum.live;
    live_bytes += sum.live_bytes;
    CheckClientRegion(stock, *region);
    if (sum.live == region->extents.size() && sum.live_bytes == region->live_bytes &&
        sum.condemned == region->condemned) {
      continue;
    }
    Offend("pool " + stock.pool().name() + " region " + std::to_string(region->cut.id.value()) +
           ": " + std::to_string(sum.live) + " extents of " + std::to_string(sum.live_bytes) +
           " bytes and " + std::to_string(sum.condemned) + " condemned, counted " +
           std::to_string(region->extents.size()) + ", " + std::to_string(region->live_bytes) +
           " and " + std::to_string(region->condemned));
  }
  if (live != stock.client_regions().extents() ||
      live_bytes != stock.client_regions().live_bytes()) {
    Offend("pool " + stock.pool().name() + ": " + std::to_string(live) + " extents of " +
           std::to_string(live_bytes) + " bytes, counted " +
           std::to_string(stock.client_regions().extents()) + " and " +
           std::to_string(stock.client_regions().live_bytes()));
  }
}

void AuditRun::CheckClientRegion(const Stock& stock, const ClientRegions::Region& region) {
  const std::string name =
      "pool " + stock.pool().name() + " region " + std::to_string(region.cut.id.value()) + ": ";
  if (!region.owned() && region.extents.empty() && region.condemned == 0) {
    Offend(name + "it has no owner and no extents, but is still there");
  }
  // Relaxed: this process wrote it.
  const layout::RegionRecord* const record = stock.pool().view().Region(region.cut.slot);
  if (record->owner.load(std::memory_order_relaxed) != region.cut.owner.value()) {
    Offend(name + "its owner is not the one that the server knows");
  }
  uint64_t end = 0;
  for (const auto& [offset, extent] : region.extents) {
    if (offset < end) Offend(Name(stock, extent) + "its extent overlaps the one before");
    end = offset + stock.pool().view().Record(extent)->length_bytes.load(std::memory_order_relaxed);
  }
}

}  // namespace maru::engine
