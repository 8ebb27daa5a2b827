// A pool in plain memory of this process, for the simulator and for tests: it can be opened again
// and again, as a file can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "layout/superblock.h"
#include "pool/backing.h"

namespace maru::pool {

// Zeroed memory. Thread-safe: two words that never change.
class PlainMemory {
 public:
  explicit PlainMemory(uint64_t bytes);
  ~PlainMemory();
  PlainMemory(const PlainMemory&) = delete;
  PlainMemory& operator=(const PlainMemory&) = delete;

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  uint64_t bytes_;
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
  Status Reserve(uint64_t offset_bytes, uint64_t length_bytes) override;
  std::string name() const override { return name_; }

 private:
  std::shared_ptr<PlainMemory> memory_;
  std::string name_;
};

}  // namespace maru::pool
