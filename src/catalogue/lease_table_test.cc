#include "catalogue/lease_table.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/random.h"
#include "base/testing.h"
#include "catalogue/lease_slots.h"
#include "catalogue/test_catalogue.h"

namespace maru::catalogue {
namespace {

using layout::SlotWord;

SlotWord Word(uint32_t record, uint32_t generation) {
  return SlotWord::Make(RecordNumber(record), Generation(generation), SlotWord::Kind::kLease);
}

TEST(LeaseTableTest, AnEmptyTableHasNothing) {
  LeaseTable table;
  EXPECT_EQ(table.Find(Word(1, 1)), nullptr);
  EXPECT_EQ(table.size(), 0u);
}

TEST(LeaseTableTest, GenerationsOfOneRecordAreApart) {
  LeaseTable table;
  table.ReserveOne();
  table.Insert(Word(1, 1))->slot = 11;
  table.ReserveOne();
  table.Insert(Word(1, 2))->slot = 12;
  EXPECT_EQ(table.Find(Word(1, 1))->slot, 11u);
  EXPECT_EQ(table.Find(Word(1, 2))->slot, 12u);
  table.Erase(table.Find(Word(1, 1)));
  EXPECT_EQ(table.Find(Word(1, 1)), nullptr);
  EXPECT_EQ(table.Find(Word(1, 2))->slot, 12u);
}

TEST(LeaseTableTest, AgreesWithAMap) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  LeaseTable table;
  std::map<uint64_t, uint32_t> model;
  for (uint32_t step = 0; step < 20'000; ++step) {
    // Grows to some hundreds, then falls to nothing, over and over.
    const bool growing = step / 1000 % 2 == 0;
    const SlotWord word = Word(static_cast<uint32_t>(random.Between(1, 300)),
                               static_cast<uint32_t>(random.Between(1, 3)));
    const bool known = model.contains(word.bits());
    ASSERT_EQ(table.Find(word) != nullptr, known);
    if (known) {
      ASSERT_EQ(table.Find(word)->slot, model[word.bits()]);
      if (!growing || random.OneIn(4)) {
        table.Erase(table.Find(word));
        model.erase(word.bits());
      }
    } else if (growing || random.OneIn(4)) {
      table.ReserveOne();
      table.Insert(word)->slot = step;
      model[word.bits()] = step;
    }
    ASSERT_EQ(table.size(), model.size());
  }
  std::map<uint64_t, uint32_t> seen;
  table.ForEach([&](const LeaseEntry& entry) { seen[entry.word] = entry.slot; });
  EXPECT_EQ(seen, model);
}

TEST(LeaseSlotPoolTest, HandsOutEverySlotOnceAndThenNone) {
  auto header = std::make_unique<layout::LeaseHeader>();
  auto area = std::make_unique<layout::LeaseSlots>();
  LeaseSlotPool pool(header.get());
  EXPECT_FALSE(pool.Take());
  pool.AddBlock(area.get());
  for (uint32_t i = 0; i < layout::kLeaseSlotsPerBlock; ++i) {
    ASSERT_EQ(pool.Take(), i);
    ASSERT_EQ(header->slots_high.load(), i + 1);
    ASSERT_EQ(&pool.At(i), &area->slots[i]);
  }
  EXPECT_FALSE(pool.Take());
  pool.Give(7);
  EXPECT_EQ(pool.Take(), 7u);
  EXPECT_FALSE(pool.Take());

  auto more = std::make_unique<layout::LeaseSlots>();
  pool.AddBlock(more.get());
  const auto slot = pool.Take();
  ASSERT_EQ(slot, layout::kLeaseSlotsPerBlock);
  EXPECT_EQ(&pool.At(*slot), &more->slots[0]);
}

TEST(LeaseSlotPoolTest, SlotsThatWereUsedAreUsedBeforeFreshOnes) {
  auto header = std::make_unique<layout::LeaseHeader>();
  auto area = std::make_unique<layout::LeaseSlots>();
  LeaseSlotPool pool(header.get());
  pool.AddBlock(area.get());
  for (int round = 0; round < 100; ++round) {
    const auto a = pool.Take();
    const auto b = pool.Take();
    pool.Give(*a);
    pool.Give(*b);
  }
  EXPECT_EQ(header->slots_high.load(), 2u);
}

TEST(LeaseSlotPoolTest, BlocksBeyondTheMaximumAreLeftUnused) {
  auto header = std::make_unique<layout::LeaseHeader>();
  auto area = std::make_unique<layout::LeaseSlots>();
  LeaseSlotPool pool(header.get());
  for (uint32_t i = 0; i < LeaseSlotPool::kBlocksMax + 2; ++i) pool.AddBlock(area.get());
  EXPECT_EQ(pool.capacity(), uint64_t{LeaseSlotPool::kBlocksMax} * layout::kLeaseSlotsPerBlock);
}

TEST(LeaseSlotPoolTest, NoSlotHasTwoOwners) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  auto header = std::make_unique<layout::LeaseHeader>();
  auto area = std::make_unique<layout::LeaseSlots>();
  LeaseSlotPool pool(header.get());
  pool.AddBlock(area.get());
  std::atomic<int> clashes{0};
  const auto work = [&](uint64_t id) {
    Random random(id);
    std::vector<uint32_t> mine;
    for (int round = 0; round < kRounds; ++round) {
      if (mine.size() < 4 && random.OneIn(2)) {
        const uint32_t slot = *pool.Take();
        if (pool.At(slot).exchange(id, std::memory_order_relaxed) != 0) ++clashes;
        mine.push_back(slot);
      } else if (!mine.empty()) {
        pool.At(mine.back()).store(0, std::memory_order_relaxed);
        pool.Give(mine.back());
        mine.pop_back();
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t id = 1; id <= kThreads; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
  EXPECT_LE(header->slots_high.load(), 4u * kThreads);
}

}  // namespace
}  // namespace maru::catalogue
