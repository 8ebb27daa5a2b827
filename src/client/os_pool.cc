#include "client/os_pool.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/page_regions.h"
#include "layout/geometry.h"

namespace maru::client {

OsPool::OsPool(const wire::AttachedPool& attached, os::File read_write, os::Mapping whole)
    : uuid_(attached.uuid),
      checksums_((attached.flags & layout::kFlagChecksums) != 0),
      read_write_(std::move(read_write)),
      whole_(std::move(whole)),
      view_(whole_.data(), whole_.size()) {}

OsPool::~OsPool() = default;

void OsPool::DeleteUnlessInert(OsPool* pool) {
  if (!pool->inert_) delete pool;
}

Result<std::shared_ptr<OsPool>> OsPool::Map(const wire::AttachedPool& attached,
                                            UnsharedFds* descriptors, size_t first) {
  // Through these two a child could hold no lock.
  const os::File readable(descriptors->Release(first), "pool");
  os::File writable(descriptors->Release(first + 1), "pool");
  MARU_ASSIGN_OR_RETURN(os::Mapping whole, os::Mapping::MapWhole(readable, {}));
  layout::Superblock block;
  MARU_RETURN_IF_ERROR(layout::ValidateSuperblock(whole.bytes(), whole.size(), &block));
  if (block.device.uuid != attached.uuid) {
    return DataLoss("the mapped pool is another one than the server's answer names");
  }
  if (attached.lease_blocks.size() < 2) {
    return DataLoss("the server's answer names " + std::to_string(attached.lease_blocks.size()) +
                    " lease blocks; a client has 2 at least");
  }
  std::shared_ptr<OsPool> pool(new OsPool(attached, std::move(writable), std::move(whole)),
                               &DeleteUnlessInert);
  pool->lock_.TakeFrom(descriptors, first + 2);
  MARU_ASSIGN_OR_RETURN(std::byte* const header, pool->MapBlock(attached.lease_blocks.front()));
  std::vector<layout::LeaseSlots*> slots;
  for (size_t i = 1; i < attached.lease_blocks.size(); ++i) {
    MARU_ASSIGN_OR_RETURN(std::byte* const block_data, pool->MapBlock(attached.lease_blocks[i]));
    slots.push_back(reinterpret_cast<layout::LeaseSlots*>(block_data));
  }
  pool->FaultInCatalogue();
  pool->leases_ = std::make_unique<catalogue::Leases>(
      pool->view_, reinterpret_cast<layout::LeaseHeader*>(header), slots);
  return pool;
}

void OsPool::FaultInCatalogue() const {
  // Acquire, partner of the release stores of a region's word: its memory is reserved.
  const uint64_t high = view_.root().region_slots_high.load(std::memory_order_acquire);
  uint64_t left = kFaultInBytesMax;
  for (uint64_t slot = 0; slot < std::min<uint64_t>(high, layout::kRegionSlotsMax); ++slot) {
    const layout::RegionRecord* region = view_.Region(RegionSlot(static_cast<uint32_t>(slot)));
    if (region == nullptr) return;
    const auto kind = layout::RegionWord(region->word.load(std::memory_order_acquire)).kind();
    if (kind != layout::RegionKind::kRecords && kind != layout::RegionKind::kText &&
        kind != layout::RegionKind::kIndex) {
      continue;
    }
    const uint64_t offset = region->offset_bytes.load(std::memory_order_acquire);
    const uint64_t length = region->length_bytes.load(std::memory_order_acquire);
    if (!IsAligned(offset, layout::kUnitBytes) || !view_.InBounds(offset, length)) continue;
    if (length > left) return;
    left -= length;
    whole_.FaultIn(offset, length);
  }
}

Result<std::byte*> OsPool::MapBlock(uint64_t offset_bytes) {
  if (offset_bytes % layout::kLeaseBlockBytes != 0 ||
      !view_.InBounds(offset_bytes, layout::kLeaseBlockBytes)) {
    return DataLoss("the server names a lease block at " + std::to_string(offset_bytes) +
                    ", which is none");
  }
  os::MapOptions options;
  options.access = os::Access::kReadWrite;
  options.on_fork = os::OnFork::kAbsentInChild;
  MARU_ASSIGN_OR_RETURN(os::Mapping mapping, os::Mapping::Map(read_write_, offset_bytes,
                                                              layout::kLeaseBlockBytes, options));
  std::byte* const data = mapping.data();
  MutexLock lock(blocks_mutex_);
  if (!ordinals_.try_emplace(offset_bytes, blocks_.size()).second) {
    return DataLoss("the server names the lease block at " + std::to_string(offset_bytes) +
                    " twice");
  }
  blocks_.push_back(std::move(mapping));
  return data;
}

std::vector<uint64_t> OsPool::LeaseBlocks() const {
  MutexLock lock(blocks_mutex_);
  std::vector<uint64_t> offsets(ordinals_.size());
  for (const auto& [offset, ordinal] : ordinals_) offsets[ordinal] = offset;
  return offsets;
}

Status OsPool::AddLeaseBlocks(std::span<const uint64_t> offsets) {
  for (uint64_t offset : offsets) {
    MARU_ASSIGN_OR_RETURN(std::byte* const data, MapBlock(offset));
    leases_->AddBlock(reinterpret_cast<layout::LeaseSlots*>(data));
  }
  return OkStatus();
}

bool OsPool::RegionOf(uint64_t offset_bytes, uint64_t length_bytes, uint64_t* region_offset_bytes,
                      uint64_t* region_length_bytes) const {
  return catalogue::FindPageRegion(view_, [&](const auto& region) {
    if (offset_bytes < region.offset_bytes) return false;
    if (offset_bytes + length_bytes > region.offset_bytes + region.length_bytes) return false;
    *region_offset_bytes = region.offset_bytes;
    *region_length_bytes = region.length_bytes;
    return true;
  });
}

Result<std::byte*> OsPool::Writable(uint64_t offset_bytes, uint64_t length_bytes) {
  {
    ReaderLock lock(regions_mutex_);
    auto at = regions_.upper_bound(offset_bytes);
    if (at != regions_.begin()) {
      --at;
      const uint64_t within = offset_bytes - at->first;
      if (within + length_bytes <= at->second.size()) return at->second.data() + within;
    }
  }
  uint64_t start = 0, length = 0;
  if (!RegionOf(offset_bytes, length_bytes, &start, &length)) {
    return DataLoss("no page region holds the " + std::to_string(length_bytes) + " bytes at " +
                    std::to_string(offset_bytes));
  }
  os::MapOptions options;
  options.access = os::Access::kReadWrite;
  MARU_ASSIGN_OR_RETURN(os::Mapping mapping, os::Mapping::Map(read_write_, start, length, options));
  WriterLock lock(regions_mutex_);
  const auto [at, inserted] = regions_.try_emplace(start, std::move(mapping));
  // A region that was cut anew at the same place with another length: the longer one serves both.
  if (!inserted && at->second.size() < length) {
    MARU_ASSIGN_OR_RETURN(os::Mapping longer,
                          os::Mapping::Map(read_write_, start, length, options));
    retired_.push_back(std::exchange(at->second, std::move(longer)));
  }
  return at->second.data() + (offset_bytes - start);
}

void OsPool::InForkedChild() {
  inert_ = true;
  if (leases_ != nullptr) leases_->MakeInert();
}

}  // namespace maru::client
