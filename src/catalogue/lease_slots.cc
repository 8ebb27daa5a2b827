#include "catalogue/lease_slots.h"

#include "base/check.h"

namespace maru::catalogue {

using layout::kLeaseSlotsPerBlock;

LeaseSlotPool::LeaseSlotPool(layout::LeaseHeader* header)
    : header_(header), blocks_(std::make_unique<std::atomic<Block*>[]>(kBlocksMax)) {}

LeaseSlotPool::~LeaseSlotPool() {
  for (uint32_t i = 0; i < block_count_; ++i) delete blocks_[i].load(std::memory_order_relaxed);
}

void LeaseSlotPool::AddBlock(layout::LeaseSlots* area) {
  auto block = std::make_unique<Block>();
  block->area = area;
  const MutexLock lock(mutex_);
  if (block_count_ == kBlocksMax) return;
  // Release, with the acquire load of BlockOf.
  blocks_[block_count_++].store(block.release(), std::memory_order_release);
}

uint64_t LeaseSlotPool::capacity() const {
  const MutexLock lock(mutex_);
  return uint64_t{block_count_} * kLeaseSlotsPerBlock;
}

LeaseSlotPool::Block& LeaseSlotPool::BlockOf(uint32_t slot) const {
  MARU_DCHECK_LT(slot / kLeaseSlotsPerBlock, kBlocksMax);
  return *blocks_[slot / kLeaseSlotsPerBlock].load(std::memory_order_acquire);
}

std::atomic<uint64_t>& LeaseSlotPool::At(uint32_t slot) const {
  return BlockOf(slot).area->slots[slot % kLeaseSlotsPerBlock];
}

std::optional<uint32_t> LeaseSlotPool::Take() {
  const std::optional<uint32_t> used = TakeUsed();
  return used ? used : TakeFresh();
}

std::optional<uint32_t> LeaseSlotPool::TakeUsed() {
  // Acquire, with the release of Give: what it stored below the slot.
  uint64_t top = top_.load(std::memory_order_acquire);
  for (;;) {  // each round that fails is another thread's that succeeded
    const auto slot_plus_1 = static_cast<uint32_t>(top);
    if (slot_plus_1 == 0) return std::nullopt;
    const uint32_t slot = slot_plus_1 - 1;
    // Relaxed: another thread may be changing it, but then the exchange fails.
    const uint32_t below =
        BlockOf(slot).below[slot % kLeaseSlotsPerBlock].load(std::memory_order_relaxed);
    const uint64_t next = ((top >> 32) + 1) << 32 | below;
    if (top_.compare_exchange_weak(top, next, std::memory_order_acquire)) return slot;
  }
}

std::optional<uint32_t> LeaseSlotPool::TakeFresh() {
  const MutexLock lock(mutex_);
  if (fresh_ == block_count_ * kLeaseSlotsPerBlock) return std::nullopt;
  const uint32_t slot = fresh_++;
  // Seq_cst and before the slot is filled (seq_cst), with the seq_cst loads of LeaseAreas::Scan:
  // a scan that follows the filling reaches the slot.
  header_->slots_high.store(fresh_, std::memory_order_seq_cst);
  return slot;
}

void LeaseSlotPool::Give(uint32_t slot) {
  std::atomic<uint32_t>& below = BlockOf(slot).below[slot % kLeaseSlotsPerBlock];
  uint64_t top = top_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {  // each round that fails is another thread's that succeeded
    below.store(static_cast<uint32_t>(top), std::memory_order_relaxed);
    next = ((top >> 32) + 1) << 32 | (slot + 1);
    // Release, with the acquire of TakeUsed.
  } while (
      !top_.compare_exchange_weak(top, next, std::memory_order_release, std::memory_order_relaxed));
}

}  // namespace maru::catalogue
