// A mapped pool seen through its layout: every accessor checks bounds against the pool's size, so
// that bytes that are wrong or change underfoot lead to nullptr, never outside the mapping.
//
// Thread-safe: holds two words that never change.
#pragma once

#include <cstddef>
#include <cstdint>

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
  const layout::Root& root() const;
  const layout::Superblock& superblock() const;

  // nullptr when the number is out of range or its chunk is not there.
  const layout::PageRecord* Record(RecordNumber record) const;
  // nullptr when the slot is out of range or its table is not there. The record may be unused.
  const layout::RegionRecord* Region(RegionSlot slot) const;
  const layout::ClientRecord* Client(ClientSlot slot) const;
  const layout::LeaseDirectory* Leases(uint64_t unit_offset_bytes) const;

  // Where the page of a record lies, from the region's words. REQUIRES for a stable answer: a lease
  // or a grant is held. False when the words do not make sense (then the page is gone).
  struct PageExtent {
    uint64_t offset_bytes = 0;
    uint64_t page_bytes = 0;
    uint32_t region_id = 0;
    uint32_t page_index = 0;
  };
  bool Page(RecordNumber record, PageExtent* out) const;

  // [offset, offset + length) lies in the pool, outside its head.
  bool InBounds(uint64_t offset_bytes, uint64_t length_bytes) const;

 private:
  const std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace maru::catalogue
