// How large a region of pages may be, so that the catalogue has room left for all that pages need:
// a pool of small pages must not end with pages that can never get a key.
//
// Pure: numbers in, numbers out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/geometry.h"
#include "pool/unit_map.h"

namespace maru::pool {

// Kept for each page that is cut: the text of its key (namespace and key, rounded to its block).
// Longer keys are possible until the room is used up; then registering says so.
inline constexpr uint64_t kTextBytesKept = 160;
// Pages of one region at most; a larger request gets so many. 64 MiB of the smallest pages: cutting
// a region, or counting its pages, is one step of a server that others wait for.
inline constexpr uint64_t kPagesPerRegionMax = 1ull << 17;

// The records of a region of pages.
struct RecordRun {
  uint64_t first = 0;
  uint64_t count = 0;
};

struct PoolRoom {
  uint64_t units = 0;  // of the whole pool
  uint64_t free_units = 0;
  uint64_t largest_run = 0;  // of free units
  // What the catalogue has already.
  uint64_t text_bytes = 0, index_bytes = 0, lease_bytes = 0;
  uint64_t record_chunks = 0;
  // Of all regions of pages, by first record.
  std::vector<RecordRun> runs;
  uint64_t pages_to_come = 0;  // of regions that are being cut: in no run yet
  uint64_t extents = 0;        // keys that client-cut regions are planned to have
  uint64_t pages() const;
};

// Units that must stay free beside `pages` pages in all:
//   text    kTextBytesKept for each page
//   index   two tables that hold all pages (a restart builds the second beside the first) and one
//           of each smaller size on the way there
//   leases  one of each 32 units of the pool, 1 to 64: each has two blocks for each of 31 clients,
//           so that a full pool of 2 GiB has room for 992 clients of the 1,024 that there can be
//   the same for the extents, and their records
// less what has been carved for them.
uint64_t KeptUnits(const PoolRoom& room, uint64_t pages);
// The size of the index table that holds so many keys.
uint64_t IndexTableBytes(uint64_t keys);
// Units of new record chunks that a run of `count` records takes, as the writer finds it: the first
// gap between the runs that is long enough, else behind them.
uint64_t ChunksFor(const PoolRoom& room, uint64_t count);

struct RegionPlan {
  uint64_t units = 0;  // 0: not even one page fits
  uint32_t page_count = 0;
};
// The largest region of such pages within wanted_bytes (rounded up to units, and to one page).
// REQUIRES: page_bytes is the size of a page; wanted_bytes <= kPoolBytesMax.
RegionPlan PlanRegion(const PoolRoom& room, uint64_t page_bytes, uint64_t wanted_bytes);

}  // namespace maru::pool
