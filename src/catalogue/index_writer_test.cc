#include "catalogue/index_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/sequence_point.h"
#include "base/testing.h"
#include "catalogue/publication_points.h"
#include "catalogue/record_runs.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

constexpr uint64_t kSmallest = uint64_t{1} << layout::kIndexEntriesLog2Unit;

// An index over records that have a hash and nothing else.
class Rig {
 public:
  Rig(uint64_t pool_bytes, uint32_t records,
      uint32_t entries_log2_min = layout::kIndexEntriesLog2Unit)
      : room_(pool_bytes),
        pool_({.pool_bytes = pool_bytes, .memory = room_.data()}),
        memory_(pool_.base(), pool_.bytes()),
        runs_(&memory_, &pool_),
        index_(&memory_, &pool_, entries_log2_min) {
    MARU_CHECK_OK(runs_.Allocate(records).status());
    for (uint32_t i = 1; i <= records; ++i) {
      // Odd multipliers: distinct numbers have distinct hashes.
      Page(i).hash_low.store(i * 0x9e3779b97f4a7c15, std::memory_order_relaxed);
      Page(i).hash_high.store(i * 0xbf58476d1ce4e5b9, std::memory_order_relaxed);
    }
    MARU_CHECK_OK(index_.HoldNamedTables());
    MARU_CHECK_OK(index_.BeginRebuild(0));
    index_.PublishRebuilt();
  }

  TestPool& pool() { return pool_; }
  IndexWriter& index() { return index_; }
  Hash128 HashOf(uint32_t i) const {
    return {Page(i).hash_low.load(std::memory_order_relaxed),
            Page(i).hash_high.load(std::memory_order_relaxed)};
  }
  Status Insert(uint32_t i) {
    index_.Advance(IndexWriter::Pace::kInsert);
    const Result<uint64_t> slot = index_.Place(HashOf(i));
    if (!slot.ok()) return slot.status();
    index_.Insert(*slot, HashOf(i), RecordNumber(i));
    return OkStatus();
  }
  void Remove(uint32_t i) { index_.Remove(HashOf(i), RecordNumber(i)); }
  bool Has(uint32_t i) const {
    return index_.FindMatch(HashOf(i), [i](RecordNumber met) { return met.value() == i; });
  }
  layout::TableWord word() { return layout::TableWord(pool_.root().table_word.load()); }

  // No slot on the way from an entry's home to the entry is empty; the counts are true.
  std::string Audit() const {
    for (const IndexTable* table : {&index_.old(), &index_.current()}) {
      if (!table->exists()) continue;
      uint64_t entries = 0, tombstones = 0;
      for (uint64_t slot = 0; slot < table->capacity(); ++slot) {
        const layout::IndexEntry entry = table->At(slot);
        tombstones += entry.tombstone();
        if (entry.empty() || entry.tombstone()) continue;
        ++entries;
        const uint64_t home = table->Home(HashOf(entry.record().value()));
        for (uint64_t at = home; at != slot; at = table->Next(at)) {
          if (table->At(at).empty()) return "the way to slot " + std::to_string(slot) + " is cut";
        }
      }
      if (entries != table->entries() || tombstones != table->tombstones()) return "miscounted";
    }
    return "";
  }

 private:
  layout::PageRecord& Page(uint32_t i) const { return *memory_.Record(RecordNumber(i)); }

  LazyMemory room_;
  TestPool pool_;
  PoolMemory memory_;
  RecordRuns runs_;
  IndexWriter index_;
};

TEST(IndexWriter, GrowsWhileEveryEntryStaysReachable) {
  constexpr uint32_t kKeys = 500'000;
  Rig rig(256ull << 20, kKeys);
  int moved_entries = 0;
  const ScopedHook hook(points::kEntryMoved, [&] { ++moved_entries; });
  int most_moved = 0;
  uint64_t most_carved = 0, longest_preparation = 0, preparing = 0;
  Random random(1);
  for (uint32_t i = 1; i <= kKeys; ++i) {
    const int before = moved_entries;
    const uint64_t carved_before = rig.pool().steps_carved();
    ASSERT_TRUE(rig.Insert(i).ok());
    most_moved = std::max(most_moved, moved_entries - before);
    most_carved = std::max(most_carved, rig.pool().steps_carved() - carved_before);
    preparing = rig.index().growing() && !rig.index().old().exists() ? preparing + 1 : 0;
    longest_preparation = std::max(longest_preparation, preparing);
    ASSERT_TRUE(rig.Has(static_cast<uint32_t>(1 + random.Below(i))));
  }
  EXPECT_EQ(rig.index().current().capacity(), 4 * kSmallest);
  EXPECT_LE(most_moved, static_cast<int>(IndexWriter::kMoveSlotsPerInsert));
  EXPECT_EQ(most_carved, 1u);
  EXPECT_EQ(rig.pool().steps_carved(), 2u + 4u);  // tables of twice and four times the smallest
  EXPECT_GT(longest_preparation, kSmallest * 2 / IndexWriter::kCarvePart / 2);
  EXPECT_LE(longest_preparation, kSmallest * 2 / IndexWriter::kCarvePart);
  for (uint32_t i = 1; i <= kKeys; ++i) ASSERT_TRUE(rig.Has(i)) << i;
  EXPECT_EQ(rig.Audit(), "");
  while (rig.index().Advance(IndexWriter::Pace::kIdle)) continue;
  EXPECT_EQ(rig.word().old_table(), layout::TableWord::kNone);
  EXPECT_EQ(rig.index().current().entries(), kKeys);
  EXPECT_EQ(rig.Audit(), "");
}

TEST(IndexWriter, SmallTablesGrowInRoomsOfWholeUnits) {
  constexpr uint32_t kKeys = 1'000;
  Rig rig(32ull << 20, kKeys, layout::kIndexEntriesLog2Min);
  EXPECT_EQ(rig.index().current().capacity(), 16u);
  for (uint32_t i = 1; i <= kKeys; ++i) {
    ASSERT_TRUE(rig.Insert(i).ok());
    for (uint32_t k = 1; k <= i; ++k) ASSERT_TRUE(rig.Has(k)) << k << " of " << i;
    ASSERT_EQ(rig.Audit(), "") << i;
  }
  EXPECT_EQ(rig.index().current().capacity(), 2048u);
  // Every table but the first finds room in those that were carved for two of them.
  EXPECT_EQ(rig.index().bytes(), 2 * layout::kUnitBytes);
}

TEST(IndexWriter, RemovalsFindTheirEntryInEitherTable) {
  constexpr uint32_t kKeys = 240'000;
  Rig rig(256ull << 20, kKeys);
  uint32_t next = 1;
  while (!rig.index().old().exists()) ASSERT_TRUE(rig.Insert(next++).ok());
  for (int i = 0; i < 4'000; ++i) ASSERT_TRUE(rig.Insert(next++).ok());
  ASSERT_GT(rig.index().old().entries(), 0u);
  ASSERT_GT(rig.index().current().entries(), 4'000u);
  for (uint32_t i = 1; i < next; i += 3) rig.Remove(i);
  for (uint32_t i = 1; i < next; ++i) ASSERT_EQ(rig.Has(i), i % 3 != 1) << i;
  EXPECT_EQ(rig.Audit(), "");
  while (rig.index().Advance(IndexWriter::Pace::kIdle)) continue;
  for (uint32_t i = 1; i < next; ++i) ASSERT_EQ(rig.Has(i), i % 3 != 1) << i;
  EXPECT_EQ(rig.Audit(), "");
}

// Many more deletions than slots: the table is rebuilt at its size, in turn in two rooms, the later
// times in one that has to be cleared.
TEST(IndexWriter, ChurnRebuildsAtTheSameSizeInClearedRooms) {
  constexpr uint32_t kRecords = 300'000;
  constexpr uint32_t kLive = 160'000;  // a little below 5/8
  const uint64_t seed = TestSeed();
  Random random(seed);
  Rig rig(256ull << 20, kRecords);
  std::vector<uint32_t> live, dead;
  for (uint32_t i = 1; i <= kRecords; ++i) {
    if (i > kLive) {
      dead.push_back(i);
      continue;
    }
    ASSERT_TRUE(rig.Insert(i).ok());
    live.push_back(i);
  }
  int cleared = 0, tables = 0;
  const ScopedHook hook(points::kTableCleared, [&] { ++cleared; });
  const ScopedHook other(points::kTableWord, [&] { ++tables; });
  int steps = 0;
  for (; cleared == 0 || rig.index().growing(); ++steps) {
    ASSERT_LT(steps, 20'000'000);
    uint32_t& out = live[random.Below(live.size())];
    uint32_t& in = dead[random.Below(dead.size())];
    rig.Remove(out);
    ASSERT_TRUE(rig.Insert(in).ok());
    std::swap(out, in);
    ASSERT_TRUE(rig.Has(live[random.Below(live.size())]));
  }
  EXPECT_EQ(rig.index().current().capacity(), kSmallest);
  EXPECT_EQ(rig.index().bytes(), 2 * layout::kUnitBytes);
  EXPECT_GE(tables, 4);  // each rebuild stores the table word twice
  EXPECT_GE(cleared, static_cast<int>(kSmallest / IndexWriter::kClearSlotsPerInsert));
  for (const uint32_t i : live) ASSERT_TRUE(rig.Has(i));
  for (const uint32_t i : dead) ASSERT_FALSE(rig.Has(i));
  EXPECT_EQ(rig.Audit(), "");
}

TEST(IndexWriter, WithoutRoomToGrowItFillsUpAndSaysSo) {
  constexpr uint32_t kKeys = 240'000;
  // Room for head, records and one table.
  Rig rig(18 * layout::kUnitBytes, kKeys);
  ASSERT_LT(rig.pool().free_bytes(), 2 * layout::kUnitBytes);
  uint32_t inserted = 0;
  Status status;
  while (status.ok()) {
    ASSERT_LT(inserted, kKeys);
    status = rig.Insert(inserted + 1);
    inserted += status.ok() ? 1 : 0;
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(inserted, kSmallest / 8 * 7);
  EXPECT_FALSE(rig.index().growing());
  // One goes, one comes, for ever: the slots of the removed are used again.
  Random random(3);
  std::vector<uint32_t> live;
  for (uint32_t i = 1; i <= inserted; ++i) live.push_back(i);
  uint32_t spare = inserted + 1;
  int refused = 0;
  for (int i = 0; i < 300'000; ++i) {
    uint32_t& out = live[random.Below(live.size())];
    rig.Remove(out);
    if (rig.Insert(spare).ok()) {
      std::swap(out, spare);
    } else {
      ++refused;
      ASSERT_TRUE(rig.Insert(out).ok());
    }
  }
  EXPECT_LT(refused, 30'000) << rig.index().current().tombstones();
  EXPECT_EQ(rig.index().current().entries(), inserted);
  for (const uint32_t i : live) ASSERT_TRUE(rig.Has(i));
  EXPECT_EQ(rig.Audit(), "");
}

TEST(IndexWriter, FullItGrowsIntoRoomThatComesLater) {
  constexpr uint32_t kKeys = 240'000;
  Rig rig(32 * layout::kUnitBytes, kKeys);
  rig.pool().KeepBack(rig.pool().free_bytes());
  uint32_t inserted = 0;
  while (rig.Insert(inserted + 1).ok()) ASSERT_LT(++inserted, kKeys);
  rig.pool().KeepBack(0);
  // The first finds out, the others are idle turns.
  Status status = rig.Insert(inserted + 1);
  for (int turn = 0; turn < 16 && !status.ok(); ++turn) {
    rig.index().Advance(IndexWriter::Pace::kIdle);
    status = rig.Insert(inserted + 1);
  }
  EXPECT_TRUE(status.ok()) << status.ToString();
  for (uint32_t i = 1; i <= inserted + 1; ++i) ASSERT_TRUE(rig.Has(i));
  EXPECT_EQ(rig.Audit(), "");
}

TEST(IndexTable, ARemovedEntryIsEmptyOnlyWhereNoWayLeadsOn) {
  std::vector<std::atomic<uint64_t>> slots(8);
  const IndexTable::Watches nobody;
  IndexTable table(slots.data(), 8, 1, &nobody);
  const auto entry = [](uint64_t home, uint32_t record) {
    return layout::IndexEntry::Make({home, uint64_t{record} << 32}, RecordNumber(record));
  };
  table.Put(6, entry(6, 1));
  table.Put(7, entry(6, 2));
  table.Put(0, entry(6, 3));
  table.Remove(7);
  EXPECT_TRUE(table.At(7).tombstone());
  EXPECT_EQ(table.Find(6, entry(6, 3)), 0u);
  table.Remove(6);
  EXPECT_TRUE(table.At(6).tombstone());
  EXPECT_EQ(table.tombstones(), 2u);
  table.Remove(0);
  for (uint64_t slot = 0; slot < 8; ++slot) EXPECT_TRUE(table.At(slot).empty()) << slot;
  EXPECT_EQ(table.filled(), 0u);
  table.Put(3, entry(3, 4));
  table.Bury(3);
  EXPECT_TRUE(table.At(3).tombstone());
  EXPECT_EQ(table.FirstFree(3), 3u);
}

}  // namespace
}  // namespace maru::catalogue
