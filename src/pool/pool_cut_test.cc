// Regions of pages that get their memory a unit at a time.
#include <optional>

#include <gmock/gmock.h>

#include "base/test_crash.h"
#include "pool/check.h"
#include "pool/room_plan.h"
#include "pool/test_pool_fixture.h"
#include "pool/test_scarce_backing.h"

namespace maru::pool {
namespace {

using layout::PageState;
using testing::HasSubstr;

class PoolCutTest : public PoolFixture {
 protected:
  Pool::Cutting Begin(uint64_t page_bytes, uint64_t wanted_bytes) {
    Result<Pool::Cutting> begun = pool_->BeginCut(page_bytes, wanted_bytes);
    EXPECT_TRUE(begun.ok()) << begun.status().ToString();
    return *begun;
  }
  uint32_t Continue(Pool::Cutting* cutting) {
    const Result<uint32_t> added = pool_->ContinueCut(cutting);
    EXPECT_TRUE(added.ok()) << added.status().ToString();
    CheckWhole();
    return added.value_or(0);
  }
  uint64_t free_units() const { return pool_->usage().free_bytes / kUnit; }
};

TEST_F(PoolCutTest, PagesComeAUnitAtATime) {
  Make(32);
  Pool::Cutting cutting = Begin(kPageMiB, 4 * kUnit);
  EXPECT_EQ(pool_->usage().pages_bytes, 4 * kUnit);
  EXPECT_TRUE(pool_->PageRegions().empty());
  for (uint32_t unit = 1; unit <= 4; ++unit) {
    ASSERT_FALSE(cutting.over());
    EXPECT_EQ(Continue(&cutting), 2u);
    ASSERT_EQ(pool_->PageRegions().size(), 1u);
    const Pool::PageRegion region = pool_->PageRegions()[0];
    EXPECT_EQ(region.page_count, 2 * unit);
    EXPECT_EQ(region.length_bytes, 4 * kUnit);  // all of it from the first page on
    EXPECT_EQ(region.id, cutting.region.id);
    EXPECT_TRUE(Store(region, "key " + std::to_string(unit)));
  }
  EXPECT_TRUE(cutting.over());
  EXPECT_EQ(pool_->usage().pages_bytes, 4 * kUnit);
}

TEST_F(PoolCutTest, APageLargerThanAUnitComesWhenItIsWhole) {
  Make(32);
  Pool::Cutting cutting = Begin(3 * kPageMiB, 3 * kUnit);
  EXPECT_EQ(Continue(&cutting), 0u);
  EXPECT_EQ(Continue(&cutting), 1u);
  EXPECT_EQ(Continue(&cutting), 1u);
  EXPECT_TRUE(cutting.over());
}

TEST_F(PoolCutTest, WhatIsNotGoneOnWithIsFreeAgain) {
  Make(32);
  const Pool::PageRegion other = pool_->CutPages(kPageMiB, kUnit).value();
  const uint64_t before = free_units();
  Pool::Cutting none = Begin(kPageMiB, 4 * kUnit);
  EXPECT_EQ(free_units(), before - 4);
  pool_->EndCut(&none);
  EXPECT_EQ(free_units(), before);
  EXPECT_TRUE(none.over());

  Pool::Cutting some = Begin(kPageMiB, 4 * kUnit);
  Continue(&some);
  pool_->EndCut(&some);
  CheckWhole();
  EXPECT_EQ(free_units(), before - 1);
  EXPECT_EQ(some.region.length_bytes, kUnit);
  ASSERT_TRUE(pool_->FreePages(some.region.slot).ok());
  EXPECT_EQ(free_units(), before);
  // Its numbers as well: the next region has them.
  EXPECT_EQ(pool_->CutPages(kPageMiB, 4 * kUnit)->first_record,
            RecordNumber(other.first_record.value() + other.page_count));
}

TEST_F(PoolCutTest, TheSmallestPagesTakeOneChunkOfRecordsAtATime) {
  Make(128);
  Pool::Cutting cutting = Begin(512, 32 * kUnit);
  EXPECT_EQ(cutting.pages_planned, 32 * kUnit / 512);
  uint64_t chunks = pool_->usage().records_bytes / kUnit;
  for (int unit = 0; !cutting.over(); ++unit) {
    ASSERT_LT(unit, 40);
    Continue(&cutting);
    const uint64_t now = pool_->usage().records_bytes / kUnit;
    EXPECT_LE(now, chunks + 1);
    chunks = now;
  }
  EXPECT_EQ(cutting.region.page_count, 32 * kUnit / 512);
}

TEST_F(PoolCutTest, ARegionEndsWhereItsNumbersAreAnothers) {
  Make(128);
  Pool::Cutting cutting = Begin(512, 16 * kUnit);
  Continue(&cutting);
  // All that have memory, and a chunk more: the numbers behind the region's are gone.
  ASSERT_TRUE(pool_->CutPages(512, 8 * kUnit).ok());
  const uint64_t before = free_units();
  while (!cutting.over()) Continue(&cutting);
  EXPECT_LT(cutting.region.page_count, 16 * kUnit / 512);
  EXPECT_EQ(cutting.region.page_count, layout::kRecordsPerChunk - 1);
  EXPECT_EQ(cutting.region.length_bytes, 4 * kUnit);
  EXPECT_GT(free_units(), before);
}

TEST_F(PoolCutTest, ARegionEndsWhereMemoryDoesAndBurnsNoId) {
  Make(64);
  pool_.reset();
  Scarcity scarcity{.units_left = 4};
  ++options_.epoch;
  pool_ = Pool::Open(std::make_unique<ScarceBacking>(memory_, &scarcity), options_).value();
  scarcity.units_left = 3;  // one is for records
  const Pool::PageRegion region = pool_->CutPages(kPageMiB, 8 * kUnit).value();
  EXPECT_EQ(region.page_count, 4u);
  EXPECT_EQ(region.length_bytes, 2 * kUnit);
  CheckWhole();
  const uint64_t ordinal = root().next_region_ordinal;
  const uint64_t before = free_units();
  for (int i = 0; i < 3; ++i) {
    const auto refused = pool_->CutPages(kPageMiB, 8 * kUnit);
    ASSERT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(refused.status().message(), HasSubstr("no memory left"));
  }
  EXPECT_EQ(root().next_region_ordinal, ordinal);
  EXPECT_EQ(free_units(), before);
  scarcity.units_left = 8;
  EXPECT_EQ(pool_->CutPages(kPageMiB, 8 * kUnit)->page_count, 16u);
  CheckWhole();
}

TEST_F(PoolCutTest, RoomIsKeptForPagesThatAreToCome) {
  // Two sizes at once, one of which has no page yet: all of its pages come, and all get keys as
  // long as room is kept for.
  Make(64);
  Pool::Cutting small = Begin(512, 16 * kUnit);
  const uint32_t planned = small.pages_planned;
  ASSERT_EQ(planned, 16 * kUnit / 512);
  std::vector<Pool::PageRegion> regions;
  while (true) {
    const auto cut = pool_->CutPages(kPageMiB, 4 * kUnit);
    if (!cut.ok()) break;
    regions.push_back(*cut);
  }
  EXPECT_FALSE(regions.empty());
  while (!small.over()) Continue(&small);
  EXPECT_EQ(small.region.page_count, planned);
  regions.push_back(small.region);
  uint64_t key = 0;
  for (const Pool::PageRegion& region : regions) {
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const std::string number = std::to_string(key++);
      const std::string text = std::string(kTextBytesKept - number.size(), 'k') + number;
      ASSERT_TRUE(StoreAt(region, i, text).ok()) << key;
    }
  }
}

// A server that dies while a region is being cut leaves what it has; the rest is free again, also
// when the next server dies while it frees it.
TEST_F(PoolCutTest, ACrashAtAnyPointOfCuttingLosesNoUnit) {
  const auto met = CrashAtEachPoint([this](CrashPoint& point) {
    Make(32);
    const uint64_t units = free_units();
    Pool::Cutting cutting;
    const auto step = [&](auto work) {
      if (!point.crashed() && !point.Run(work)) Reopen();
    };
    step([&] { cutting = pool_->BeginCut(kPageMiB, 4 * kUnit).value(); });
    step([&] { ASSERT_TRUE(pool_->ContinueCut(&cutting).ok()); });
    if (!point.crashed()) {
      ASSERT_TRUE(Store(cutting.region, "a"));
    }
    step([&] { ASSERT_TRUE(pool_->ContinueCut(&cutting).ok()); });
    step([&] { ASSERT_TRUE(TryOpen().ok()); });
    CheckWhole();
    if (testing::Test::HasFatalFailure()) return;
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      ASSERT_EQ(region.length_bytes, region.page_count / 2 * kUnit);
      for (uint32_t i = 0; i < region.page_count; ++i) {
        const RecordNumber record(region.first_record.value() + i);
        const PageState state = pool_->writer().State(record).state();
        ASSERT_TRUE(state == PageState::kFree || state == PageState::kLive);
      }
    }
    if (keys_.contains("a")) Drop("a");
    for (const Pool::PageRegion& region : pool_->PageRegions()) {
      ASSERT_TRUE(pool_->FreePages(region.slot).ok());
    }
    const Pool::Usage usage = pool_->usage();
    ASSERT_EQ(free_units() + (usage.records_bytes + usage.text_bytes + usage.index_bytes) / kUnit,
              units + 1);  // the first index was there before
  });
  ExpectMet(met, {"carve:reserved", "region:word", "region:grown", "region:shortened",
                  "writer:bound", "writer:chunk-named", "pool:cut"});
}

TEST_F(PoolCutTest, ACheckTellsThatUnitsWithoutPagesBecomeFree) {
  Make(32);
  Pool::Cutting cutting = Begin(kPageMiB, 4 * kUnit);
  Continue(&cutting);
  const auto check = [&] {
    CheckReport report;
    CheckMapped(catalogue::PoolView(memory_->base(), memory_->bytes()), VerifyBytes::kNo, &report);
    EXPECT_TRUE(report.ok());
    return report.mends.listed;
  };
  EXPECT_THAT(check(), testing::Contains(HasSubstr("have no pages yet")));
  Reopen();
  EXPECT_THAT(check(), testing::Not(testing::Contains(HasSubstr("have no pages yet"))));
}

}  // namespace
}  // namespace maru::pool
