// A mapped pool seen through its layout: every accessor checks bounds against the pool's size, so
// that bytes that are wrong or change underfoot lead to nullptr, never outside the mapping.
//
// Thread-safe: holds two words that never change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ids.h"
#include "layout/client.h"
#include "layout/index.h"
#include "layout/lease_area.h"
#include "layout/page_record.h"
#include "layout/region.h"
#include "layout/superblock.h"

namespace maru::catalogue {

class PoolView {
 public:
  PoolView() = default;
  // REQUIRES: base is mapped for `bytes`, unit-aligned in size, at least kPoolBytesMin, outlives
  // this, and its superblock was validated.
  PoolView(const std::byte* base, uint64_t bytes) : base_(base), bytes_(bytes) {}

  const std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  const layout::Root& root() const { return *At<layout::Root>(layout::kRootOffset); }
  const layout::Superblock& superblock() const {
    return *At<layout::Superblock>(layout::kSuperblockOffset);
  }

  // nullptr when the number is out of range or its chunk is not there.
  const layout::PageRecord* Record(RecordNumber record) const {
    const uint32_t number = record.value();
    if (number == 0 || number > layout::kRecordNumberMax) return nullptr;
    const auto* directory = At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
    // Acquire, with the release of Writer::AllocateRecords: the chunk is reserved before.
    const uint32_t unit =
        directory->units[number >> layout::kRecordsPerChunkLog2].load(std::memory_order_acquire);
    const uint64_t chunk_offset = unit * layout::kUnitBytes;
    if (!InBounds(chunk_offset, layout::kUnitBytes)) return nullptr;
    return At<layout::PageRecord>(chunk_offset) + (number & (layout::kRecordsPerChunk - 1));
  }
  // nullptr when the slot is out of range or its table is not there. The record may be unused.
  const layout::RegionRecord* Region(RegionSlot slot) const;
  const layout::ClientRecord* Client(ClientSlot slot) const;
  const layout::LeaseDirectory* Leases(uint64_t unit_offset_bytes) const;

  // A region of pages: its words read together and checked. False when there is none in the slot,
  // or it ended meanwhile, or its words do not make sense.
  struct PageRegion {
    uint64_t offset_bytes = 0;
    uint64_t length_bytes = 0;
    uint64_t page_bytes = 0;
    uint32_t page_count = 0;
    uint32_t first_record = 0;
    uint32_t region_id = 0;
  };
  bool Pages(RegionSlot slot, PageRegion* out) const;

  // Where the page or the extent of a record lies, from the region's words. REQUIRES for a stable
  // answer: a lease or a grant is held. False when the words do not make sense (then it is gone).
  struct PageExtent {
    uint64_t offset_bytes = 0;  // in the pool
    // What may be stored there: the page's size; for an extent, all from its beginning to its
    // region's end. The caller checks the record's length against it.
    uint64_t page_bytes = 0;
    uint32_t region_id = 0;
    uint32_t page_index = 0;  // 0 for an extent: its client cuts the region by itself
    uint64_t region_offset_bytes = 0, region_length_bytes = 0;
    bool is_extent = false;  // then nobody has computed a checksum

    uint64_t in_region_bytes() const { return offset_bytes - region_offset_bytes; }
  };
  bool Page(RecordNumber record, PageExtent* out) const;

  // [offset, offset + length) lies in the pool, outside its head.
  bool InBounds(uint64_t offset_bytes, uint64_t length_bytes) const {
    return offset_bytes >= layout::kHeadBytes && RangeFits(offset_bytes, length_bytes, bytes_);
  }

  // The T at an offset. REQUIRES: in the pool and aligned for T.
  template <typename T>
  const T* At(uint64_t offset_bytes) const {
    MARU_DCHECK(RangeFits(offset_bytes, sizeof(T), bytes_));
    MARU_DCHECK(IsAligned(offset_bytes, alignof(T)));
    return reinterpret_cast<const T*>(base_ + offset_bytes);
  }

 private:
  // The words of a region of either kind that holds data; those of pages are not checked yet.
  bool ReadRegion(RegionSlot slot, layout::RegionKind* kind, PageRegion* out) const;

  const std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace maru::catalogue
