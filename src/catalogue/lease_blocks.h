// The blocks of all lease regions of a pool: who owns which, as the directories say, and which are
// free.
//
// Single-threaded, the server's.
#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/pool_memory.h"
#include "catalogue/space.h"
#include "layout/lease_area.h"
#include "maru/result.h"

namespace maru::catalogue {

class LeaseBlocks {
 public:
  // REQUIRES: both outlive this.
  LeaseBlocks(PoolMemory* memory, SpaceSource* space) : memory_(memory), space_(space) {}

  // Every unit of a lease region: its blocks without an owner are free. `visit` gets offset and
  // owner of each of the others.
  template <typename Visit>
  void AddUnit(uint64_t offset_bytes, const Visit& visit) {
    ++units_;
    for (uint32_t block = layout::kLeaseBlocksPerUnit - 1; block > 0; --block) {
      const uint64_t offset = offset_bytes + block * layout::kLeaseBlockBytes;
      const layout::BlockOwner owner(Entry(offset).load(std::memory_order_relaxed));
      if (owner.free()) {
        free_.push_back(offset);
      } else {
        visit(offset, owner);
      }
    }
  }

  // A free block, zeroed and not named yet. ResourceExhausted when the pool has no room.
  Result<uint64_t> Take();
  // A block that was taken and never named.
  void PutBack(uint64_t offset_bytes) { free_.push_back(offset_bytes); }
  // REQUIRES: the block is taken, its memory is zero.
  void Name(uint64_t offset_bytes, layout::BlockOwner owner);
  // The block is free. REQUIRES: it is named.
  void Unname(uint64_t offset_bytes);

  uint64_t bytes() const { return units_ * layout::kUnitBytes; }

 private:
  std::atomic<uint64_t>& Entry(uint64_t offset_bytes) const;

  PoolMemory* memory_;
  SpaceSource* space_;
  std::vector<uint64_t> free_;  // offsets, the next to be taken last
  uint64_t units_ = 0;
};

}  // namespace maru::catalogue
