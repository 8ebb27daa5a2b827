#include "engine/client_regions.h"

#include "base/check.h"

namespace maru::engine {

ClientRegions::Region& ClientRegions::Add(const pool::Pool::ClientRegion& cut) {
  auto& region = regions_[cut.slot];
  MARU_CHECK(region == nullptr) << "region slot " << cut.slot;
  region = std::make_unique<Region>();
  region->cut = cut;
  by_id_.emplace(cut.id, region.get());
  if (cut.client.road == layout::RegionRoad::kMetadata) {
    RegionUsage* const all = &(*usages_)[cut.client.endpoint];
    RegionUsage::Instance* const usage = &all->instances[cut.client.instance_id];
    region->usage = usage;
    ++usage->regions;
    usage->allocated_bytes += cut.length_bytes;
    usage->devices[pool_->name()] += cut.length_bytes;
    ++all->regions;
    all->allocated_bytes += cut.length_bytes;
    if (region->owned() && usage->owned_regions++ == 0) ++all->active_instances;
  }
  return *region;
}

ClientRegions::Region* ClientRegions::BySlot(RegionSlot slot) {
  const auto found = regions_.find(slot);
  return found == regions_.end() ? nullptr : found->second.get();
}

ClientRegions::Region* ClientRegions::ById(RegionId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

// Loads of a record are relaxed: this process wrote it, or judged it when it opened the pool.

const layout::PageRecord& ClientRegions::Record(RecordNumber record) const {
  const layout::PageRecord* const found = pool_->view().Record(record);
  MARU_CHECK(found != nullptr) << "record " << record << " in " << pool_->name();
  return *found;
}

ClientRegions::Region& ClientRegions::Of(RecordNumber record) {
  const uint64_t slot = Record(record).region_slot.load(std::memory_order_relaxed);
  Region* const region = BySlot(RegionSlot(static_cast<uint32_t>(slot)));
  MARU_CHECK(region != nullptr) << "record " << record << " in " << pool_->name();
  return *region;
}

std::vector<RecordNumber> ClientRegions::Overlapping(const Region& region, uint64_t begin,
                                                     uint64_t end, size_t count_max) const {
  std::vector<RecordNumber> found;
  auto at = region.extents.lower_bound(begin);
  if (at != region.extents.begin()) {
    const auto before = std::prev(at);
    const uint64_t length = Record(before->second).length_bytes.load(std::memory_order_relaxed);
    if (before->first + length > begin) found.push_back(before->second);
  }
  for (; at != region.extents.end() && at->first < end && found.size() < count_max; ++at) {
    found.push_back(at->second);
  }
  return found;
}

void ClientRegions::BecameLive(RecordNumber record) {
  Region& region = Of(record);
  const layout::PageRecord& fields = Record(record);
  const uint64_t length = fields.length_bytes.load(std::memory_order_relaxed);
  const auto [at, fresh] =
      region.extents.emplace(fields.extent_offset_bytes.load(std::memory_order_relaxed), record);
  MARU_CHECK(fresh) << "records " << record << " and " << at->second << " begin in one place";
  ++region.registered;
  region.live_bytes += length;
  live_bytes_ += length;
  ++extents_;
  if (region.usage != nullptr) region.usage->used_bytes += length;
}

void ClientRegions::LeftLive(RecordNumber record) {
  Region& region = Of(record);
  const layout::PageRecord& fields = Record(record);
  const uint64_t length = fields.length_bytes.load(std::memory_order_relaxed);
  const uint64_t offset = fields.extent_offset_bytes.load(std::memory_order_relaxed);
  MARU_CHECK_EQ(region.extents.erase(offset), 1u) << "record " << record;
  region.live_bytes -= length;
  live_bytes_ -= length;
  --extents_;
  if (region.usage != nullptr) region.usage->used_bytes -= length;
}

void ClientRegions::LeftCondemned(Region* region) {
  MARU_CHECK_GT(region->condemned, 0u);
  --region->condemned;
  DropIfIdle(region);
}

void ClientRegions::EndOwner(Region* region) {
  MARU_CHECK(region->owned());
  pool_->EndOwner(region->cut.slot);
  region->cut.owner = ClientId(0);
  if (region->usage != nullptr && --region->usage->owned_regions == 0) {
    --usages_->at(region->cut.client.endpoint).active_instances;
  }
  DropIfIdle(region);
}

void ClientRegions::Told(Region* region, uint64_t until_unix_ns) {
  if (region->cut.hold_until_unix_ns >= until_unix_ns) return;
  region->cut.hold_until_unix_ns = until_unix_ns;
  pool_->SetHoldUntil(region->cut.slot, until_unix_ns);
}

void ClientRegions::DropIfIdle(Region* region) {
  if (!region->idle()) return;
  const uint64_t until_unix_ns = region->cut.hold_until_unix_ns;
  if (until_unix_ns == 0) return Drop(region);
  held_.emplace(until_unix_ns, region->cut.slot);
}

uint64_t ClientRegions::EndHolds(uint64_t now_unix_ns) {
  while (!held_.empty() && held_.begin()->first <= now_unix_ns) {
    Region* const region = BySlot(held_.begin()->second);
    held_.erase(held_.begin());
    Drop(region);
  }
  return held_.empty() ? 0 : held_.begin()->first;
}

void ClientRegions::Drop(Region* region) {
  if (RegionUsage::Instance* const usage = region->usage) {
    const uint64_t bytes = region->cut.length_bytes;
    const auto all = usages_->find(region->cut.client.endpoint);
    --all->second.regions;
    all->second.allocated_bytes -= bytes;
    usage->allocated_bytes -= bytes;
    const auto device = usage->devices.find(pool_->name());
    device->second -= bytes;
    if (device->second == 0) usage->devices.erase(device);
    if (--usage->regions == 0) all->second.instances.erase(region->cut.client.instance_id);
    if (all->second.regions == 0) usages_->erase(all);
  }
  pool_->FreeForClient(region->cut.slot);
  by_id_.erase(region->cut.id);
  const RegionSlot slot = region->cut.slot;
  regions_.erase(slot);
}

}  // namespace maru::engine
