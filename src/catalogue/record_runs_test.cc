#include "catalogue/record_runs.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/random.h"
#include "base/testing.h"
#include "catalogue/test_pool.h"

namespace maru::catalogue {
namespace {

struct Runs {
  explicit Runs(TestPool* pool) : memory(pool->base(), pool->bytes()), runs(&memory, pool) {}
  Status Recover() {
    auto regions = ReadRegions(memory);
    return regions.ok() ? runs.Recover(*regions) : regions.status();
  }
  PoolMemory memory;
  RecordRuns runs;
};

TEST(RecordRuns, NumberZeroIsNeverHandedOut) {
  TestPool pool;
  Runs runs(&pool);
  EXPECT_EQ(*runs.runs.Allocate(1), RecordNumber(1));
  EXPECT_EQ(*runs.runs.Allocate(10), RecordNumber(2));
  EXPECT_EQ(pool.root().record_high.load(), 12u);
  EXPECT_NE(pool.view().Record(RecordNumber(1)), nullptr);
  EXPECT_EQ(pool.view().Record(RecordNumber(layout::kRecordsPerChunk)), nullptr);
}

TEST(RecordRuns, ALongRunSpansChunksAndGoesOnFromTheFreeTail) {
  TestPool pool;
  Runs runs(&pool);
  EXPECT_EQ(*runs.runs.Allocate(100), RecordNumber(1));
  EXPECT_EQ(*runs.runs.Allocate(3 * layout::kRecordsPerChunk), RecordNumber(101));
  EXPECT_EQ(runs.runs.chunk_bytes(), 4 * layout::kUnitBytes);
}

TEST(RecordRuns, ARunGrowsAChunkAtATime) {
  TestPool pool;
  Runs runs(&pool);
  constexpr uint32_t kChunk = layout::kRecordsPerChunk;
  EXPECT_EQ(*runs.runs.Allocate(100), RecordNumber(1));
  const RecordRuns::Run begun = runs.runs.AllocateSome(3 * kChunk).value();
  EXPECT_EQ(begun.first, RecordNumber(101));
  EXPECT_EQ(begun.count, kChunk - 101);
  EXPECT_EQ(runs.runs.chunk_bytes(), layout::kUnitBytes);
  EXPECT_EQ(*runs.runs.Extend(RecordNumber(kChunk), 2 * kChunk), kChunk);
  EXPECT_EQ(runs.runs.chunk_bytes(), 2 * layout::kUnitBytes);
  EXPECT_EQ(*runs.runs.Extend(RecordNumber(2 * kChunk), 10), 10u);
  // Somebody else's now.
  EXPECT_EQ(*runs.runs.Allocate(1), RecordNumber(2 * kChunk + 10));
  EXPECT_EQ(*runs.runs.Extend(RecordNumber(2 * kChunk + 10), 10), 0u);
  // A free run that is long enough goes before the end.
  runs.runs.Release(RecordNumber(1), 100);
  const RecordRuns::Run again = runs.runs.AllocateSome(60).value();
  EXPECT_EQ(again.first, RecordNumber(1));
  EXPECT_EQ(again.count, 60u);
}

TEST(RecordRuns, FreedRunsMergeAndAreUsedAgain) {
  TestPool pool;
  Runs runs(&pool);
  const RecordNumber a = *runs.runs.Allocate(10), b = *runs.runs.Allocate(20),
                     c = *runs.runs.Allocate(30);
  runs.runs.Allocate(1).value();
  runs.runs.Release(a, 10);
  runs.runs.Release(c, 30);
  EXPECT_NE(*runs.runs.Allocate(31), a);
  runs.runs.Release(b, 20);
  EXPECT_EQ(*runs.runs.Allocate(60), a);
}

TEST(RecordRuns, AFullPoolKeepsTheChunksThatItGot) {
  TestPool pool;  // 15 units behind its head
  Runs runs(&pool);
  const Result<RecordNumber> refused = runs.runs.Allocate(16 * layout::kRecordsPerChunk);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.free_bytes(), 0u);
  EXPECT_EQ(*runs.runs.Allocate(15 * layout::kRecordsPerChunk - 1), RecordNumber(1));
}

TEST(RecordRuns, TheLastNumbersEndTheSpace) {
  TestPool pool;
  Runs runs(&pool);
  EXPECT_EQ(runs.runs.Allocate(0xFFFFFFFF).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(runs.runs.chunk_bytes(), 0u);
}

TEST(RecordRuns, RecoveryTakesUnitsThatNoDirectoryEntryNames) {
  TestPool pool;
  const auto room = pool.Carve(layout::RegionKind::kRecords, 2 * layout::kUnitBytes).value();
  pool.Word(room.offset_bytes + 64).store(99);  // what a carving never leaves; it is zeroed
  const uint64_t free_bytes = pool.free_bytes();
  Runs runs(&pool);
  ASSERT_TRUE(runs.Recover().ok());
  EXPECT_EQ(*runs.runs.Allocate(2 * layout::kRecordsPerChunk - 1), RecordNumber(1));
  EXPECT_EQ(pool.free_bytes(), free_bytes);
  EXPECT_EQ(pool.Word(room.offset_bytes + 64).load(), 0u);
}

TEST(RecordRuns, RecoveryNamesWhatNoServerLeaves) {
  const auto refused = [](const std::function<void(TestPool&)>& damage, std::string_view why) {
    TestPool pool;
    Runs before(&pool);
    const RecordNumber first = before.runs.Allocate(40).value();
    ASSERT_TRUE(pool.CarvePages(512, 20, first).ok());
    ASSERT_TRUE(pool.CarvePages(512, 20, RecordNumber(first.value() + 20)).ok());
    {
      Runs whole(&pool);
      ASSERT_TRUE(whole.Recover().ok());
      EXPECT_EQ(whole.runs.free().begin()->first, 41u);
    }
    damage(pool);
    Runs after(&pool);
    const Status status = after.Recover();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
  };
  const auto directory = [](TestPool& pool) {
    return pool.At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
  };
  refused([&](TestPool& pool) { directory(pool)->units[0].store(9); }, "no records region");
  refused([&](TestPool& pool) { directory(pool)->units[2].store(1); }, "but not chunk 1");
  refused([&](TestPool& pool) { directory(pool)->units[1].store(1); }, "twice");
  refused([&](TestPool& pool) { pool.root().record_high.store(1 << 20); }, "has memory up to");
  refused([&](TestPool& pool) { pool.root().record_high.store(30); }, "outside the records");
  refused(
      [&](TestPool& pool) {
        pool.Region(RegionSlot(2)).pages.store(layout::PackRegionPages(20, 20));
      },
      "overlaps");
  refused(
      [&](TestPool& pool) {
        pool.Region(RegionSlot(2)).pages.store(layout::PackRegionPages(20, 1));
      },
      "same first record");
  refused([&](TestPool& pool) { pool.Region(RegionSlot(2)).word.store(0x1'00000009); }, "slot 2");
  refused(
      [&](TestPool& pool) {
        pool.Region(RegionSlot(2)).offset_bytes.store(pool.Region(RegionSlot(1)).offset_bytes);
      },
      "overlap");
  refused([&](TestPool& pool) { pool.root().region_slots_high.store(2049); }, "not there");
  refused([&](TestPool& pool) { pool.root().region_slots_high.store(~0ull); }, "most is");
}

TEST(RecordRuns, RandomUseAgreesWithAMapAlsoAfterRestarts) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  TestPool pool({.pool_bytes = 512 * layout::kUnitBytes});
  auto runs = std::make_unique<Runs>(&pool);
  std::map<uint32_t, std::pair<uint32_t, RegionSlot>> used;  // first -> count, region
  for (int step = 0; step < 400; ++step) {
    if (random.OneIn(20)) {
      runs = std::make_unique<Runs>(&pool);
      ASSERT_TRUE(runs->Recover().ok());
    }
    if (!used.empty() && random.OneIn(3)) {
      auto run = used.lower_bound(static_cast<uint32_t>(random.Below(100'000)));
      if (run == used.end()) run = used.begin();
      pool.Region(run->second.second).word.store(0);
      runs->runs.Release(RecordNumber(run->first), run->second.first);
      used.erase(run);
      continue;
    }
    const auto count = static_cast<uint32_t>(1 + random.Below(random.OneIn(10) ? 40'000 : 200));
    const Result<RecordNumber> first = runs->runs.Allocate(count);
    if (!first.ok()) continue;
    const auto next = used.lower_bound(first->value());
    if (next != used.end()) {
      ASSERT_LE(first->value() + count, next->first);
    }
    if (next != used.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.first, first->value());
    }
    const auto region = pool.CarvePages(512, count, *first);
    if (!region.ok()) {
      runs->runs.Release(*first, count);
      continue;
    }
    used[first->value()] = {count, region->slot};
  }
  ASSERT_GT(used.size(), 10u);
}

}  // namespace
}  // namespace maru::catalogue
