// Opening pools that hold what no server leaves: named, refused and left alone, or dropped where
// the pool is of an earlier boot.
#include "catalogue/recovery.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/sequence_point.h"
#include "catalogue/publication_points.h"
#include "catalogue/reader.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

using layout::KeySizes;
using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

constexpr uint64_t kPoolBytes = 64ull << 20;
constexpr uint32_t kPages = 8;

// Pages 0 to 3 hold the keys 0 to 3, page 4 is granted, 5 retiring with key 5, the rest is free.
class RecoveryTest : public testing::Test {
 protected:
  RecoveryTest() : test_(kPoolBytes), first_(test_.Cut(kPages)) {
    for (const uint32_t i : {0u, 1u, 2u, 3u, 5u}) {
      MARU_CHECK_OK(test_.Put(Record(i), Key(i)));
    }
    Generation generation;
    MARU_CHECK(test_->Grant(Record(4), ClientSlot(2), &generation));
    test_->Retire(Record(5));
  }

  RecordNumber Record(uint32_t i) const { return RecordNumber(first_.value() + i); }
  PageRecord& Page(uint32_t i) { return test_.pool().Record(Record(i)); }
  KeyRef Key(uint32_t i) {
    texts_.push_back(std::make_unique<std::string>(NumberedKey(i)));
    return MakeKeyRef(none_, *texts_.back());
  }
  FindVerdict Find(uint32_t i) {
    Found found;
    return Reader(test_->view()).Find(Key(i), &found);
  }

  // Leaves no unit for another table.
  void FillPool() {
    while (test_.pool().Carve(layout::RegionKind::kPages, layout::kUnitBytes).ok()) continue;
    for (uint32_t slot = 4; slot < test_.pool().root().region_slots_high.load(); ++slot) {
      // Somebody else's: only its extent counts.
      test_.pool()
          .Region(RegionSlot(slot))
          .word.store(layout::RegionWord::Make(layout::RegionKind::kClientCut, 1).bits());
    }
  }

  // Of every byte of the pool.
  uint64_t Sum() { return HashBytes64({test_.pool().base(), test_.pool().bytes()}); }

  void ExpectRefused(std::string_view why) {
    const uint64_t before = Sum();
    const Status status = test_.TryOpen();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
    EXPECT_EQ(Sum(), before);
  }
  void ExpectRefused(uint32_t i, std::string_view why) {
    ExpectRefused("record " + std::to_string(Record(i).value()));
    ExpectRefused(why);
  }
  // Then the same pool as one of an earlier boot: page i is free, the others keep their keys.
  void ExpectDropped(uint32_t dropped) {
    ASSERT_TRUE(test_.TryOpen(Damage::kDrop).ok());
    EXPECT_EQ(test_.summary().dropped, 1u);
    EXPECT_EQ(test_->State(Record(dropped)).state(), PageState::kFree);
    EXPECT_TRUE(test_->State(Record(dropped)).Valid());
    for (const uint32_t i : {0u, 1u, 2u, 3u, 5u}) {
      EXPECT_EQ(Find(i), i == dropped ? FindVerdict::kMiss : FindVerdict::kLive) << i;
    }
    EXPECT_EQ(test_.Audit(), "");
    ASSERT_TRUE(test_.Put(Record(dropped), Key(100)).ok());
    test_.Reopen();
    EXPECT_EQ(test_.summary().dropped, 0u);
  }

  TestWriter test_;
  RecordNumber first_;
  const Namespace none_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

TEST_F(RecoveryTest, AWholePoolIsOpenedAsItIs) {
  test_.Reopen();
  const RecoverySummary& summary = test_.summary();
  EXPECT_EQ(summary.live, 5u);
  EXPECT_EQ(summary.reverted, 1u);
  EXPECT_EQ(summary.granted, 1u);
  EXPECT_EQ(summary.index_entries, 5u);
  EXPECT_EQ(Find(5), FindVerdict::kLive);
  EXPECT_EQ(test_.Audit(), "");
}

TEST_F(RecoveryTest, TheTableWordNeverRepeatsItsSequence) {
  uint64_t last = layout::TableWord(test_.pool().root().table_word.load()).sequence();
  for (int i = 0; i < 5; ++i) {
    test_.Reopen();
    const layout::TableWord word(test_.pool().root().table_word.load());
    EXPECT_GT(word.sequence(), last);
    last = word.sequence();
  }
  // Two rooms in turn; nothing is carved for the later starts.
  EXPECT_EQ(test_->usage().index_bytes, 2 * layout::kUnitBytes);
}

TEST_F(RecoveryTest, TablesThatReadersHoldAreLeftAlone) {
  const layout::TableWord before(test_.pool().root().table_word.load());
  const layout::TableDescriptor table(test_.pool().root().tables[before.current()].load());
  const auto entries = [&] {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < uint64_t{1} << table.entries_log2(); ++i) {
      sum += test_.pool().Word(table.offset_bytes() + 8 * i).load();
    }
    return sum;
  };
  const uint64_t held = entries();
  test_.Reopen();
  EXPECT_EQ(entries(), held);
  EXPECT_EQ(test_.pool().root().tables[before.current()].load(), table.bits());
  const layout::TableWord after(test_.pool().root().table_word.load());
  EXPECT_NE(after.current(), before.current());
  const layout::TableDescriptor fresh(test_.pool().root().tables[after.current()].load());
  EXPECT_NE(fresh.offset_bytes(), table.offset_bytes());
}

// No unit is free for a second table: none is named while the only one is filled anew.
TEST_F(RecoveryTest, AFullPoolIsOpenedInTheRoomThatItHas) {
  FillPool();
  std::vector<std::string> words;
  {
    const ScopedHook hook([&](std::string_view name) {
      if (name != "writer:table-word") return;
      const layout::TableWord word(test_.pool().root().table_word.load());
      words.push_back(std::to_string(word.old_table()) + "," + std::to_string(word.current()));
    });
    test_.Reopen();
  }
  EXPECT_EQ(words, (std::vector<std::string>{"255,255", "255,0"}));
  EXPECT_EQ(Find(0), FindVerdict::kLive);
  EXPECT_EQ(test_.Audit(), "");
}

TEST_F(RecoveryTest, ReadersAskWhileAFullPoolHasNoTableAlsoWhenTheServerDiesThere) {
  FillPool();
  struct Crash {};
  for (const std::string_view point :
       {points::kTableWord, points::kTableCleared, points::kDescriptor}) {
    {
      bool passed = false;
      const ScopedHook hook([&](std::string_view name) {
        if (name != point || passed) return;
        passed = true;
        throw Crash();
      });
      EXPECT_THROW((void)test_.TryOpen(), Crash) << point;
    }
    for (const uint32_t i : {0u, 4u}) {
      Found found;
      EXPECT_EQ(Reader(test_.pool().view()).Find(Key(i), &found), FindVerdict::kAskServer) << point;
    }
    test_.Reopen();
    for (const uint32_t i : {0u, 1u, 2u, 3u, 5u}) EXPECT_EQ(Find(i), FindVerdict::kLive) << point;
    EXPECT_EQ(Find(4), FindVerdict::kMiss);
    EXPECT_EQ(test_.Audit(), "");
  }
}

TEST_F(RecoveryTest, AnImpossibleStateWord) {
  Page(1).state_word.store(StateWord::Make(PageState(9), Generation(2)).bits());
  ExpectRefused(1, "impossible state word");
  ExpectDropped(1);
}

TEST_F(RecoveryTest, AGenerationBeyondTheLast) {
  Page(1).state_word.store(StateWord::Make(PageState::kLive, Generation(0xFFFFFFFF)).bits());
  ExpectRefused(1, "impossible state word");
  ASSERT_TRUE(test_.TryOpen(Damage::kDrop).ok());
  EXPECT_EQ(test_->State(Record(1)).generation(), Generation(layout::kGenerationMax));
}

TEST_F(RecoveryTest, KeySizesBeyondTheLimits) {
  Page(2).key_sizes.store(uint64_t{layout::kKeyBytesMax} + 1);
  ExpectRefused(2, "impossible key sizes");
  ExpectDropped(2);
}

TEST_F(RecoveryTest, MoreBytesThanThePageHas) {
  Page(2).length_bytes.store(TestWriter::kPageBytes + 1);
  ExpectRefused(2, "in a page of 512");
  ExpectDropped(2);
}

TEST_F(RecoveryTest, TextOutsideEveryTextRegion) {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{8}, layout::kUnitBytes, kPoolBytes - 8,
                                kPoolBytes, ~uint64_t{0} - 7, Page(1).text_offset.load() + 1}) {
    Page(2).text_offset.store(offset);
    ExpectRefused(2, "text");
  }
  ExpectDropped(2);
}

// Of records with and without a key, and of numbers that no region has. Also what is dropped must
// be ready for a key that comes later.
TEST_F(RecoveryTest, ReservedWordsThatAreNotZero) {
  constexpr size_t kWords = std::size(layout::PageRecord{}.reserved);
  for (const uint32_t i : {0u, 2u, kPages - 1, kPages + 10}) {
    Page(i).reserved[i % kWords] = 1;
    ExpectRefused(i, "reserved words are not zero");
    ASSERT_TRUE(test_.TryOpen(Damage::kDrop).ok());
    EXPECT_EQ(Page(i).reserved[i % kWords], 0u);
    ASSERT_TRUE(test_.TryOpen(Damage::kRefuse).ok());
  }
}

TEST_F(RecoveryTest, OneTextForTwoRecords) {
  Page(3).text_offset.store(Page(2).text_offset.load());
  Page(3).key_sizes.store(Page(2).key_sizes.load());
  ExpectRefused(3, "two records");
  ExpectDropped(3);
}

TEST_F(RecoveryTest, ATextThatIsNotTheOneThatWasHashed) {
  test_.pool().Word(Page(3).text_offset.load()).fetch_xor(1);
  ExpectRefused(3, "hash");
  ExpectDropped(3);
}

TEST_F(RecoveryTest, AHashThatIsNotThatOfItsKey) {
  Page(3).hash_high.fetch_xor(1);
  ExpectRefused(3, "hash");
  ExpectDropped(3);
}

TEST_F(RecoveryTest, ClocksOfTheServerThatNoServerReaches) {
  Page(3).last_use.store(~uint64_t{0});
  ExpectRefused(3, "its last use is");
  Page(3).last_use.store(5);
  Page(3).owner.store(uint64_t{1} << 32);
  ExpectRefused(3, "its owner is 4294967296");
  ExpectDropped(3);
}

TEST_F(RecoveryTest, TwoRecordsOfOneKey) {
  const uint64_t theirs = Page(2).text_offset.load();
  const uint64_t words = AlignUp(KeySizes::Unpack(Page(2).key_sizes.load()).text_bytes(), 8) / 8;
  ASSERT_TRUE(test_.Put(Record(6), MakeKeyRef(none_, std::string(words * 8, 'x'))).ok());
  for (uint64_t i = 0; i < words; ++i) {
    test_.pool()
        .Word(Page(6).text_offset.load() + 8 * i)
        .store(test_.pool().Word(theirs + 8 * i).load());
  }
  Page(6).key_sizes.store(Page(2).key_sizes.load());
  Page(6).hash_low.store(Page(2).hash_low.load());
  Page(6).hash_high.store(Page(2).hash_high.load());
  ExpectRefused(6, "record " + std::to_string(Record(2).value()) + " has the same key");
  ExpectDropped(6);
}

TEST_F(RecoveryTest, ARecordOfAnotherRegion) {
  Page(3).region_slot.store(77);
  ExpectRefused(3, "region slot is 77");
  ExpectDropped(3);
}

TEST_F(RecoveryTest, ARetiringRecordThatIsDamagedIsNotReverted) {
  Page(5).text_offset.store(0);
  ExpectRefused(5, "text_offset is 0");
  ExpectDropped(5);
  EXPECT_EQ(test_.summary().reverted, 0u);
}

TEST_F(RecoveryTest, AKeyInNoRegion) {
  const auto slot = static_cast<uint32_t>(Page(0).region_slot.load());
  test_.pool().Region(RegionSlot(slot)).word.store(0);
  ExpectRefused(0, "no region has it");
  ASSERT_TRUE(test_.TryOpen(Damage::kDrop).ok());
  EXPECT_EQ(test_.summary().dropped, 6u);  // five with a key, one granted
  for (uint32_t i = 0; i < kPages; ++i) {
    EXPECT_EQ(test_->State(Record(i)).state(), PageState::kAbsent);
  }
  EXPECT_EQ(test_.Cut(kPages), first_);
}

TEST_F(RecoveryTest, TableWordsThatNameNoTable) {
  auto& root = test_.pool().root();
  const uint64_t word = root.table_word.load();
  const uint8_t current = layout::TableWord(word).current();
  const uint64_t descriptor = root.tables[current].load();
  root.table_word.store(layout::TableWord::Make(9, layout::TableWord::kNone, 64).bits());
  ExpectRefused("table word names");
  root.table_word.store(layout::TableWord::Make(9, current, current).bits());
  ExpectRefused("table word names");
  root.table_word.store(layout::TableWord::Make(9, layout::TableWord::kNone, 63).bits());
  ExpectRefused("index table 63");
  root.table_word.store(word);
  root.tables[current].store(descriptor + layout::kUnitBytes);
  ExpectRefused("index table");
  root.tables[current].store(descriptor + 1);  // twice the entries
  ExpectRefused("index table");
  root.tables[current].store(descriptor);
  root.tables[63].store(descriptor);
  root.table_word.store(layout::TableWord::Make(9, 63, current).bits());
  ExpectRefused("both index tables");
  root.table_word.store(word);
  test_.Reopen();
}

}  // namespace
}  // namespace maru::catalogue
