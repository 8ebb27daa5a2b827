#include "pool/memory_backing.h"

#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"

namespace maru::pool {

// calloc: large memory comes zeroed from the system, page by page as it is touched.
PlainMemory::PlainMemory(uint64_t bytes)
    : base_(static_cast<std::byte*>(std::calloc(bytes, 1))), bytes_(bytes) {
  MARU_CHECK(base_ != nullptr) << bytes << " bytes";
}

PlainMemory::~PlainMemory() { std::free(base_); }

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

Status MemoryBacking::Reserve(uint64_t offset_bytes, uint64_t length_bytes) {
  MARU_CHECK(RangeFits(offset_bytes, length_bytes, bytes()));
  return OkStatus();
}

}  // namespace maru::pool
