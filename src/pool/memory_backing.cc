#include "pool/memory_backing.h"

#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"

namespace maru::pool {

PlainMemory::PlainMemory(uint64_t bytes) {
  Result<os::Mapping> mapping = os::Mapping::Anonymous(bytes);
  MARU_CHECK_OK(mapping.status());
  mapping_ = std::move(mapping).value();
}

std::shared_ptr<PlainMemory> MakeMemoryPool(uint64_t pool_bytes, uint64_t flags,
                                            uint32_t region_id_base) {
  auto memory = std::make_shared<PlainMemory>(pool_bytes);
  layout::Uuid uuid{};
  std::memcpy(uuid.data(), &region_id_base, sizeof(region_id_base));
  auto& root = *reinterpret_cast<layout::Root*>(memory->base() + layout::kRootOffset);
  root.table_word.store(kTableWordAtInit, std::memory_order_relaxed);
  const layout::Superblock block =
      layout::MakeSuperblock(uuid, pool_bytes, flags, region_id_base, 0);
  std::memcpy(memory->base() + layout::kSuperblockOffset, &block, sizeof(block));
  return memory;
}

Status MemoryBacking::Reserve(uint64_t offset_bytes, uint64_t length_bytes,
                              os::PageHint /*pages*/) {
  MARU_CHECK(RangeFits(offset_bytes, length_bytes, bytes()));
  return OkStatus();
}

}  // namespace maru::pool
