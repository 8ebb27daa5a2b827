// A server that dies at any of its publishing stores: the next one opens the pool, every key that
// was LIVE is LIVE, every RETIRING one is LIVE again, no page is lost, nothing is found that nobody
// stored, and the writer goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/sequence_point.h"
#include "catalogue/publication_points.h"
#include "catalogue/reader.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

using layout::PageState;
using layout::StateWord;

class Crash {};

// Those that only a growing index comes to.
constexpr std::string_view kGrowthPoints[] = {points::kEntryCopied, points::kEntryMoved};

bool GrowthOnly(std::string_view name) {
  return std::ranges::find(kGrowthPoints, name) != std::end(kGrowthPoints);
}

// At every moment a reader finds what a state word calls LIVE. `step`: one record in so many.
void ExpectLiveKeysFound(TestPool& pool, const Reader& reader, uint32_t step) {
  const uint64_t high = pool.root().record_high.load();
  for (uint32_t number = 1; number < high; number += step) {
    const layout::PageRecord& page = pool.Record(RecordNumber(number));
    if (StateWord(page.state_word.load()).state() != PageState::kLive) continue;
    const auto sizes = layout::KeySizes::Unpack(page.key_sizes.load());
    const std::string text(pool.At<char>(page.text_offset.load()), sizes.text_bytes());
    const Namespace none;
    Found found;
    ASSERT_EQ(reader.Find(MakeKeyRef(none, text), &found), FindVerdict::kLive) << text;
    ASSERT_EQ(found.record, RecordNumber(number));
  }
}

// A writer and what its caller may rely on.
class Story {
 public:
  explicit Story(uint64_t pool_bytes) : test_(pool_bytes) {}

  TestWriter& test() { return test_; }

  void Grant(RecordNumber record) {
    Generation generation;
    MARU_CHECK(test_->Grant(record, ClientSlot(3), &generation));
  }
  void Register(RecordNumber record, const std::string& text) {
    unsure_.insert(text);
    MARU_CHECK_OK(test_->Register(record, MakeKeyRef(none_, text), {.length_bytes = 9}));
    unsure_.erase(text);
    stored_[text] = record;
  }
  RecordNumber RegisterExtent(RegionSlot region, uint64_t offset_bytes, const std::string& text) {
    unsure_.insert(text);
    const auto record =
        test_->RegisterExtent(MakeKeyRef(none_, text),
                              {.region = region, .offset_bytes = offset_bytes, .length_bytes = 9});
    MARU_CHECK_OK(record.status());
    unsure_.erase(text);
    stored_[text] = *record;
    return *record;
  }
  void Condemn(RecordNumber record, const std::string& text) {
    stored_.erase(text);
    unsure_.insert(text);
    test_->Condemn(record);
    unsure_.erase(text);
  }

  // What the pool says by itself, after a crash and before the next start.
  std::map<uint32_t, StateWord> Words() {
    std::map<uint32_t, StateWord> words;
    const uint64_t high = test_.pool().root().record_high.load();
    for (uint32_t number = 1; number < high; ++number) {
      words[number] = StateWord(test_.pool().Record(RecordNumber(number)).state_word.load());
    }
    return words;
  }

  void CheckRestart(const std::map<uint32_t, StateWord>& before) {
    ASSERT_TRUE(test_.TryOpen().ok());
    for (const auto& [number, word] : before) {
      const StateWord after = test_->State(RecordNumber(number));
      if (word.state() == PageState::kRetiring) {
        ASSERT_EQ(after, word.With(PageState::kLive)) << number;
      } else if (word.state() == PageState::kAbsent || word.state() == PageState::kFree) {
        // A region that was being cut or given up: all of it in, or all of it out.
        ASSERT_TRUE(after.state() == PageState::kAbsent || after.state() == PageState::kFree);
        ASSERT_GE(after.generation().value(), word.generation().value());
      } else {
        ASSERT_EQ(after, word) << number;
      }
    }
    CheckRegions();
    Found found;
    for (const auto& [text, record] : stored_) {
      ASSERT_EQ(Reader(test_->view()).Find(MakeKeyRef(none_, text), &found), FindVerdict::kLive)
          << text;
      ASSERT_EQ(found.record, record);
      ASSERT_EQ(found.length_bytes, 9u);
    }
    ASSERT_GE(test_.summary().live, stored_.size());
    ASSERT_LE(test_.summary().live, stored_.size() + unsure_.size());
    ASSERT_EQ(test_.Audit(), "");
  }

  // The catalogue goes on: a new region, a key in it, and the keys of before again.
  void CheckGoesOn() {
    const RecordNumber record = test_.Cut(3);
    ASSERT_TRUE(test_.Put(record, MakeKeyRef(none_, "after the crash")).ok());
    test_.Delete(record);
    for (uint32_t number = 1; number < test_.pool().root().record_high.load(); ++number) {
      if (test_->State(RecordNumber(number)).state() == PageState::kLive) {
        test_.Delete(RecordNumber(number));
      }
    }
    ASSERT_EQ(test_->usage().index_entries, 0u);
    ASSERT_EQ(test_->usage().text_bytes_used, 0u);
    ASSERT_EQ(test_.Audit(), "");
  }

 private:
  // A page of a region is never ABSENT, and a record of none is.
  void CheckRegions() {
    std::set<uint32_t> of_regions;
    for (uint32_t slot = 0; slot < test_.pool().root().region_slots_high.load(); ++slot) {
      const layout::RegionRecord& region = test_.pool().Region(RegionSlot(slot));
      if (layout::RegionWord(region.word.load()).kind() != layout::RegionKind::kPages) continue;
      const uint32_t first = layout::RegionFirstRecord(region.pages.load());
      for (uint32_t i = 0; i < layout::RegionPageCount(region.pages.load()); ++i) {
        of_regions.insert(first + i);
        ASSERT_NE(test_->State(RecordNumber(first + i)).state(), PageState::kAbsent) << first + i;
        ASSERT_EQ(test_.pool().Record(RecordNumber(first + i)).region_slot.load(), slot);
      }
    }
    for (uint32_t number = 1; number < test_.pool().root().record_high.load(); ++number) {
      if (of_regions.contains(number)) continue;
      const PageState state = test_->State(RecordNumber(number)).state();
      if (state == PageState::kLive || state == PageState::kCondemned) {
        ASSERT_TRUE(test_.IsExtent(RecordNumber(number))) << number;
        continue;
      }
      ASSERT_TRUE(state == PageState::kAbsent || state == PageState::kWorn) << number;
    }
  }

  TestWriter test_;
  const Namespace none_;
  std::map<std::string, RecordNumber> stored_;
  std::set<std::string> unsure_;  // in the middle of being stored or deleted
};

void WearOut(Story& story, RecordNumber record) {
  story.test().pool().Record(record).state_word.store(
      StateWord::Make(PageState::kFree, Generation(layout::kGenerationMax)).bits());
  Generation generation;
  MARU_CHECK(!story.test()->Grant(record, ClientSlot(1), &generation));
}

// Every transition, both ways out of each fork, and two restarts.
void EveryTransition(Story& story) {
  TestWriter& test = story.test();
  const RecordNumber first = test.Cut(10);
  const auto page = [first](uint32_t i) { return RecordNumber(first.value() + i); };
  for (uint32_t i = 0; i < 6; ++i) story.Grant(page(i));
  for (uint32_t i = 0; i < 4; ++i) story.Register(page(i), NumberedKey(i));
  Generation generation;
  MARU_CHECK(test->Renew(page(4), ClientId(5), &generation));
  test->GiveBack(page(5));
  test->Quarantine(page(4));
  test->EndQuarantine(page(4));
  story.Grant(page(4));
  test->Quarantine(page(4));
  test->Retire(page(0));
  test->Revert(page(0));
  test->Retire(page(0));
  story.Condemn(page(0), NumberedKey(0));
  test->Free(page(0));
  test->Retire(page(1));
  story.Condemn(page(1), NumberedKey(1));
  test->Retire(page(2));
  WearOut(story, page(9));
  const RegionSlot cut = test.CutClient(layout::kUnitBytes);
  const RecordNumber extent = story.RegisterExtent(cut, 0, NumberedKey(30));
  story.RegisterExtent(cut, 9, NumberedKey(31));
  test->Retire(extent);
  test->Revert(extent);
  test->Retire(extent);
  story.Condemn(extent, NumberedKey(30));
  test->FreeExtent(extent);
  test->Retire(story.RegisterExtent(cut, 4096, NumberedKey(32)));
  const RecordNumber waits = story.RegisterExtent(cut, 8192, NumberedKey(33));
  test->Retire(waits);
  story.Condemn(waits, NumberedKey(33));
  // A cut that stops before its records are bound.
  const RecordNumber unbound = test->AllocateRecords(3).value();
  const auto room = test.pool().CarvePages(TestWriter::kPageBytes, 3, unbound).value();
  test.Reopen();
  story.Grant(unbound);
  story.Register(unbound, NumberedKey(20));
  test->Retire(unbound);
  story.Condemn(unbound, NumberedKey(20));
  test->Free(unbound);
  // A region is given up.
  test.pool().Region(room.slot).word.store(0, std::memory_order_release);
  test->ReleaseRecords(unbound, 3);
  MARU_CHECK_EQ(test.Cut(2), unbound);
  test.Reopen();
  story.Grant(unbound);
  story.Register(unbound, NumberedKey(21));
}

TEST(WriterCrash, AtEveryPointOfEveryTransitionNothingIsLost) {
  constexpr uint64_t kPoolBytes = 64ull << 20;
  std::map<std::string, int> passings;
  {
    Story story(kPoolBytes);
    const Reader reader(story.test().pool().view());
    const ScopedHook hook([&](std::string_view name) {
      if (!name.starts_with("writer:")) return;  // the reader's own points
      ++passings[std::string(name)];
      SCOPED_TRACE(name);
      ExpectLiveKeysFound(story.test().pool(), reader, 1);
    });
    EveryTransition(story);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  std::set<std::string> unknown;
  for (const auto& [name, count] : passings) unknown.insert(name);
  for (const std::string_view name : points::kAllOfWriter) {
    unknown.erase(std::string(name));
    if (GrowthOnly(name)) continue;
    ASSERT_GT(passings[std::string(name)], 0) << name;
    for (int at = 1; at <= passings[std::string(name)]; ++at) {
      SCOPED_TRACE(std::string(name) + ", passing " + std::to_string(at));
      Story story(kPoolBytes);
      {
        int passed = 0;
        const ScopedHook hook(name, [&] {
          if (++passed == at) throw Crash();
        });
        ASSERT_THROW(EveryTransition(story), Crash);
      }
      ASSERT_NO_FATAL_FAILURE(story.CheckRestart(story.Words()));
      ASSERT_NO_FATAL_FAILURE(story.CheckGoesOn());
    }
  }
  EXPECT_TRUE(unknown.empty()) << "not in points::kAllOfWriter: " << *unknown.begin();
}

// All of a pool but the pages, to come back to.
class Snapshot {
 public:
  explicit Snapshot(TestPool* pool) : pool_(pool) {
    Save(0, layout::kHeadBytes);
    for (uint32_t slot = 0; slot < pool->root().region_slots_high.load(); ++slot) {
      const layout::RegionRecord& region = pool->Region(RegionSlot(slot));
      if (layout::RegionWord(region.word.load()).kind() == layout::RegionKind::kPages) continue;
      Save(region.offset_bytes.load(), region.length_bytes.load());
    }
  }
  void Restore() const {
    for (const auto& [offset, bytes] : parts_) {
      std::copy(bytes.begin(), bytes.end(), pool_->base() + offset);
    }
  }

 private:
  void Save(uint64_t offset, uint64_t length) {
    parts_[offset].assign(pool_->base() + offset, pool_->base() + offset + length);
  }
  TestPool* pool_;
  std::map<uint64_t, std::vector<std::byte>> parts_;
};

class GrowthStory {
 public:
  static constexpr uint32_t kRecovered = 163'840;  // a restart gives them the smallest table
  static constexpr uint32_t kMost = 225'000;

  GrowthStory() : test_(512ull << 20) {
    first_ = test_.Cut(kMost);
    // Grown once and shrunk by restarts, which use the two rooms in turn: after the one that
    // Restart makes, the large one is spare and has old entries in it.
    for (uint32_t i = 0; i < 200'000; ++i) Put(i);
    while (test_->AdvanceGrowth()) continue;
    for (uint32_t i = kRecovered; i < 200'000; ++i) test_.Delete(Record(i));
    test_.Reopen();
    test_.Reopen();
    MARU_CHECK_EQ(test_->usage().index_capacity, uint64_t{1} << layout::kIndexEntriesLog2Unit);
    snapshot_ = std::make_unique<Snapshot>(&test_.pool());
  }

  TestPool& pool() { return test_.pool(); }
  void Restart() {
    snapshot_->Restore();
    test_.Reopen();
    stored_ = kRecovered;
  }
  // Up to and through a growth, partly at inserts, partly in idle time, with deletions.
  void Grow() {
    while (!test_->usage().growing) PutNext();
    while (test_->usage().growing) {
      for (int i = 0; i < 200; ++i) PutNext();
      test_->AdvanceGrowth();
    }
  }
  void CheckRestart() {
    ASSERT_TRUE(test_.TryOpen().ok());
    Found found;
    const Reader reader(test_->view());
    // A part of them: that none is lost tell the count and the audit.
    for (uint32_t i = 0; i < stored_; i += 7) {
      const std::string text = NumberedKey(i);
      ASSERT_EQ(reader.Find(MakeKeyRef(none_, text), &found), FindVerdict::kLive) << i;
      ASSERT_EQ(found.record, Record(i));
    }
    ASSERT_GE(test_.summary().live, stored_);
    ASSERT_LE(test_.summary().live, stored_ + 1);
    ASSERT_EQ(test_.Audit(), "");
  }

 private:
  RecordNumber Record(uint32_t i) const { return RecordNumber(first_.value() + i); }
  void Put(uint32_t i) {
    const std::string text = NumberedKey(i);
    MARU_CHECK_OK(test_.Put(Record(i), MakeKeyRef(none_, text)));
  }
  void PutNext() {
    MARU_CHECK_LT(stored_, kMost);
    Put(stored_);
    ++stored_;
  }

  TestWriter test_;
  const Namespace none_;
  RecordNumber first_{0};
  uint32_t stored_ = 0;
  std::unique_ptr<Snapshot> snapshot_;
};

TEST(WriterCrash, WhileTheIndexGrowsNothingIsLost) {
  GrowthStory story;
  std::map<std::string, int> passings;
  story.Restart();
  {
    const Reader reader(story.pool().view());
    const ScopedHook hook([&](std::string_view name) {
      if (!name.starts_with("writer:") || testing::Test::HasFailure()) return;
      ++passings[std::string(name)];
      SCOPED_TRACE(name);
      // Prime to all strides: keys from everywhere in the table, each of which moves once.
      ExpectLiveKeysFound(story.pool(), reader, 49'999);
    });
    story.Grow();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  ASSERT_NO_FATAL_FAILURE(story.CheckRestart());
  const auto crash_at = [&](std::string_view name, int at) {
    SCOPED_TRACE(std::string(name) + ", passing " + std::to_string(at));
    ASSERT_GE(passings[std::string(name)], at);
    story.Restart();
    {
      int passed = 0;
      const ScopedHook hook(name, [&] {
        if (++passed == at) throw Crash();
      });
      ASSERT_THROW(story.Grow(), Crash);
    }
    story.CheckRestart();
  };
  for (const std::string_view name :
       {points::kTableCleared, points::kEntryCopied, points::kEntryMoved}) {
    ASSERT_NO_FATAL_FAILURE(crash_at(name, (passings[std::string(name)] + 1) / 2));
  }
  ASSERT_NO_FATAL_FAILURE(crash_at(points::kDescriptor, 1));
  ASSERT_NO_FATAL_FAILURE(crash_at(points::kTableWord, 1));
  ASSERT_NO_FATAL_FAILURE(crash_at(points::kEntryCopied, 1));
  ASSERT_NO_FATAL_FAILURE(
      crash_at(points::kEntryMoved, passings[std::string(points::kEntryMoved)]));
  ASSERT_NO_FATAL_FAILURE(crash_at(points::kTableWord, 2));
}

}  // namespace
}  // namespace maru::catalogue
