// The slots of a client's own lease area: which are free, and how far the area was ever used.
//
// Thread-safe; taking a slot that was in use before and giving one back are lock-free.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "layout/lease_area.h"

namespace maru::catalogue {

class LeaseSlotPool {
 public:
  // Beside the header's.
  static constexpr uint32_t kBlocksMax = layout::kLeaseBlocksPerClientMax - 1;

  // REQUIRES: header is mapped read-write, zeroed at first, and outlives this.
  explicit LeaseSlotPool(layout::LeaseHeader* header);
  ~LeaseSlotPool();
  LeaseSlotPool(const LeaseSlotPool&) = delete;
  LeaseSlotPool& operator=(const LeaseSlotPool&) = delete;

  // The slots of the next ordinal. A block beyond kBlocksMax is left unused.
  // REQUIRES: as of the header.
  void AddBlock(layout::LeaseSlots* block);

  uint64_t capacity() const;

  // An empty slot; the server's scan reaches it. Nothing: all are in use.
  std::optional<uint32_t> Take();
  // REQUIRES: taken, and emptied since.
  void Give(uint32_t slot);
  // REQUIRES: taken.
  std::atomic<uint64_t>& At(uint32_t slot) const;

 private:
  struct Block {
    layout::LeaseSlots* area = nullptr;
    // By slot: the free slot below it in the stack, plus 1; 0: none.
    std::array<std::atomic<uint32_t>, layout::kLeaseSlotsPerBlock> below{};
  };
  Block& BlockOf(uint32_t slot) const;
  std::optional<uint32_t> TakeUsed();
  std::optional<uint32_t> TakeFresh();

  layout::LeaseHeader* const header_;
  // Appended to only. An entry is stored (release) before a slot of it is handed out.
  const std::unique_ptr<std::atomic<Block*>[]> blocks_;
  // The stack of free slots that were in use before:
  //   bits 63..32: grows with each change, so that a stack that looks the same is the same;
  //   bits 31..0: the slot on top, plus 1; 0: empty.
  std::atomic<uint64_t> top_{0};
  mutable Mutex mutex_;
  uint32_t block_count_ MARU_GUARDED_BY(mutex_) = 0;
  uint32_t fresh_ MARU_GUARDED_BY(mutex_) = 0;  // slots from here on were never used
};

}  // namespace maru::catalogue
