#include "pool/room_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"
#include "pool/test_pool_fixture.h"

namespace maru::pool {
namespace {

constexpr uint64_t kUnit = layout::kUnitBytes;

PoolRoom FreshRoom(uint64_t units) {
  PoolRoom room;
  room.units = units;
  room.free_units = units - 2;  // head and first index room
  room.largest_run = units - 2;
  room.index_bytes = kUnit;
  return room;
}

TEST(RoomPlan, TextIndexAndLeasesAreKept) {
  const PoolRoom room = FreshRoom(16);
  EXPECT_EQ(IndexTableBytes(0), kUnit);
  EXPECT_EQ(IndexTableBytes(163'840), kUnit);
  EXPECT_EQ(IndexTableBytes(163'841), 2 * kUnit);
  // One second index room, one unit of leases, text.
  EXPECT_EQ(KeptUnits(room, 0), 2u);
  EXPECT_EQ(KeptUnits(room, 1), 3u);
  EXPECT_EQ(KeptUnits(room, 13'107), 3u);
  EXPECT_EQ(KeptUnits(room, 13'108), 4u);
  PoolRoom grown = room;
  grown.text_bytes = 2 * kUnit;
  grown.lease_bytes = kUnit;
  grown.index_bytes = 2 * kUnit;
  EXPECT_EQ(KeptUnits(grown, 13'108), 0u);
}

TEST(RoomPlan, LeasesHaveAShareOfThePool) {
  const auto leases = [](uint64_t units) { return KeptUnits(FreshRoom(units), 0) - 1; };
  EXPECT_EQ(leases(16), 1u);
  EXPECT_EQ(leases(256), 8u);
  // All clients that there can be, with two blocks each.
  EXPECT_GE(leases(1200) * (kUnit / layout::kLeaseBlockBytes - 1), 2 * layout::kClientSlots);
  EXPECT_EQ(leases(1 << 20), 64u);
}

TEST(RoomPlan, ARegionIsTrimmedToWholePages) {
  const PoolRoom room = FreshRoom(64);
  const RegionPlan plan = PlanRegion(room, 3 << 20, 10 << 20);
  EXPECT_EQ(plan.page_count, 3u);
  EXPECT_EQ(plan.units, 5u);
  EXPECT_EQ(PlanRegion(room, 3 << 20, 8 << 20).units, 3u) << "two pages of 3 MiB need no 4 units";
  EXPECT_EQ(PlanRegion(room, 256 << 20, 0).units, 0u);
}

TEST(RoomPlan, ARegionHasAMaximumOfPages) {
  PoolRoom room = FreshRoom(1 << 20);
  const RegionPlan plan = PlanRegion(room, 512, 1ull << 40);
  EXPECT_EQ(plan.page_count, kPagesPerRegionMax);
  EXPECT_EQ(plan.units, kPagesPerRegionMax * 512 / kUnit);
}

// The plan is within what is free, and hardly more would have been.
TEST(RoomPlan, PlansFitAndAreCloseToTheLargest) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    PoolRoom room = FreshRoom(random.Between(16, 4000));
    const uint64_t page_bytes = 512 * random.Between(1, random.OneIn(2) ? 16 : 10'000);
    const RegionPlan plan = PlanRegion(room, page_bytes, layout::kPoolBytesMax);
    const auto needed = [&](uint64_t units) {
      const uint64_t pages = units * kUnit / page_bytes;
      return units + ChunksFor(room, pages) + KeptUnits(room, pages);
    };
    if (plan.units == 0) {
      EXPECT_GT(needed((page_bytes + kUnit - 1) / kUnit), room.free_units);
      continue;
    }
    ASSERT_LE(plan.page_count * page_bytes, plan.units * kUnit);
    ASSERT_LE(plan.units + ChunksFor(room, plan.page_count) + KeptUnits(room, plan.page_count),
              room.free_units);
    if (plan.page_count < kPagesPerRegionMax) {
      const uint64_t pages_more = (page_bytes + kUnit - 1) / kUnit + 1;
      EXPECT_GT(needed(plan.units + pages_more), room.free_units);
    }
  }
}

class RoomPlanPoolTest : public PoolFixture {};

TEST_F(RoomPlanPoolTest, ForeseesTheChunksThatTheWriterTakes) {
  const auto by_first = [](const RecordRun& a, const RecordRun& b) { return a.first < b.first; };
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Make(32);
    PoolRoom room;
    for (int step = 0; step < 40; ++step) {
      if (!room.runs.empty() && random.OneIn(3)) {
        const auto gone = room.runs.begin() + static_cast<int64_t>(random.Below(room.runs.size()));
        pool_->writer().ReleaseRecords(RecordNumber(static_cast<uint32_t>(gone->first)),
                                       static_cast<uint32_t>(gone->count));
        room.runs.erase(gone);
        continue;
      }
      const auto count = static_cast<uint32_t>(random.Between(1, 50'000));
      room.record_chunks = pool_->usage().records_bytes / kUnit;
      const uint64_t foreseen = ChunksFor(room, count);
      const Result<RecordNumber> first = pool_->writer().AllocateRecords(count);
      if (!first.ok()) break;
      ASSERT_EQ(pool_->usage().records_bytes / kUnit - room.record_chunks, foreseen);
      pool_->writer().BindRecords(*first, count, RegionSlot(0));
      const RecordRun run{first->value(), count};
      room.runs.insert(std::upper_bound(room.runs.begin(), room.runs.end(), run, by_first), run);
    }
  }
}

}  // namespace
}  // namespace maru::pool
