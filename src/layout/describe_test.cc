#include "layout/describe.h"

#include <gtest/gtest.h>

#include <set>

#include "layout/text.h"

namespace maru::layout {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(Describe, EachNumberHasANameOfItsOwn) {
  std::set<std::string_view> states, kinds;
  for (int i = 0; i <= kPageStateLast; ++i) states.insert(PageStateName(static_cast<PageState>(i)));
  for (int i = 0; i <= kRegionKindLast; ++i) {
    kinds.insert(RegionKindName(static_cast<RegionKind>(i)));
  }
  EXPECT_EQ(states.size(), kPageStateLast + 1u);
  EXPECT_EQ(kinds.size(), kRegionKindLast + 1u);
  EXPECT_THAT(states, Not(Contains("unknown")));
  EXPECT_THAT(kinds, Not(Contains("unknown")));
  EXPECT_EQ(PageStateName(static_cast<PageState>(15)), "unknown");
  EXPECT_EQ(RegionKindName(static_cast<RegionKind>(255)), "unknown");
}

TEST(Describe, SuperblockShowsSizesIdsAndFlags) {
  const Uuid uuid = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                     0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
  Superblock block = MakeSuperblock(uuid, 64 << 20, kFlagChecksums, 5 << 20, 1);
  const Lines lines = DescribeSuperblock(block);
  EXPECT_THAT(lines, Contains("uuid: 00112233-4455-6677-8899-aabbccddeeff"));
  EXPECT_THAT(lines, Contains("pool bytes: 67108864 (64 MiB)"));
  EXPECT_THAT(lines, Contains("flags: 0x1 checksums"));
  EXPECT_THAT(lines, Contains("region ids: from 5242880 to 6291455"));
  block.flags = 2;
  EXPECT_THAT(DescribeSuperblock(block), Contains("flags: 0x2 and unknown ones"));
}

TEST(Describe, RootShowsItsTablesAndWhatIsNotZeroButShouldBe) {
  RootValues root{};
  root.table_word = TableWord::Make(5, TableWord::kNone, 1).bits();
  root.tables[1] = TableDescriptor::Make(0x600000, 18).bits();
  root.reserved[2] = 0xAB;
  root.lapsed_leases[3] = 0xCD;
  const Lines lines = DescribeRoot(root);
  EXPECT_THAT(lines, Contains("index tables: sequence 5, current 1, old none"));
  EXPECT_THAT(lines, Contains("table 1: 2^18 entries at offset 0x600000"));
  EXPECT_THAT(lines, Contains("reserved[2]: 0x00000000000000ab"));
  EXPECT_THAT(lines, Contains("lapsed lease 3: 0x00000000000000cd"));
}

TEST(Describe, RegionShowsWhatItsKindUses) {
  RegionValues record{};
  record.word = RegionWord::Make(RegionKind::kPages, 2).bits();
  record.pages = PackRegionPages(32, 1);
  EXPECT_THAT(DescribeRegion(record), Contains("pages: 32"));
  record.word = RegionWord::Make(RegionKind::kClientCut, 2).bits();
  std::memcpy(record.instance_id, "a\x01\"", 4);
  std::memset(record.lease_id, 'x', sizeof(record.lease_id));  // without a final zero
  record.road = static_cast<uint8_t>(RegionRoad::kResourceManager);
  record.request_id = 17;
  const Lines lines = DescribeRegion(record);
  EXPECT_THAT(lines, Not(Contains("pages: 32")));
  EXPECT_THAT(lines, Contains("instance id: \"a\\x01\\\"\""));
  EXPECT_THAT(lines, Contains("lease id: \"" + std::string(64, 'x') + "\""));
  EXPECT_THAT(lines, Contains("road: resource-manager"));
  EXPECT_THAT(lines, Contains("request id: 17"));
  record.road = 256;
  EXPECT_THAT(DescribeRegion(record), Contains("road: unknown"));
}

TEST(Describe, PageAndClientShowTheirWords) {
  PageValues page{};
  page.state_word = StateWord::Make(PageState::kGranted, Generation(7), ClientSlot(3)).bits();
  page.key_sizes = KeySizes{11, 4}.Pack();
  page.text_offset = 0x400008;
  page.extent_offset_bytes = 0x10000;
  EXPECT_THAT(DescribePage(page), Contains("state: granted, generation 7, client slot 3"));
  EXPECT_THAT(DescribePage(page),
              Contains("text: 4 bytes of namespace and 11 of key at offset 0x400008"));
  EXPECT_THAT(DescribePage(page), Contains("extent offset: 0x10000"));
  ClientValues client{};
  client.process = uint64_t{1000} << 32 | 4242;
  EXPECT_THAT(DescribeClient(client), Contains("pid: 4242"));
  EXPECT_THAT(DescribeClient(client), Contains("uid: 1000"));
}

TEST(Describe, WordsInOneLine) {
  EXPECT_EQ(DescribeState(StateWord::Make(PageState::kLive, Generation(7))), "live, generation 7");
  EXPECT_EQ(DescribeState(StateWord(0xF000000010000000)),
            "unknown, generation 1 (invalid: 0xf000000010000000)");
  EXPECT_EQ(DescribeSlot(SlotWord()), "empty");
  EXPECT_EQ(DescribeSlot(SlotWord::Make(RecordNumber(9), Generation(7), SlotWord::Kind::kPin)),
            "pin of record 9, generation 7");
  EXPECT_EQ(DescribeOwner(BlockOwner()), "free");
  EXPECT_EQ(DescribeOwner(BlockOwner::Make(3, 0, 1)), "client 3 in slot 0, block 1");
  EXPECT_EQ(DescribeTable(TableDescriptor()), "unused");
}

TEST(Text, HexAndQuotesKeepTheirWidth) {
  EXPECT_EQ(Concat(Hex{0}, " ", Hex{0x1f0}, " ", Hex{0xab, 4}), "0x0 0x1f0 0x00ab");
  EXPECT_EQ(Concat(Hex{~uint64_t{0}}), "0xffffffffffffffff");
  EXPECT_EQ(Concat(Quoted{"a\\\xff"}), "\"a\\\\\\xff\"");
  EXPECT_EQ(Concat(Quoted{std::string(200, 'a')}).size(), kQuotedBytesMax + 5);
}

}  // namespace
}  // namespace maru::layout
