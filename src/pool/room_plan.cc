#include "pool/room_plan.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"

namespace maru::pool {
namespace {

constexpr uint64_t kUnit = layout::kUnitBytes;
// As many as two blocks for each client that a pool can have, and as many again for those with many
// leases.
constexpr uint64_t kLeaseUnitsMax = 64;
constexpr uint64_t kUnitsPerLeaseUnit = 32;

constexpr uint64_t UnitsFor(uint64_t bytes) { return AlignUp(bytes, kUnit) / kUnit; }

constexpr uint64_t Less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// The fewest units that hold as many pages as `units` do.
RegionPlan Trimmed(uint64_t units, uint64_t page_bytes) {
  const uint64_t pages = std::min(units * kUnit / page_bytes, kPagesPerRegionMax);
  return {UnitsFor(pages * page_bytes), static_cast<uint32_t>(pages)};
}

bool Fits(const PoolRoom& room, const RegionPlan& plan) {
  const uint64_t taken = plan.units + ChunksFor(room, plan.page_count);
  return room.free_units >= taken + KeptUnits(room, room.pages() + plan.page_count);
}

}  // namespace

uint64_t PoolRoom::pages() const {
  uint64_t sum = pages_to_come;
  for (const RecordRun& run : runs) sum += run.count;
  return sum;
}

uint64_t IndexTableBytes(uint64_t keys) {
  // The writer makes tables at most 5/8 full.
  uint64_t entries = 1ull << layout::kIndexEntriesLog2Unit;
  while (entries < 1ull << layout::kIndexEntriesLog2Max && keys > entries / 8 * 5) entries *= 2;
  return entries * sizeof(uint64_t);
}

uint64_t KeptUnits(const PoolRoom& room, uint64_t pages) {
  const uint64_t keys = pages + room.extents;
  const uint64_t text = Less(UnitsFor(keys * kTextBytesKept), room.text_bytes / kUnit);
  // The sizes below a table's add up to its own, less the smallest.
  const uint64_t table = IndexTableBytes(keys);
  const uint64_t index = Less(3 * table - IndexTableBytes(0), room.index_bytes) / kUnit;
  const uint64_t lease_units =
      std::clamp<uint64_t>(room.units / kUnitsPerLeaseUnit, 1, kLeaseUnitsMax);
  const uint64_t records =
      UnitsFor((room.extents + room.pages_to_come) * uint64_t{layout::kRecordBytes});
  return text + index + records + Less(lease_units, room.lease_bytes / kUnit);
}

uint64_t ChunksFor(const PoolRoom& room, uint64_t count) {
  const uint64_t end = room.record_chunks * layout::kRecordsPerChunk;
  uint64_t next = 1;
  for (const RecordRun& run : room.runs) {
    MARU_CHECK_GE(run.first, next);
    if (run.first - next >= count) return 0;
    next = run.first + run.count;
  }
  if (next + count <= end) return 0;
  return (next + count - end + layout::kRecordsPerChunk - 1) / layout::kRecordsPerChunk;
}

RegionPlan PlanRegion(const PoolRoom& room, uint64_t page_bytes, uint64_t wanted_bytes) {
  const uint64_t least = UnitsFor(page_bytes);
  const uint64_t most = std::min(UnitsFor(std::max(wanted_bytes, page_bytes)), room.largest_run);
  if (most < least || !Fits(room, Trimmed(least, page_bytes))) return {};
  // What a region takes grows with it but for chunks, which a longer run may need and a shorter one
  // not: a search by halves ends at a region that fits, close to the largest.
  uint64_t low = least, high = most + 1;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (Fits(room, Trimmed(middle, page_bytes)) ? low : high) = middle;
  }
  return Trimmed(low, page_bytes);
}

}  // namespace maru::pool
