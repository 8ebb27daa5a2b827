// The number space of a pool's page records: which runs of consecutive numbers are free, and the
// chunks of memory behind them.
//
// Records are type-stable: a chunk is carved once and holds the same records for ever, so that
// their generations go on when a number is used again. Chunks exist from 0 up without a gap. What
// is free is known from the region table alone and lives on the heap, one map node for each run.
//
// Single-threaded, the writer's.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/ids.h"
#include "catalogue/pool_memory.h"
#include "catalogue/region_scan.h"
#include "catalogue/space.h"
#include "maru/result.h"

namespace maru::catalogue {

class RecordRuns {
 public:
  // REQUIRES: both outlive this.
  RecordRuns(PoolMemory* memory, SpaceSource* space) : memory_(memory), space_(space) {}

  // Reads the record directory and the runs of all page regions; changes nothing in the pool.
  // DataLoss names a directory entry outside a records region or named twice, a gap in the
  // directory, and regions whose runs overlap or have no memory.
  Status Recover(std::span<const RegionExtent> regions);

  // `count` consecutive numbers whose records exist: the lowest free run that is long enough, else
  // new chunks. ResourceExhausted when the pool has no room for them or the numbers are used up.
  // REQUIRES: count > 0
  Result<RecordNumber> Allocate(uint32_t count);
  // The same for who can begin with fewer: where no run of `count` has memory, what there is at the
  // end, with at most one chunk more.
  struct Run {
    RecordNumber first{0};
    uint32_t count = 0;
  };
  Result<Run> AllocateSome(uint32_t count);
  // The numbers from `next` on, `count` at most, with at most one chunk more. 0: somebody else has
  // `next`. REQUIRES: the number before `next` was allocated.
  Result<uint32_t> Extend(RecordNumber next, uint32_t count);
  // Takes single numbers out of the free runs: records of extents, which no region names.
  // REQUIRES: each is free, named once.
  void Claim(std::span<const RecordNumber> records);
  // REQUIRES: the run was allocated and is not free.
  void Release(RecordNumber first, uint32_t count);

  // Runs that are free, for recovery and tests: first number, count.
  const std::map<uint32_t, uint32_t>& free() const { return free_; }
  uint64_t chunk_bytes() const { return (chunks_ + spare_units_.size()) * layout::kUnitBytes; }
  uint64_t heap_bytes() const;

 private:
  static constexpr uint64_t kNumbersEnd = uint64_t{layout::kRecordNumberMax} + 1;
  static constexpr uint32_t kChunksPerCarveMax = 64;

  Status ReadDirectory(std::span<const RegionExtent> regions);
  Status ReadRuns(std::span<const RegionExtent> regions);
  uint64_t End() const;  // numbers below it have memory
  Status AddChunks(uint64_t count);
  Status AddLastChunk();
  // The first numbers of a free run.
  RecordNumber TakeFrom(std::map<uint32_t, uint32_t>::iterator run, uint32_t count);
  void NameChunk(uint64_t unit);
  void AddFree(uint32_t first, uint32_t count);

  PoolMemory* memory_;
  SpaceSource* space_;
  std::map<uint32_t, uint32_t> free_;
  // Units of records regions that the directory does not name yet: a server died in between.
  std::vector<uint64_t> spare_units_;
  uint64_t chunks_ = 0;
};

}  // namespace maru::catalogue
