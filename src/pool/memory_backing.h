// A pool in memory without a file, for the simulator and for tests: it can be opened again and
// again, as a file can, and forked children share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "layout/superblock.h"
#include "os/mapping.h"
#include "pool/backing.h"

namespace maru::pool {

// Zeroed memory. Thread-safe: it never changes where it lies.
class PlainMemory {
 public:
  // Stops through a failed check when the machine has no such memory.
  explicit PlainMemory(uint64_t bytes);

  std::byte* base() const { return mapping_.data(); }
  uint64_t bytes() const { return mapping_.size(); }

 private:
  os::Mapping mapping_;
};

// An initialised, empty pool. REQUIRES: pool_bytes and region_id_base as for MakeSuperblock.
std::shared_ptr<PlainMemory> MakeMemoryPool(uint64_t pool_bytes, uint64_t flags = 0,
                                            uint32_t region_id_base = layout::kRegionIdsPerPool);

class MemoryBacking final : public Backing {
 public:
  explicit MemoryBacking(std::shared_ptr<PlainMemory> memory, std::string name = "memory")
      : memory_(std::move(memory)), name_(std::move(name)) {}

  std::byte* base() override { return memory_->base(); }
  uint64_t bytes() const override { return memory_->bytes(); }
  // REQUIRES: the range lies in the pool; CHECKed.
  Status Reserve(uint64_t offset_bytes, uint64_t length_bytes, os::PageHint pages) override;
  std::string name() const override { return name_; }

 private:
  std::shared_ptr<PlainMemory> memory_;
  std::string name_;
};

}  // namespace maru::pool
