// The first bytes of whatever a user names as a pool. The input's last eight bytes are the size of
// the file, so that both sides of each comparison are explored.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"
#include "layout/describe.h"
#include "layout/superblock.h"

namespace {

namespace layout = maru::layout;

void Judge(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  layout::Superblock block{};
  const maru::Status status = layout::ValidateSuperblock(bytes, file_bytes, &block);
  if (!status.ok()) {
    MARU_CHECK(!status.message().empty());
    if (status.code() == maru::StatusCode::kFailedPrecondition) {
      // A whole superblock of another version, whose checksum lies elsewhere, or of another size.
      MARU_CHECK(bytes.size() >= sizeof(block));
      std::memcpy(&block, bytes.data(), sizeof(block));
      if (block.layout_version == layout::kLayoutVersion) {
        MARU_CHECK_NE(block.pool_bytes, file_bytes);
        MARU_CHECK_EQ(block.checksum,
                      maru::HashBytes64(bytes.first(offsetof(layout::Superblock, checksum))));
      }
    } else {
      MARU_CHECK(status.code() == maru::StatusCode::kDataLoss);
    }
    return;
  }
  // What passes is what a maker of pools of this version makes.
  MARU_CHECK_EQ(block.pool_bytes, file_bytes);
  const layout::Superblock again =
      layout::MakeSuperblock(block.device.uuid, block.pool_bytes, block.flags, block.region_id_base,
                             block.created_unix_ns);
  if (block.device.reserved == 0) {
    MARU_CHECK_EQ(again.checksum, block.checksum);
  }
  MARU_CHECK(!layout::DescribeSuperblock(block).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(std::uint64_t)) return 0;
  const auto input = std::as_bytes(std::span(data, size));
  const auto bytes = input.first(size - sizeof(std::uint64_t));
  const auto file_bytes = maru::LoadLittle<std::uint64_t>(input.data() + bytes.size());
  Judge(bytes, file_bytes);
  // Once more with a checksum that fits, which no mutation finds by itself.
  if (bytes.size() >= sizeof(layout::Superblock)) {
    layout::Superblock block{};
    std::memcpy(&block, bytes.data(), sizeof(block));
    block.checksum = maru::HashBytes64(bytes.first(offsetof(layout::Superblock, checksum)));
    Judge(std::as_bytes(std::span(&block, 1)), file_bytes);
  }
  return 0;
}
