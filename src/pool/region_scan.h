// Reads the region table of a pool and says what in it cannot be. Writes nothing: for opening a
// pool, before anything of it is changed, and for looking at one (inspect.h, check.h).
//
// The bytes are not trusted: nothing is read outside the pool, whatever they say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "layout/region.h"
#include "layout/superblock.h"

namespace maru::pool {

struct Region {
  RegionSlot slot{0};
  layout::RegionKind kind = layout::RegionKind::kNone;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  uint64_t page_bytes = 0;
  uint32_t page_count = 0;
  RecordNumber first_record{0};
  RegionId id{0};     // kPages, kClientCut
  ClientId owner{0};  // kClientCut, as all that follows; 0: nobody's
  uint64_t lease_deadline_unix_ns = 0;
  std::string instance_id, lease_id;
  layout::RegionRoad road = layout::RegionRoad::kMetadata;
  uint64_t request_id = 0;
  uint64_t endpoint = 0;
  uint64_t hold_until_unix_ns = 0;

  // Of kPages: what its pages take.
  uint64_t filled_bytes() const { return AlignUp(page_count * page_bytes, layout::kUnitBytes); }
  bool has_id() const {
    return kind == layout::RegionKind::kPages || kind == layout::RegionKind::kClientCut;
  }
};

struct RegionScan {
  static constexpr size_t kOffencesMax = 64;  // listed; the rest is counted

  std::vector<Region> regions;  // in use, each possible by itself, by offset
  std::vector<uint32_t> cuts;   // of each slot of the tables that there are
  // Region tables that a crash has left behind before the directory named them: nobody has ever
  // read them; a start frees them.
  std::vector<RegionSlot> unnamed_tables;
  // Regions whose id lies outside the pool's range: the pool was being renumbered. A start gives
  // them new ones.
  std::vector<RegionSlot> other_ids;
  // Regions of pages with units behind their last page: a server ended before they were whole. A
  // start frees those units.
  std::vector<RegionSlot> unfilled;
  std::vector<std::string> offences;  // what no crash explains: overlaps, bounds, geometry
  uint64_t offence_count = 0;
};

// REQUIRES: base is mapped for `bytes`; the superblock is valid for it.
RegionScan ScanRegions(const std::byte* base, uint64_t bytes);

// Where the record of a slot lies; nullptr when no table has that slot.
const layout::RegionRecord* FindRegionRecord(const std::byte* base, uint64_t bytes,
                                             RegionSlot slot);

}  // namespace maru::pool
