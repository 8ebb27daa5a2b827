#include "catalogue/view.h"

#include <gtest/gtest.h>

#include "base/sequence_point.h"
#include "catalogue/test_pool.h"

namespace maru::catalogue {
namespace {

using layout::kUnitBytes;

constexpr uint64_t kPageBytes = 4096;
constexpr uint32_t kPages = 10;

class ViewTest : public testing::Test {
 protected:
  ViewTest() {
    chunk_ = pool_.Carve(layout::RegionKind::kRecords, kUnitBytes)->offset_bytes;
    directory().units[0].store(static_cast<uint32_t>(chunk_ / kUnitBytes));
    pages_ = *pool_.CarvePages(kPageBytes, kPages, kFirst);
    for (uint32_t i = 0; i < kPages; ++i) {
      pool_.Record(RecordNumber(kFirst.value() + i)).region_slot.store(pages_.slot.value());
    }
  }

  layout::RecordDirectory& directory() {
    return *pool_.At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
  }
  layout::RegionRecord& region() { return pool_.Region(pages_.slot); }
  PoolView view() const { return pool_.view(); }
  bool HasPage(uint32_t record) const {
    PoolView::PageExtent extent;
    return view().Page(RecordNumber(record), &extent);
  }

  static constexpr RecordNumber kFirst{5};
  TestPool pool_;
  uint64_t chunk_ = 0;
  SpaceSource::Room pages_;
};

TEST_F(ViewTest, TestPoolHasAValidSuperblock) {
  layout::Superblock out;
  EXPECT_TRUE(
      layout::ValidateSuperblock(std::span(pool_.base(), pool_.bytes()), pool_.bytes(), &out).ok());
  EXPECT_EQ(view().superblock().pool_bytes, pool_.bytes());
}

TEST_F(ViewTest, RecordsLieInTheChunkThatTheDirectoryNames) {
  const auto* first = pool_.At<layout::PageRecord>(chunk_);
  EXPECT_EQ(view().Record(RecordNumber(1)), first + 1);
  EXPECT_EQ(view().Record(RecordNumber(layout::kRecordsPerChunk - 1)),
            first + layout::kRecordsPerChunk - 1);
}

TEST_F(ViewTest, NumbersWithoutARecordHaveNone) {
  EXPECT_EQ(view().Record(RecordNumber(0)), nullptr);
  EXPECT_EQ(view().Record(RecordNumber(layout::kRecordsPerChunk)), nullptr);
  EXPECT_EQ(view().Record(RecordNumber(0xFFFFFFFE)), nullptr);
  EXPECT_EQ(view().Record(RecordNumber(0xFFFFFFFF)), nullptr);
}

TEST_F(ViewTest, ChunksOutsideThePoolAreNotThere) {
  const auto units = static_cast<uint32_t>(pool_.bytes() / kUnitBytes);
  for (const uint32_t unit : {0u, units, units + 1, 0xFFFFFFFFu}) {
    directory().units[0].store(unit);
    EXPECT_EQ(view().Record(kFirst), nullptr) << "unit " << unit;
    EXPECT_FALSE(HasPage(kFirst.value())) << "unit " << unit;
  }
  directory().units[0].store(units - 1);
  EXPECT_NE(view().Record(kFirst), nullptr);
  // The last chunk of all numbers.
  directory().units[layout::kRecordChunksMax - 1].store(units - 1);
  EXPECT_NE(view().Record(RecordNumber(layout::kRecordNumberMax)), nullptr);
  EXPECT_EQ(view().Record(RecordNumber(0xFFFFFFFF)), nullptr);
}

TEST_F(ViewTest, RegionsLieInTheHeadAndInFurtherTables) {
  const auto* head = pool_.At<layout::RegionRecord>(layout::kRegionTableOffset);
  EXPECT_EQ(view().Region(RegionSlot(0)), head);
  EXPECT_EQ(view().Region(RegionSlot(2047)), head + 2047);
  EXPECT_EQ(view().Region(RegionSlot(2048)), nullptr);

  const uint64_t table = pool_.Carve(layout::RegionKind::kRegionTable, kUnitBytes)->offset_bytes;
  auto& directory = *pool_.At<layout::RegionDirectory>(layout::kRegionDirectoryOffset);
  directory.units[0].store(table / kUnitBytes);
  const auto* further = pool_.At<layout::RegionRecord>(table);
  EXPECT_EQ(view().Region(RegionSlot(2048)), further);
  EXPECT_EQ(view().Region(RegionSlot(2048 + 8191)), further + 8191);
  EXPECT_EQ(view().Region(RegionSlot(2048 + 8192)), nullptr);

  EXPECT_EQ(view().Region(RegionSlot(layout::kRegionSlotsMax - 1)), nullptr);
  EXPECT_EQ(view().Region(RegionSlot(layout::kRegionSlotsMax)), nullptr);
  EXPECT_EQ(view().Region(RegionSlot(0xFFFFFFFF)), nullptr);
  for (const uint64_t unit : {pool_.bytes() / kUnitBytes, uint64_t{1} << 43, ~uint64_t{0}}) {
    directory.units[0].store(unit);
    EXPECT_EQ(view().Region(RegionSlot(2048)), nullptr) << "unit " << unit;
  }
}

TEST_F(ViewTest, ClientsAndLeaseDirectoriesAreBoundsChecked) {
  EXPECT_NE(view().Client(ClientSlot(0)), nullptr);
  EXPECT_NE(view().Client(ClientSlot(1023)), nullptr);
  EXPECT_EQ(view().Client(ClientSlot(1024)), nullptr);
  EXPECT_EQ(view().Client(ClientSlot(0xFFFF)), nullptr);

  EXPECT_EQ(view().Leases(0), nullptr);
  EXPECT_NE(view().Leases(kUnitBytes), nullptr);
  EXPECT_EQ(view().Leases(kUnitBytes + 8), nullptr);
  EXPECT_NE(view().Leases(pool_.bytes() - kUnitBytes), nullptr);
  EXPECT_EQ(view().Leases(pool_.bytes()), nullptr);
  EXPECT_EQ(view().Leases(~uint64_t{0} - kUnitBytes + 1), nullptr);
}

TEST_F(ViewTest, PagesFollowTheirRegionsWords) {
  for (uint32_t i = 0; i < kPages; ++i) {
    PoolView::PageExtent extent;
    ASSERT_TRUE(view().Page(RecordNumber(kFirst.value() + i), &extent));
    EXPECT_EQ(extent.offset_bytes, pages_.offset_bytes + i * kPageBytes);
    EXPECT_EQ(extent.page_bytes, kPageBytes);
    EXPECT_EQ(extent.region_id, region().region_id.load());
    EXPECT_EQ(extent.page_index, i);
  }
}

TEST_F(ViewTest, RecordsOutsideTheirRegionsRunHaveNoPage) {
  pool_.Record(RecordNumber(kFirst.value() - 1)).region_slot.store(pages_.slot.value());
  pool_.Record(RecordNumber(kFirst.value() + kPages)).region_slot.store(pages_.slot.value());
  EXPECT_FALSE(HasPage(kFirst.value() - 1));
  EXPECT_FALSE(HasPage(kFirst.value() + kPages));
  EXPECT_FALSE(HasPage(0));
  EXPECT_FALSE(HasPage(0xFFFFFFFF));
}

TEST_F(ViewTest, WordsThatMakeNoSenseHaveNoPage) {
  struct Case {
    const char* what;
    std::atomic<uint64_t>* word;
    uint64_t value;
  };
  const uint32_t record = kFirst.value() + 1;
  auto& page = pool_.Record(RecordNumber(record));
  const Case cases[] = {
      {"a region slot out of range", &page.region_slot, layout::kRegionSlotsMax},
      {"a region slot with reserved bits", &page.region_slot, uint64_t{1} << 32},
      {"a region slot without a table", &page.region_slot, 2048},
      {"no region", &region().word, 0},
      {"a region of another kind", &region().word, 4},
      {"a region in the head", &region().offset_bytes, 0},
      {"a region off its unit", &region().offset_bytes, 2 * kUnitBytes + 8},
      {"a region outside the pool", &region().offset_bytes, pool_.bytes()},
      {"a region far outside", &region().offset_bytes, ~uint64_t{0} - kUnitBytes + 1},
      {"a region over the end", &region().length_bytes, pool_.bytes()},
      {"an endless region", &region().length_bytes, ~uint64_t{0}},
      {"pages of no size", &region().page_bytes, 0},
      {"pages that are too small", &region().page_bytes, 511},
      {"pages off their alignment", &region().page_bytes, 4097},
      {"pages that do not fit", &region().page_bytes, kUnitBytes},
      {"endless pages", &region().page_bytes, ~uint64_t{511}},
      {"too many pages", &region().pages, layout::PackRegionPages(100'000, kFirst.value())},
      {"too few pages", &region().pages, layout::PackRegionPages(1, kFirst.value())},
      {"records further on", &region().pages, layout::PackRegionPages(kPages, record + 1)},
      {"a region id out of range", &region().region_id, uint64_t{1} << 31},
  };
  ASSERT_TRUE(HasPage(record));
  for (const Case& c : cases) {
    const uint64_t before = c.word->exchange(c.value);
    EXPECT_FALSE(HasPage(record)) << c.what;
    c.word->store(before);
    EXPECT_TRUE(HasPage(record));
  }
}

#if MARU_SEQUENCE_POINTS
TEST_F(ViewTest, ARegionThatIsCutAnewWhileItIsReadIsNotThere) {
  PoolView::PageRegion read;
  ASSERT_TRUE(view().Pages(pages_.slot, &read));
  EXPECT_EQ(read.first_record, kFirst.value());
  EXPECT_EQ(read.page_count, kPages);
  const uint64_t next_cut = region().word.load() + (uint64_t{1} << 32);
  {
    // The fields that were read may be of either region.
    const ScopedHook cut_anew("region:copied", [&] { region().word.store(next_cut); });
    EXPECT_FALSE(view().Pages(pages_.slot, &read));
  }
  EXPECT_TRUE(view().Pages(pages_.slot, &read));
}
#endif

TEST_F(ViewTest, BoundsLeaveTheHeadOut) {
  EXPECT_FALSE(view().InBounds(0, 8));
  EXPECT_FALSE(view().InBounds(layout::kHeadBytes - 8, 8));
  EXPECT_TRUE(view().InBounds(layout::kHeadBytes, 8));
  EXPECT_TRUE(view().InBounds(pool_.bytes() - 8, 8));
  EXPECT_FALSE(view().InBounds(pool_.bytes() - 8, 9));
  EXPECT_FALSE(view().InBounds(layout::kHeadBytes, ~uint64_t{0}));
  EXPECT_FALSE(view().InBounds(~uint64_t{0}, 2));
}

}  // namespace
}  // namespace maru::catalogue
