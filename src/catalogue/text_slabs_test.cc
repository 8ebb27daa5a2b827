#include "catalogue/text_slabs.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing.h"
#include "catalogue/test_pool.h"

namespace maru::catalogue {
namespace {

TEST(TextClasses, AreThoseThatPoolsWereWrittenWith) {
  // A change here is another layout version: slabs of old pools lie on the old grid.
  const std::vector<uint32_t> steps(kTextClassBytes.begin() + kTextFineClasses - 1,
                                    kTextClassBytes.end());
  EXPECT_EQ(steps,
            (std::vector<uint32_t>{256,   320,   400,   496,   616,   768,   960,   1200,
                                   1504,  1896,  2376,  2976,  3744,  4680,  5952,  7704,
                                   10080, 13104, 16384, 21840, 32768, 43688, 65536, 131072}));
  for (uint32_t i = 0; i < kTextFineClasses; ++i) EXPECT_EQ(kTextClassBytes[i], 8 * (i + 1));
}

TEST(TextClasses, EachLengthHasTheSmallestClassThatHoldsIt) {
  for (uint64_t bytes = 0; bytes <= kTextBytesMax; ++bytes) {
    const uint32_t chosen = TextClass(bytes);
    ASSERT_GE(kTextClassBytes[chosen], bytes);
    if (chosen > 0) {
      ASSERT_LT(kTextClassBytes[chosen - 1], std::max<uint64_t>(bytes, 1));
    }
  }
}

TEST(TextSlabs, BlocksOfOneClassFillASlabWithoutOverlap) {
  TestPool pool;
  TextSlabs slabs(&pool);
  std::set<uint64_t> offsets;
  for (uint32_t i = 0; i < TextBlocks(TextClass(104)); ++i) {
    const Result<uint64_t> offset = slabs.Allocate(100);
    ASSERT_TRUE(offset.ok());
    EXPECT_EQ(*offset % 8, 0u);
    EXPECT_TRUE(offsets.insert(*offset).second);
    if (offsets.size() > 1) {
      EXPECT_GE(*offsets.rbegin() - *std::next(offsets.rbegin()), 104u);
    }
  }
  EXPECT_LE(*offsets.rbegin() + 104 - *offsets.begin(), layout::kTextSlabBytes);
  EXPECT_EQ(slabs.region_bytes(), layout::kUnitBytes);
  EXPECT_EQ(slabs.used_bytes(), offsets.size() * 104);
}

TEST(TextSlabs, AnEmptiedSlabServesAnotherClass) {
  TestPool pool;
  TextSlabs slabs(&pool);
  std::vector<uint64_t> small;
  for (int i = 0; i < 16; ++i) {
    for (uint32_t j = 0; j < TextBlocks(TextClass(256)); ++j) {
      small.push_back(*slabs.Allocate(256));
    }
  }
  EXPECT_EQ(slabs.region_bytes(), layout::kUnitBytes);
  for (const uint64_t offset : small) slabs.Free(offset, 256);
  EXPECT_EQ(slabs.used_bytes(), 0u);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(slabs.Allocate(kTextBytesMax).ok());
  EXPECT_EQ(slabs.region_bytes(), layout::kUnitBytes);
  ASSERT_TRUE(slabs.Allocate(0).ok());
  EXPECT_EQ(slabs.region_bytes(), 2 * layout::kUnitBytes);
}

TEST(TextSlabs, AClosedSlabTakesNoTextUntilItIsEmptyOrOpened) {
  TestPool pool;
  TextSlabs slabs(&pool);
  const uint32_t blocks = TextBlocks(TextClass(256));
  std::vector<uint64_t> full;
  for (uint32_t i = 0; i < blocks; ++i) full.push_back(*slabs.Allocate(256));
  const uint64_t few = *slabs.Allocate(256);
  ASSERT_EQ(slabs.Sparsest(8), (std::vector<uint64_t>{few, full[0]}));
  EXPECT_EQ(slabs.Sparsest(1), std::vector<uint64_t>{few});

  const auto in = [](uint64_t text, uint64_t slab) { return text - slab < layout::kTextSlabBytes; };
  // One with room, one that is full and gets some: neither gives any of it out.
  slabs.Close(few);
  slabs.Close(full[0]);
  slabs.Free(full[3], 256);
  const uint64_t elsewhere = *slabs.Allocate(256);
  EXPECT_FALSE(in(elsewhere, few));
  EXPECT_FALSE(in(elsewhere, full[0]));
  slabs.Open(full[0]);
  EXPECT_EQ(*slabs.Allocate(256), full[3]);
  EXPECT_FALSE(in(*slabs.Allocate(256), few));
  // Empty, it serves any length; opening it then is nothing.
  slabs.Free(few, 256);
  slabs.Open(few);
  EXPECT_EQ(*slabs.Allocate(kTextBytesMax), few);
}

TEST(TextSlabs, AFullPoolIsToldAndNothingIsLost) {
  TestPool pool;
  TextSlabs slabs(&pool);
  std::vector<uint64_t> offsets;
  for (;;) {
    const Result<uint64_t> offset = slabs.Allocate(65536);
    if (!offset.ok()) {
      EXPECT_EQ(offset.status().code(), StatusCode::kResourceExhausted);
      break;
    }
    offsets.push_back(*offset);
  }
  EXPECT_EQ(offsets.size(), pool.bytes() / 65536 - layout::kUnitBytes / 65536);
  slabs.Free(offsets[5], 65536);
  EXPECT_EQ(*slabs.Allocate(60000), offsets[5]);
}

TEST(TextSlabs, AdoptRefusesWhatNoAllocatorGaveOut) {
  TestPool pool;
  TextSlabs slabs(&pool);
  slabs.AddRegion(8 * layout::kUnitBytes, layout::kUnitBytes);
  const uint64_t base = 8 * layout::kUnitBytes;
  EXPECT_TRUE(slabs.Adopt(base + 104, 100).ok());
  const auto refused = [&](uint64_t offset, uint64_t bytes, std::string_view why) {
    const Status status = slabs.Adopt(offset, bytes);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
  };
  refused(base + 104, 99, "two records");
  refused(base + 105, 100, "can lie");
  refused(base + 320, 320, "its slab holds");
  refused(base + 1260 * 104, 100, "can lie");  // the rest behind the last block
  refused(base - 104, 100, "can lie");
  refused(base + layout::kUnitBytes, 100, "can lie");
  refused(0, 8, "can lie");
  refused(~uint64_t{0} - 7, 8, "can lie");
  refused(base, kTextBytesMax + 1, "bytes");
  EXPECT_TRUE(slabs.Holds(base + 104, 100));
  EXPECT_FALSE(slabs.Holds(base, 100));
  EXPECT_FALSE(slabs.Holds(base + 104, 300));
}

// Against a map of what is allocated, with a restart from that map now and then.
TEST(TextSlabs, RandomUseAgreesWithAMapAlsoAfterRestarts) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  TestPool pool({.pool_bytes = 64 * layout::kUnitBytes});
  auto slabs = std::make_unique<TextSlabs>(&pool);
  std::map<uint64_t, uint64_t> texts;  // offset -> text bytes
  for (int step = 0; step < 20'000; ++step) {
    if (random.OneIn(4'000)) {
      slabs = std::make_unique<TextSlabs>(&pool);
      for (uint32_t slot = 0; slot < pool.root().region_slots_high.load(); ++slot) {
        const layout::RegionRecord& region = pool.Region(RegionSlot(slot));
        slabs->AddRegion(region.offset_bytes.load(), region.length_bytes.load());
      }
      for (const auto& [offset, bytes] : texts) ASSERT_TRUE(slabs->Adopt(offset, bytes).ok());
      slabs->Settle();
    }
    if (!texts.empty() && random.OneIn(2)) {
      auto text = texts.lower_bound(random.Below(pool.bytes()));
      if (text == texts.end()) text = texts.begin();
      slabs->Free(text->first, text->second);
      texts.erase(text);
      continue;
    }
    const uint64_t bytes = random.OneIn(20) ? random.Below(kTextBytesMax + 1) : random.Below(300);
    const Result<uint64_t> offset = slabs->Allocate(bytes);
    if (!offset.ok()) continue;
    const auto next = texts.lower_bound(*offset);
    if (next != texts.end()) {
      ASSERT_LE(*offset + kTextClassBytes[TextClass(bytes)], next->first);
    }
    if (next != texts.begin()) {
      const auto& [before, before_bytes] = *std::prev(next);
      ASSERT_LE(before + kTextClassBytes[TextClass(before_bytes)], *offset);
    }
    texts[*offset] = bytes;
  }
  uint64_t used = 0;
  for (const auto& [offset, bytes] : texts) {
    EXPECT_TRUE(slabs->Holds(offset, bytes));
    used += kTextClassBytes[TextClass(bytes)];
  }
  EXPECT_EQ(slabs->used_bytes(), used);
}

}  // namespace
}  // namespace maru::catalogue
