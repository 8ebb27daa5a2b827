// For tests: a pool in memory of this process. Its superblock is valid, nothing is in it; Carve
// hands out its units from the first on and publishes each region as the pool does.
//
// Single-threaded but for what readers do with view().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "catalogue/space.h"
#include "catalogue/view.h"

namespace maru::catalogue {

class TestPool : public SpaceSource {
 public:
  struct Options {
    uint64_t pool_bytes = layout::kPoolBytesMin;
    uint64_t flags = 0;
    // Zeroed room of pool_bytes that outlives the pool; nullptr: the pool has its own, and the
    // address sanitizer sees a step outside it.
    std::byte* memory = nullptr;
  };

  TestPool() : TestPool(Options()) {}
  explicit TestPool(const Options& options);

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  PoolView view() const { return PoolView(base_, bytes_); }
  layout::Root& root() const { return *At<layout::Root>(layout::kRootOffset); }
  layout::RegionRecord& Region(RegionSlot slot) const;
  // Of a number whose chunk is there.
  layout::PageRecord& Record(RecordNumber record) const;

  // REQUIRES for At: in the pool and aligned for T.
  template <typename T>
  T* At(uint64_t offset_bytes) const {
    return const_cast<T*>(view().At<T>(offset_bytes));
  }
  std::atomic<uint64_t>& Word(uint64_t offset_bytes) const {
    return *At<std::atomic<uint64_t>>(offset_bytes);
  }

  Result<Room> Carve(layout::RegionKind kind, uint64_t length_bytes) override;
  Result<Making> BeginCarve(layout::RegionKind kind, uint64_t length_bytes) override;
  Status ContinueCarve(Making* making) override;
  Room EndCarve(const Making& making) override;
  // A region of `count` pages of page_bytes each, whose records begin at first_record.
  Result<Room> CarvePages(uint64_t page_bytes, uint32_t count, RecordNumber first_record);
  // A region handed to a client.
  Result<Room> CarveClientCut(uint64_t length_bytes);
  uint64_t steps_carved() const { return steps_carved_; }  // ContinueCarve
  uint64_t free_bytes() const { return bytes_ - carved_bytes_ - kept_back_bytes_; }
  // So much of what is free is not given out, until another number is named.
  void KeepBack(uint64_t bytes) { kept_back_bytes_ = bytes; }

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  Result<uint64_t> TakeRoom(uint64_t length_bytes);
  Result<Room> Publish(layout::RegionKind kind, uint64_t length_bytes, uint64_t page_bytes,
                       uint64_t pages);
  Room PublishAt(layout::RegionKind kind, uint64_t offset_bytes, uint64_t length_bytes,
                 uint64_t page_bytes, uint64_t pages);

  std::unique_ptr<std::byte, FreeMemory> own_memory_;
  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t carved_bytes_ = layout::kHeadBytes;
  uint64_t kept_back_bytes_ = 0;
  uint32_t next_slot_ = 0;
  uint64_t steps_carved_ = 0;
};

}  // namespace maru::catalogue
