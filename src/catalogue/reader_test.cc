#include "catalogue/reader.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/random.h"
#include "base/sequence_point.h"
#include "base/testing.h"
#include "catalogue/test_catalogue.h"

namespace maru::catalogue {
namespace {

using layout::PageState;
using layout::StateWord;

class ReaderTest : public testing::Test {
 protected:
  explicit ReaderTest(const TestCatalogue::Options& options = {}) : catalogue_(&pool_, options) {}

  static RecordNumber R(uint32_t number) { return RecordNumber(number); }
  // Keys with the namespace team-a; the texts live as long as the test.
  KeyRef Key(std::string_view text) {
    keys_.push_back(std::make_unique<std::string>(text));
    return MakeKeyRef(team_, *keys_.back());
  }
  // With a hash of the test's choice: the reader takes it as it is told.
  KeyRef KeyAt(std::string_view text, uint64_t home, uint64_t high) {
    KeyRef key = Key(text);
    key.hash = {home, high};
    return key;
  }
  FindVerdict Find(const KeyRef& key) {
    found_ = {};
    const FindVerdict alone = reader().Find(key, &found_);
    FindVerdict verdict{};
    Found in_batch;
    reader().FindBatch({&key, 1}, {&verdict, 1}, {&in_batch, 1});
    if (check_batch_) {
      EXPECT_EQ(alone, verdict);
      EXPECT_EQ(found_.record, in_batch.record);
      EXPECT_EQ(found_.generation, in_batch.generation);
    }
    return alone;
  }
  void SetState(RecordNumber record, PageState state) {
    catalogue_.Record(record).state_word.store(catalogue_.State(record).With(state).bits());
  }
  Reader reader() const { return Reader(pool_.view()); }

  TestPool pool_;
  TestCatalogue catalogue_;
  Namespace team_{"team-a"};
  std::vector<std::unique_ptr<std::string>> keys_;
  Found found_;
  bool check_batch_ = true;  // off where a hook changes things between the two
};

TEST_F(ReaderTest, FindsWhatIsLive) {
  catalogue_.Grant(R(3));
  catalogue_.Birth(R(3), Key("chunk"), 1234, 0xabcdef);
  ASSERT_EQ(Find(Key("chunk")), FindVerdict::kLive);
  EXPECT_EQ(found_.record, R(3));
  EXPECT_EQ(found_.generation, Generation(2));
  EXPECT_EQ(found_.length_bytes, 1234u);
  EXPECT_EQ(found_.checksum, 0xabcdefu);
}

TEST_F(ReaderTest, MissesWhatIsNotThere) {
  catalogue_.Put(R(1), Key("chunk"));
  EXPECT_EQ(Find(Key("chunl")), FindVerdict::kMiss);
  EXPECT_EQ(Find(Key("chun")), FindVerdict::kMiss);
  EXPECT_EQ(Find(Key("chunk ")), FindVerdict::kMiss);
  EXPECT_EQ(Find(Key("")), FindVerdict::kMiss);
  // The same text under another namespace, or cut elsewhere.
  EXPECT_EQ(Find(MakeKeyRef(Namespace(), "chunk")), FindVerdict::kMiss);
  EXPECT_EQ(Find(MakeKeyRef(Namespace(), "team-achunk")), FindVerdict::kMiss);
}

TEST_F(ReaderTest, AKeyCutElsewhereIsAnotherEvenWithTheSameHash) {
  catalogue_.Put(R(1), Key("chunk"));
  KeyRef cut = Key("chunk");
  const std::string longer = "achunk";
  const std::string shorter = "team-";
  cut.name_space = shorter;
  cut.key = longer;
  EXPECT_EQ(Find(cut), FindVerdict::kMiss);
}

TEST_F(ReaderTest, ComparesEveryByteOfEveryLength) {
  const Namespace namespaces[] = {Namespace(), Namespace("n"), Namespace("12345678"),
                                  Namespace("a longer name")};
  for (const Namespace& name_space : namespaces) {
    for (std::size_t length = 0; length <= 40; ++length) {
      std::string text;
      for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i % 26);
      const KeyRef key = MakeKeyRef(name_space, text);
      catalogue_.Put(R(7), key);
      ASSERT_EQ(Find(key), FindVerdict::kLive) << name_space.text() << " " << length;
      for (std::size_t i = 0; i < length; ++i) {
        std::string other = text;
        other[i] ^= 0x20;
        KeyRef wrong = key;  // with the same hash
        wrong.key = other;
        ASSERT_EQ(Find(wrong), FindVerdict::kMiss) << length << " at " << i;
      }
      std::string other_space(name_space.text());
      for (std::size_t i = 0; i < other_space.size(); ++i) {
        other_space[i] ^= 1;
        KeyRef wrong = key;
        wrong.name_space = other_space;
        ASSERT_EQ(Find(wrong), FindVerdict::kMiss) << "namespace at " << i;
        other_space[i] ^= 1;
      }
      catalogue_.Condemn(R(7));
      catalogue_.Free(R(7));
    }
  }
}

TEST_F(ReaderTest, BytesBehindTheTextDoNotMatter) {
  catalogue_.Put(R(1), Key("chunk"));  // 11 bytes with the namespace
  const uint64_t offset = catalogue_.Record(R(1)).text_offset.load();
  pool_.Word(offset + 8).fetch_or(0xffff'ffff'ff00'0000);
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kLive);
}

TEST_F(ReaderTest, RetiringIsNeitherThereNorGone) {
  catalogue_.Put(R(1), Key("chunk"));
  catalogue_.Retire(R(1));
  ASSERT_EQ(Find(Key("chunk")), FindVerdict::kRetiring);
  EXPECT_EQ(found_.record, R(1));
  EXPECT_EQ(found_.generation, Generation(2));
  catalogue_.Revert(R(1));
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kLive);
}

TEST_F(ReaderTest, NoOtherStateIsFound) {
  catalogue_.Put(R(1), Key("chunk"));
  for (const PageState state : {PageState::kAbsent, PageState::kFree, PageState::kGranted,
                                PageState::kCondemned, PageState::kQuarantined, PageState::kWorn,
                                static_cast<PageState>(8), static_cast<PageState>(15)}) {
    SetState(R(1), state);
    EXPECT_EQ(Find(Key("chunk")), FindVerdict::kMiss) << static_cast<int>(state);
  }
  SetState(R(1), PageState::kLive);
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kLive);
}

TEST_F(ReaderTest, StateWordsThatMakeNoSenseAreNotFound) {
  catalogue_.Put(R(1), Key("chunk"));
  const uint64_t live = catalogue_.State(R(1)).bits();
  for (const uint64_t bits : {live | 1, live | uint64_t{1} << 16, live | uint64_t{1} << 59,
                              StateWord::Make(PageState::kLive, Generation(0)).bits()}) {
    catalogue_.Record(R(1)).state_word.store(bits);
    EXPECT_EQ(Find(Key("chunk")), FindVerdict::kMiss) << std::hex << bits;
  }
}

TEST_F(ReaderTest, AMatchThatIsNotLiveDoesNotEndTheProbe) {
  catalogue_.Put(R(1), Key("chunk"));
  SetState(R(1), PageState::kCondemned);  // its entry is still in the index
  catalogue_.Put(R(2), Key("chunk"));
  ASSERT_EQ(Find(Key("chunk")), FindVerdict::kLive);
  EXPECT_EQ(found_.record, R(2));
}

TEST_F(ReaderTest, EntriesOfOtherKeysDoNotEndTheProbe) {
  const uint64_t high = 0x1234'5678'0000'0001;
  catalogue_.Put(R(1), KeyAt("same tag", 9, high));
  catalogue_.Put(R(2), KeyAt("same hash", 9, high + 1));
  catalogue_.Put(R(3), KeyAt("other tag", 9, ~high));
  catalogue_.Put(R(4), KeyAt("wanted", 9, high + 1));
  ASSERT_EQ(Find(KeyAt("wanted", 9, high + 1)), FindVerdict::kLive);
  EXPECT_EQ(found_.record, R(4));
  EXPECT_EQ(Find(KeyAt("not there", 9, high + 1)), FindVerdict::kMiss);
}

TEST_F(ReaderTest, ATombstoneDoesNotEndTheProbeAndAnEmptyEntryDoes) {
  catalogue_.Put(R(1), KeyAt("first", 5, 1));
  catalogue_.Put(R(2), KeyAt("second", 5, 2));
  catalogue_.Retire(R(1));
  catalogue_.Condemn(R(1));
  EXPECT_EQ(Find(KeyAt("second", 5, 2)), FindVerdict::kLive);
  // A key whose tag is that of the tombstone.
  EXPECT_EQ(Find(KeyAt("no tag", 5, 3)), FindVerdict::kMiss);

  catalogue_.Table(0)[5].store(layout::IndexEntry::kEmpty);
  EXPECT_EQ(Find(KeyAt("second", 5, 2)), FindVerdict::kMiss);
}

TEST_F(ReaderTest, ProbesWrapAtTheEndOfTheTable) {
  const uint64_t last = catalogue_.entries() - 1;
  for (uint32_t i = 1; i <= 5; ++i) {
    catalogue_.Put(R(i), KeyAt("key " + std::to_string(i), last, uint64_t{i} << 40));
  }
  EXPECT_NE(catalogue_.Table(0)[0].load(), 0u);
  ASSERT_EQ(Find(KeyAt("key 5", last, uint64_t{5} << 40)), FindVerdict::kLive);
  EXPECT_EQ(found_.record, R(5));
}

TEST_F(ReaderTest, ATableWithoutAnEmptyEntryEndsTheProbe) {
  for (uint64_t i = 0; i < catalogue_.entries(); ++i) {
    catalogue_.Table(0)[i].store(layout::IndexEntry::kTombstone);
  }
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kMiss);
  catalogue_.Put(R(1), Key("chunk"));
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kLive);
}

TEST_F(ReaderTest, RecordNumbersOutOfRangeDoNotEndTheProbe) {
  const KeyRef key = KeyAt("chunk", 5, 0x77ull << 32);
  for (const uint32_t number : {0u, 70'000u, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
    catalogue_.Insert(0, key.hash, R(number));
  }
  catalogue_.Put(R(1), key);
  EXPECT_EQ(Find(key), FindVerdict::kLive);
}

TEST_F(ReaderTest, PoolsWithoutATableSendToTheServer) {
  catalogue_.Put(R(1), Key("chunk"));
  catalogue_.PublishTables(TestCatalogue::kNone, TestCatalogue::kNone);
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kAskServer);
  catalogue_.PublishTables(TestCatalogue::kNone, 1);  // never described
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kAskServer);
  catalogue_.PublishTables(64, 200);
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kAskServer);

  TestPool fresh;
  EXPECT_EQ(Reader(fresh.view()).Find(Key("chunk"), &found_), FindVerdict::kAskServer);
  fresh.root().table_word.store(0);
  EXPECT_EQ(Reader(fresh.view()).Find(Key("chunk"), &found_), FindVerdict::kAskServer);
}

TEST_F(ReaderTest, DescriptorsThatMakeNoSenseNameNoTable) {
  catalogue_.Put(R(1), Key("chunk"));
  auto& descriptor = pool_.root().tables[0];
  const uint64_t before = descriptor.load();
  const uint64_t offset = layout::TableDescriptor(before).offset_bytes();
  for (const uint64_t bits :
       {uint64_t{0}, offset | 3, offset | 34, offset | 255, uint64_t{0} | 18, offset + 256 + 18,
        pool_.bytes() | 18, (pool_.bytes() - layout::kUnitBytes) | 19, ~uint64_t{0xFF} | 18}) {
    descriptor.store(bits);
    EXPECT_EQ(Find(Key("chunk")), FindVerdict::kAskServer) << std::hex << bits;
  }
  descriptor.store(before);
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kLive);
}

TEST_F(ReaderTest, TextOutsideThePoolIsNotRead) {
  const Namespace none;
  const KeyRef key = MakeKeyRef(none, "a key");
  catalogue_.Put(R(1), key);
  auto& word = catalogue_.Record(R(1)).text_offset;
  const uint64_t before = word.load();
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{8}, before + 1, before + 4, layout::kHeadBytes - 8, pool_.bytes() - 4,
        pool_.bytes(), pool_.bytes() + 8, ~uint64_t{7}, ~uint64_t{0}}) {
    word.store(offset);
    EXPECT_EQ(Find(key), FindVerdict::kMiss) << offset;
  }
  // The pool's last granule is inside.
  pool_.Word(pool_.bytes() - 8).store(pool_.Word(before).load());
  word.store(pool_.bytes() - 8);
  EXPECT_EQ(Find(key), FindVerdict::kLive);
  KeyRef longer = key;
  longer.key = "a key of more than 8 bytes";
  catalogue_.Record(R(1)).key_sizes.store(layout::KeySizes{26, 0}.Pack());
  EXPECT_EQ(Find(longer), FindVerdict::kMiss);
}

// --- What changes while a reader reads.

TEST_F(ReaderTest, ALaterLifeIsNotTakenForAnEarlierOne) {
  catalogue_.Put(R(1), KeyAt("earlier", 5, 1));
  const KeyRef wanted = KeyAt("later", 5, 1);
  check_batch_ = false;
  bool done = false;
  {
    ScopedHook hook("find:state-read", [&] {
      if (std::exchange(done, true)) return;
      catalogue_.Retire(R(1));
      catalogue_.Condemn(R(1));
      catalogue_.Free(R(1));
      catalogue_.Put(R(1), wanted);
    });
    ASSERT_EQ(Find(wanted), FindVerdict::kLive);
  }
  ASSERT_TRUE(done);
  EXPECT_EQ(found_.generation, Generation(3));
}

TEST_F(ReaderTest, AKeyThatCameAndWentBetweenTheTwoChecksIsAMiss) {
  catalogue_.Put(R(1), KeyAt("earlier", 5, 1));
  const KeyRef wanted = KeyAt("later", 5, 1);
  check_batch_ = false;
  bool done = false;
  std::size_t copies = 0;
  ScopedHook copied("find:copied", [&] { ++copies; });
  ScopedHook hook("find:state-read", [&] {
    if (std::exchange(done, true)) return;
    catalogue_.Retire(R(1));
    catalogue_.Condemn(R(1));
    catalogue_.Free(R(1));
    catalogue_.Put(R(1), wanted);
    SetState(R(1), PageState::kCondemned);
  });
  EXPECT_EQ(Find(wanted), FindVerdict::kMiss);
  EXPECT_TRUE(done);
  EXPECT_EQ(copies, 1u);
}

TEST_F(ReaderTest, ARecordThatRevertsBetweenTheTwoChecksIsReadAgain) {
  catalogue_.Put(R(1), Key("chunk"));
  catalogue_.Retire(R(1));
  check_batch_ = false;
  bool done = false;
  ScopedHook hook("find:copied", [&] {
    if (!std::exchange(done, true)) catalogue_.Revert(R(1));
  });
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kLive);
}

TEST_F(ReaderTest, ARecordThatNeverHoldsStillIsAskedFor) {
  catalogue_.Put(R(1), Key("chunk"));
  int reads = 0;
  ScopedHook hook("find:copied", [&] {
    ++reads;
    if (catalogue_.State(R(1)).state() == PageState::kLive) {
      catalogue_.Retire(R(1));
    } else {
      catalogue_.Revert(R(1));
    }
  });
  EXPECT_EQ(Find(Key("chunk")), FindVerdict::kAskServer);
  EXPECT_EQ(reads, 16);  // 8 alone and 8 in the batch
}

class GrowingReaderTest : public ReaderTest {
 protected:
  static TestCatalogue::Options ThreeTables() {
    TestCatalogue::Options options;
    options.tables = 3;
    return options;
  }
  GrowingReaderTest() : ReaderTest(ThreeTables()) {}
};

TEST_F(GrowingReaderTest, FindsKeysInBothTables) {
  const KeyRef stays = Key("stays");
  const KeyRef moves = Key("moves");
  catalogue_.Put(R(1), stays);
  catalogue_.Put(R(2), moves);
  catalogue_.PublishTables(0, 1);
  catalogue_.Move(0, 1, moves.hash, R(2));
  catalogue_.Put(R(3), Key("new"));
  EXPECT_EQ(Find(stays), FindVerdict::kLive);
  EXPECT_EQ(Find(moves), FindVerdict::kLive);
  EXPECT_EQ(Find(Key("new")), FindVerdict::kLive);
  EXPECT_EQ(Find(Key("absent")), FindVerdict::kMiss);
}

TEST_F(GrowingReaderTest, AnEntryInBothTablesIsFoundOnce) {
  const KeyRef key = Key("chunk");
  catalogue_.Put(R(1), key);
  catalogue_.PublishTables(0, 1);
  catalogue_.Insert(1, key.hash, R(1));
  ASSERT_EQ(Find(key), FindVerdict::kLive);
  EXPECT_EQ(found_.record, R(1));
}

TEST_F(GrowingReaderTest, AMissIsTriedAgainWhenTheTablesChangedMeanwhile) {
  const KeyRef key = Key("chunk");
  catalogue_.Put(R(1), key);
  catalogue_.Clear(0);
  catalogue_.Insert(1, key.hash, R(1));  // as for a reader that stood in a table since cleared
  int passed = 0;
  ScopedHook hook("find:probed", [&] {
    if (++passed == 1) catalogue_.PublishTables(TestCatalogue::kNone, 1);
  });
  EXPECT_EQ(reader().Find(key, &found_), FindVerdict::kLive);
  EXPECT_EQ(passed, 1);
}

TEST_F(GrowingReaderTest, ABatchsMissesAreTriedAgainWhenTheTablesChangedMeanwhile) {
  const std::vector<KeyRef> keys = {Key("chunk"), Key("absent"), Key("other")};
  catalogue_.Put(R(1), keys[0]);
  catalogue_.Put(R(2), keys[2]);
  catalogue_.Clear(0);
  catalogue_.Insert(1, keys[0].hash, R(1));
  catalogue_.Insert(0, keys[2].hash, R(2));
  int passed = 0;
  ScopedHook hook("find:probed", [&] {
    if (++passed == 1) catalogue_.PublishTables(TestCatalogue::kNone, 1);
  });
  std::vector<FindVerdict> verdicts(3);
  std::vector<Found> found(3);
  reader().FindBatch(keys, verdicts, found);
  EXPECT_EQ(verdicts[0], FindVerdict::kLive);
  EXPECT_EQ(found[0].record, R(1));
  EXPECT_EQ(verdicts[1], FindVerdict::kMiss);
  EXPECT_EQ(verdicts[2], FindVerdict::kLive);
}

TEST_F(GrowingReaderTest, TablesThatKeepChangingEndAtTheServer) {
  int passed = 0;
  ScopedHook hook("find:probed", [&] {
    ++passed;
    catalogue_.PublishTables(TestCatalogue::kNone, 0);  // another sequence, the same table
  });
  EXPECT_EQ(reader().Find(Key("chunk"), &found_), FindVerdict::kAskServer);
  EXPECT_EQ(passed, Reader::kRetriesMax);
}

// --- Many keys at once.

TEST_F(ReaderTest, BatchesOfEverySizeAnswerInOrder) {
  for (uint32_t i = 1; i <= 60; ++i) catalogue_.Put(R(i), Key("key " + std::to_string(i)));
  for (const std::size_t size : {0, 1, 31, 32, 33, 64, 100}) {
    std::vector<KeyRef> keys;
    for (std::size_t i = 0; i < size; ++i) keys.push_back(Key("key " + std::to_string(i * 7 % 90)));
    std::vector<FindVerdict> verdicts(size, FindVerdict::kAskServer);
    std::vector<Found> found(size);
    reader().FindBatch(keys, verdicts, found);
    for (std::size_t i = 0; i < size; ++i) {
      const uint32_t number = static_cast<uint32_t>(i * 7 % 90);
      const bool there = number >= 1 && number <= 60;
      ASSERT_EQ(verdicts[i], there ? FindVerdict::kLive : FindVerdict::kMiss) << i;
      if (there) {
        ASSERT_EQ(found[i].record, R(number));
      }
    }
  }
}

// Every byte of the catalogue may be anything: finding must end and stay inside the pool, which the
// address sanitizer watches.
TEST_F(GrowingReaderTest, DamagedBytesAreSurvived) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  std::vector<KeyRef> keys;
  for (uint32_t i = 1; i <= 64; ++i) {
    keys.push_back(KeyAt("key " + std::to_string(i), i, uint64_t{i} << 32));
    catalogue_.Put(R(i), keys.back());
  }
  catalogue_.PublishTables(0, 1);
  struct Range {
    uint64_t offset, length;
  };
  const auto offset_of = [&](const void* at) {
    return static_cast<uint64_t>(static_cast<const std::byte*>(at) - pool_.base());
  };
  const Range ranges[] = {
      {layout::kRootOffset, sizeof(layout::Root)},
      {layout::kRootOffset + offsetof(layout::Root, table_word), 8},
      {layout::kRootOffset + offsetof(layout::Root, tables), 24},
      {layout::kRecordDirectoryOffset, 8},
      {layout::kRegionDirectoryOffset, 16},
      {layout::kRegionTableOffset, 10 * sizeof(layout::RegionRecord)},
      {offset_of(&catalogue_.Record(R(1))), 64 * sizeof(layout::PageRecord)},
      {offset_of(catalogue_.Table(0)), 100 * sizeof(uint64_t)},
      {catalogue_.Record(R(1)).text_offset.load(), 64 * 512},
  };
  std::vector<FindVerdict> verdicts(keys.size());
  std::vector<Found> found(keys.size());
  for (int round = 0; round < 3000; ++round) {
    const Range& range = ranges[random.Below(std::size(ranges))];
    const uint64_t length = random.Between(1, std::min<uint64_t>(range.length, 64));
    const uint64_t at = range.offset + random.Below(range.length - length + 1);
    const std::vector<std::byte> before(pool_.base() + at, pool_.base() + at + length);
    for (uint64_t i = 0; i < length; ++i) {
      pool_.base()[at + i] = static_cast<std::byte>(random.OneIn(4) ? 0xFF : random());
    }
    reader().FindBatch(keys, verdicts, found);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (verdicts[i] != FindVerdict::kLive && verdicts[i] != FindVerdict::kRetiring) continue;
      PoolView::PageExtent extent;
      if (pool_.view().Page(found[i].record, &extent)) {
        ASSERT_TRUE(pool_.view().InBounds(extent.offset_bytes, extent.page_bytes));
      }
    }
    const std::size_t k = random.Below(keys.size());
    reader().Find(keys[k], &found_);
    std::copy(before.begin(), before.end(), pool_.base() + at);
  }
  for (const KeyRef& key : keys) EXPECT_EQ(Find(key), FindVerdict::kLive);
}

TEST_F(ReaderTest, AnIndexOfNoiseIsSurvived) {
  Random random(TestSeed());
  for (uint64_t i = 0; i < catalogue_.entries(); ++i) catalogue_.Table(0)[i].store(random() | 1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Find(Key("key " + std::to_string(i))), FindVerdict::kMiss);
  }
}

// The catalogue against a map: births, deaths, growth and reuse of tables, one step at a time.
TEST_F(GrowingReaderTest, AgreesWithANaiveModel) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  std::vector<KeyRef> keys;
  for (int i = 0; i < 80; ++i) {
    // Homes and tags that collide often.
    keys.push_back(KeyAt("key " + std::to_string(i), random.Below(16), random.Below(3) << 32 | i));
  }
  std::map<std::size_t, uint32_t> model;  // key to record
  std::map<uint32_t, std::size_t> used;
  uint8_t old_table = TestCatalogue::kNone;
  uint8_t current = 0;
  for (int step = 0; step < 4000; ++step) {
    const std::size_t k = random.Below(keys.size());
    const auto r = static_cast<uint32_t>(random.Between(1, 64));
    switch (random.Below(6)) {
      case 0:
      case 1:
        if (model.contains(k) || used.contains(r)) break;
        catalogue_.Put(R(r), keys[k], r);
        model[k] = r;
        used[r] = k;
        break;
      case 2:
        if (!model.contains(k)) break;
        catalogue_.Retire(R(model[k]));
        catalogue_.Condemn(R(model[k]));
        catalogue_.Free(R(model[k]));
        used.erase(model[k]);
        model.erase(k);
        break;
      case 3:  // growth moves an entry
        if (old_table == TestCatalogue::kNone || !model.contains(k)) break;
        if (catalogue_.Remove(old_table, keys[k].hash, R(model[k]))) {
          catalogue_.Insert(current, keys[k].hash, R(model[k]));
        }
        break;
      case 4:  // growth begins
        if (old_table != TestCatalogue::kNone || !random.OneIn(20)) break;
        old_table = current;
        current = static_cast<uint8_t>((current + 1) % 3);
        catalogue_.PublishTables(old_table, current);
        break;
      case 5:  // growth ends
        if (old_table == TestCatalogue::kNone || !random.OneIn(20)) break;
        for (const auto& [key, record] : model) {
          if (catalogue_.Remove(old_table, keys[key].hash, R(record))) {
            catalogue_.Insert(current, keys[key].hash, R(record));
          }
        }
        catalogue_.PublishTables(TestCatalogue::kNone, current);
        for (uint64_t i = 0; i < 200; ++i) catalogue_.Table(old_table)[i].store(0);
        old_table = TestCatalogue::kNone;
        break;
    }
    const std::size_t asked = random.Below(keys.size());
    const bool there = model.contains(asked);
    ASSERT_EQ(Find(keys[asked]), there ? FindVerdict::kLive : FindVerdict::kMiss) << step;
    if (there) {
      ASSERT_EQ(found_.record, R(model[asked])) << step;
    }
  }
}

}  // namespace
}  // namespace maru::catalogue
