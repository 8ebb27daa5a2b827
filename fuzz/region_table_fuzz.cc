// Region records, root and client records as `maru pool check` and recovery find them in a pool.
// The input: the pool's size in units (u16), then records of each kind in turn.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/check.h"
#include "layout/describe.h"
#include "layout/validate.h"

namespace {

namespace layout = maru::layout;

void JudgeRegion(const layout::RegionValues& record, std::uint64_t pool_bytes) {
  MARU_CHECK(!layout::DescribeRegion(record).empty());
  if (!layout::ValidateRegionRecord(record, pool_bytes).ok()) return;
  const layout::RegionWord word(record.word);
  if (word.kind() == layout::RegionKind::kNone) return;
  MARU_CHECK(layout::RegionKindName(word.kind()) != "unknown");
  MARU_CHECK_GE(record.offset_bytes, layout::kHeadBytes);
  MARU_CHECK(maru::RangeFits(record.offset_bytes, record.length_bytes, pool_bytes));
  const std::uint64_t count = layout::RegionPageCount(record.pages);
  MARU_CHECK_LE(count * record.page_bytes, record.length_bytes);
  MARU_CHECK_LE(layout::RegionFirstRecord(record.pages) + count, 1ull << 32);
}

void JudgePage(const layout::PageValues& record, std::uint64_t pool_bytes) {
  MARU_CHECK(!layout::DescribePage(record).empty());
  if (!layout::ValidatePageRecord(record, pool_bytes).ok()) return;
  const layout::StateWord word(record.state_word);
  MARU_CHECK(layout::PageStateName(word.state()) != "unknown");
  if (word.state() != layout::PageState::kLive) return;
  const std::uint64_t text = layout::KeySizes::Unpack(record.key_sizes).text_bytes();
  MARU_CHECK(maru::RangeFits(record.text_offset, text, pool_bytes));
}

void JudgeRoot(const layout::RootValues& root, std::uint64_t pool_bytes) {
  MARU_CHECK(!layout::DescribeRoot(root).empty());
  if (!layout::ValidateRoot(root, pool_bytes).ok() || root.starts == 0) return;
  const std::uint8_t current = layout::TableWord(root.table_word).current();
  if (current == layout::TableWord::kNone) return;
  MARU_CHECK_LT(current, layout::kIndexTables);
  MARU_CHECK(layout::TableDescriptor(root.tables[current]).Valid(pool_bytes));
}

void JudgeClient(const layout::ClientValues& record) {
  MARU_CHECK(!layout::DescribeClient(record).empty());
  if (!layout::ValidateClientRecord(record).ok() || record.client_id == 0) return;
  MARU_CHECK_EQ(record.label[sizeof(record.label) - 1], 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  maru::ByteReader reader(std::as_bytes(std::span(data, size)));
  const std::uint64_t pool_bytes = (1 + std::uint64_t{reader.U16()}) * layout::kUnitBytes;
  while (reader.ok() && reader.remaining() > 0) {
    const auto kind = reader.U8() % 4;
    if (kind == 0 && reader.remaining() >= sizeof(layout::RegionValues)) {
      JudgeRegion(
          layout::ValuesFrom<layout::RegionValues>(reader.ReadBytes(sizeof(layout::RegionValues))),
          pool_bytes);
    } else if (kind == 1 && reader.remaining() >= sizeof(layout::PageValues)) {
      JudgePage(
          layout::ValuesFrom<layout::PageValues>(reader.ReadBytes(sizeof(layout::PageValues))),
          pool_bytes);
    } else if (kind == 2 && reader.remaining() >= sizeof(layout::ClientValues)) {
      JudgeClient(
          layout::ValuesFrom<layout::ClientValues>(reader.ReadBytes(sizeof(layout::ClientValues))));
    } else if (kind == 3 && reader.remaining() >= sizeof(layout::RootValues)) {
      JudgeRoot(
          layout::ValuesFrom<layout::RootValues>(reader.ReadBytes(sizeof(layout::RootValues))),
          pool_bytes);
    } else {
      return 0;
    }
  }
  return 0;
}
