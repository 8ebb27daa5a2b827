#include "catalogue/test_pool.h"

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace maru::catalogue {

namespace {

constexpr uint32_t kRegionIdBase = 7 * layout::kRegionIdsPerPool;
constexpr uint64_t kCreated = 1'700'000'000'000'000'000;
constexpr uint64_t kMemoryAlignBytes = 4096;

std::byte* NewMemory(uint64_t bytes) {
  void* memory = std::aligned_alloc(kMemoryAlignBytes, bytes);
  MARU_CHECK(memory != nullptr) << bytes << " bytes for a pool";
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

}  // namespace

void TestPool::FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

TestPool::TestPool(const Options& options)
    : own_memory_(options.memory == nullptr ? NewMemory(options.pool_bytes) : nullptr),
      base_(options.memory == nullptr ? own_memory_.get() : options.memory),
      bytes_(options.pool_bytes) {
  const layout::Uuid uuid = {0x4d, 0x61, 0x72, 0x75};
  const layout::Superblock superblock =
      layout::MakeSuperblock(uuid, bytes_, options.flags, kRegionIdBase, kCreated);
  std::memcpy(base_ + layout::kSuperblockOffset, &superblock, sizeof(superblock));
  // As `maru pool init` leaves it: no table is named, every counter is at its start.
  root().table_word.store(
      layout::TableWord::Make(0, layout::TableWord::kNone, layout::TableWord::kNone).bits(),
      std::memory_order_release);
}

layout::RegionRecord& TestPool::Region(RegionSlot slot) const {
  const layout::RegionRecord* region = view().Region(slot);
  MARU_CHECK(region != nullptr);
  return const_cast<layout::RegionRecord&>(*region);
}

layout::PageRecord& TestPool::Record(RecordNumber record) const {
  const layout::PageRecord* page = view().Record(record);
  MARU_CHECK(page != nullptr) << "record " << record;
  return const_cast<layout::PageRecord&>(*page);
}

Result<SpaceSource::Room> TestPool::Carve(layout::RegionKind kind, uint64_t length_bytes) {
  return Publish(kind, length_bytes, 0, 0);
}

Result<SpaceSource::Room> TestPool::CarvePages(uint64_t page_bytes, uint32_t count,
                                               RecordNumber first_record) {
  return Publish(layout::RegionKind::kPages, AlignUp(page_bytes * count, layout::kUnitBytes),
                 page_bytes, layout::PackRegionPages(count, first_record.value()));
}

Result<SpaceSource::Room> TestPool::CarveClientCut(uint64_t length_bytes) {
  return Publish(layout::RegionKind::kClientCut, length_bytes, 0, 0);
}

Result<SpaceSource::Making> TestPool::BeginCarve(layout::RegionKind kind, uint64_t length_bytes) {
  MARU_ASSIGN_OR_RETURN(const uint64_t offset_bytes, TakeRoom(length_bytes));
  return Making{kind, offset_bytes, length_bytes};
}

Status TestPool::ContinueCarve(Making* making) {
  ++steps_carved_;
  making->ready_bytes += layout::kUnitBytes;
  return OkStatus();
}

SpaceSource::Room TestPool::EndCarve(const Making& making) {
  MARU_CHECK(making.ready());
  return PublishAt(making.kind, making.offset_bytes, making.length_bytes, 0, 0);
}

Result<uint64_t> TestPool::TakeRoom(uint64_t length_bytes) {
  MARU_CHECK(length_bytes > 0 && IsAligned(length_bytes, layout::kUnitBytes));
  if (length_bytes > free_bytes() || next_slot_ == layout::kRegionTableEntriesFirst) {
    return ResourceExhausted("the test's pool has no room for " + std::to_string(length_bytes) +
                             " bytes");
  }
  carved_bytes_ += length_bytes;
  return carved_bytes_ - length_bytes;
}

Result<SpaceSource::Room> TestPool::Publish(layout::RegionKind kind, uint64_t length_bytes,
                                            uint64_t page_bytes, uint64_t pages) {
  MARU_ASSIGN_OR_RETURN(const uint64_t offset_bytes, TakeRoom(length_bytes));
  return PublishAt(kind, offset_bytes, length_bytes, page_bytes, pages);
}

SpaceSource::Room TestPool::PublishAt(layout::RegionKind kind, uint64_t offset_bytes,
                                      uint64_t length_bytes, uint64_t page_bytes, uint64_t pages) {
  MARU_CHECK_LT(next_slot_, layout::kRegionTableEntriesFirst);
  const Room room = {RegionSlot(next_slot_), offset_bytes, length_bytes};
  ++next_slot_;

  // Release, with the acquire loads of PoolView::Page.
  layout::RegionRecord& region = Region(room.slot);
  region.offset_bytes.store(room.offset_bytes, std::memory_order_release);
  region.length_bytes.store(room.length_bytes, std::memory_order_release);
  region.page_bytes.store(page_bytes, std::memory_order_release);
  region.pages.store(pages, std::memory_order_release);
  if (kind == layout::RegionKind::kPages || kind == layout::RegionKind::kClientCut) {
    const uint64_t ordinal = root().next_region_ordinal.fetch_add(1, std::memory_order_relaxed);
    region.region_id.store(kRegionIdBase + ordinal, std::memory_order_release);
  }
  region.word.store(layout::RegionWord::Make(kind, 1).bits(), std::memory_order_release);
  root().region_slots_high.store(next_slot_, std::memory_order_release);
  return room;
}

}  // namespace maru::catalogue
