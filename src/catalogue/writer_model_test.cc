// Writer and Reader against a naive model: a map of keys and a list of records, random transitions,
// regions cut and given up, restarts at random.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing.h"
#include "catalogue/reader.h"
#include "catalogue/test_catalogue.h"
#include "catalogue/test_writer.h"
#include "catalogue/writer.h"

namespace maru::catalogue {
namespace {

using layout::PageState;

struct ModelRecord {
  PageState state = PageState::kAbsent;
  uint32_t generation = 0;
  uint16_t client = 0;
  std::string key;
  uint64_t length = 0;
  bool extent = false;
};

struct ModelRegion {
  RecordNumber first{0};
  uint32_t count = 0;
  RegionSlot slot{0};
};

class WriterModel {
 public:
  WriterModel(uint64_t seed, uint64_t pool_bytes) : random_(seed), test_(pool_bytes) {}

  TestWriter& test() { return test_; }
  size_t keys() const { return keys_.size(); }
  uint64_t given_up() const { return given_up_; }

  void Cut(uint32_t count) {
    const RecordNumber first = test_.Cut(count);
    const auto slot = static_cast<uint32_t>(test_.pool().Record(first).region_slot.load());
    regions_.push_back({first, count, RegionSlot(slot)});
    for (uint32_t i = 0; i < count; ++i) {
      ModelRecord& record = At(first.value() + i);
      ASSERT_EQ(record.state, PageState::kAbsent);
      record.state = PageState::kFree;
      if (record.generation == 0) record.generation = 1;
    }
  }

  void GiveUpRegion() {
    const size_t chosen = random_.Below(regions_.size());
    const ModelRegion region = regions_[chosen];
    for (uint32_t i = 0; i < region.count; ++i) {
      if (At(region.first.value() + i).state != PageState::kFree) return;
    }
    test_.pool().Region(region.slot).word.store(0, std::memory_order_release);
    test_->ReleaseRecords(region.first, region.count);
    for (uint32_t i = 0; i < region.count; ++i) {
      At(region.first.value() + i).state = PageState::kAbsent;
    }
    ++given_up_;
    regions_.erase(regions_.begin() + static_cast<ptrdiff_t>(chosen));
  }

  // `others`: LIVE keys that are not the model's.
  void Reopen(uint64_t others = 0) {
    test_.Reopen();
    RecoverySummary expected;
    expected.live = others;
    for (ModelRecord& record : records_) {
      if (record.state == PageState::kRetiring) {
        record.state = PageState::kLive;
        ++expected.reverted;
      }
      expected.live += record.state == PageState::kLive;
      expected.extents += record.state == PageState::kLive && record.extent;
      expected.granted += record.state == PageState::kGranted;
      expected.condemned += record.state == PageState::kCondemned;
      expected.quarantined += record.state == PageState::kQuarantined;
    }
    const RecoverySummary& summary = test_.summary();
    ASSERT_EQ(summary.live, expected.live);
    ASSERT_EQ(summary.extents, expected.extents);
    ASSERT_EQ(summary.reverted, expected.reverted);
    ASSERT_EQ(summary.granted, expected.granted);
    ASSERT_EQ(summary.condemned, expected.condemned);
    ASSERT_EQ(summary.quarantined, expected.quarantined);
    ASSERT_EQ(summary.index_entries, expected.live);
    ASSERT_EQ(summary.dropped, 0u);
  }

  // A random step of a random extent, or a new one.
  void StepExtent(uint64_t key_space) {
    if (extents_.empty() || (extents_.size() < kExtentsMax && random_.OneIn(3))) {
      return RegisterExtent(key_space);
    }
    const size_t chosen = random_.Below(extents_.size());
    const RecordNumber record(extents_[chosen]);
    ModelRecord& model = At(record.value());
    switch (model.state) {
      case PageState::kLive:
        test_->Retire(record);
        model.state = PageState::kRetiring;
        return;
      case PageState::kRetiring: return Decide(record, model);
      case PageState::kCondemned:
        test_->FreeExtent(record);
        model.state = PageState::kAbsent;
        model.extent = false;
        extents_[chosen] = extents_.back();
        extents_.pop_back();
        return;
      default: FAIL() << "record " << record.value();
    }
  }

  // A random step of a random record.
  void Step(uint64_t key_space, uint64_t register_weight) {
    const ModelRegion& region = regions_[random_.Below(regions_.size())];
    const auto number = static_cast<uint32_t>(region.first.value() + random_.Below(region.count));
    const RecordNumber record(number);
    ModelRecord& model = At(number);
    switch (model.state) {
      case PageState::kFree: return Grant(record, model);
      case PageState::kGranted:
        if (random_.Below(register_weight + 3) < register_weight) {
          return Register(record, model, key_space);
        }
        return EndGrant(record, model);
      case PageState::kLive:
        test_->Retire(record);
        model.state = PageState::kRetiring;
        return;
      case PageState::kRetiring: return Decide(record, model);
      case PageState::kCondemned:
        test_->Free(record);
        model.state = PageState::kFree;
        return;
      case PageState::kQuarantined:
        if (random_.OneIn(2)) return Grant(record, model);
        test_->EndQuarantine(record);
        model.state = PageState::kFree;
        return;
      default: FAIL() << "record " << number;
    }
  }

  void CheckKey(const std::string& text) {
    const Namespace none;
    const KeyRef key = MakeKeyRef(none, text);
    Writer::Hit hit;
    Found found;
    const bool present = test_->Lookup(key, &hit);
    const FindVerdict verdict = reader_.Find(key, &found);
    const auto expected = keys_.find(text);
    ASSERT_EQ(present, expected != keys_.end()) << text;
    if (!present) {
      ASSERT_EQ(verdict, FindVerdict::kMiss) << text;
      return;
    }
    const ModelRecord& model = At(expected->second);
    ASSERT_EQ(hit.record.value(), expected->second);
    ASSERT_EQ(hit.state.state(), model.state);
    ASSERT_EQ(verdict,
              model.state == PageState::kLive ? FindVerdict::kLive : FindVerdict::kRetiring);
    ASSERT_EQ(found.record.value(), expected->second);
    ASSERT_EQ(found.generation.value(), model.generation);
    ASSERT_EQ(found.length_bytes, model.length);
    ASSERT_EQ(test_->KeyOf(hit.record).key, text);
  }

  void CheckAll(uint64_t key_space) {
    for (uint64_t i = 0; i < key_space; ++i) ASSERT_NO_FATAL_FAILURE(CheckKey(NumberedKey(i)));
    for (uint32_t number = 1; number < records_.size(); ++number) {
      const layout::StateWord word = test_->State(RecordNumber(number));
      ASSERT_EQ(word.state(), records_[number].state) << number;
      ASSERT_EQ(word.generation().value(), records_[number].generation) << number;
      ASSERT_EQ(word.client().value(), records_[number].client) << number;
    }
    ASSERT_EQ(test_->usage().index_entries, keys_.size());
    ASSERT_EQ(test_.Audit(), "");
  }

 private:
  ModelRecord& At(uint32_t number) {
    if (records_.size() <= number) records_.resize(number + 1);
    return records_[number];
  }

  void Grant(RecordNumber record, ModelRecord& model) {
    Generation generation;
    model.client = static_cast<uint16_t>(random_.Below(layout::kClientSlots));
    ASSERT_TRUE(test_->Grant(record, ClientSlot(model.client), &generation));
    ASSERT_EQ(generation.value(), ++model.generation);
    model.state = PageState::kGranted;
  }

  void RegisterExtent(uint64_t key_space) {
    const std::string text = NumberedKey(random_.Below(key_space));
    if (keys_.contains(text)) return;
    if (cut_ == RegionSlot(0)) cut_ = test_.CutClient(layout::kUnitBytes);
    const Namespace none;
    const uint64_t length = 1 + random_.Below(100);
    const uint64_t offset = next_extent_;
    next_extent_ = (next_extent_ + 128) % layout::kUnitBytes;
    const auto registered = test_->RegisterExtent(
        MakeKeyRef(none, text), {.region = cut_, .offset_bytes = offset, .length_bytes = length});
    ASSERT_TRUE(registered.ok());
    ModelRecord& model = At(registered->value());
    ASSERT_EQ(model.state, PageState::kAbsent) << registered->value();
    model = {PageState::kLive, model.generation + 1, 0, text, length, true};
    keys_[text] = registered->value();
    extents_.push_back(registered->value());
    PoolView::PageExtent place;
    ASSERT_TRUE(test_->view().Page(*registered, &place));
    ASSERT_EQ(place.in_region_bytes(), offset);
    ASSERT_EQ(place.region_length_bytes, layout::kUnitBytes);
  }

  void EndGrant(RecordNumber record, ModelRecord& model) {
    switch (random_.Below(3)) {
      case 0: {
        Generation generation;
        ASSERT_TRUE(test_->Renew(record, ClientId(5), &generation));
        ASSERT_EQ(generation.value(), ++model.generation);
        return;
      }
      case 1:
        test_->GiveBack(record);
        model.state = PageState::kFree;
        break;
      default: test_->Quarantine(record); model.state = PageState::kQuarantined;
    }
    model.client = 0;
  }

  void Register(RecordNumber record, ModelRecord& model, uint64_t key_space) {
    const std::string text = NumberedKey(random_.Below(key_space));
    ASSERT_NO_FATAL_FAILURE(CheckKey(text));
    if (keys_.contains(text)) return;  // a duplicate: the server renews the grant
    const Namespace none;
    model.length = random_.Below(TestWriter::kPageBytes + 1);
    const Status registered =
        test_->Register(record, MakeKeyRef(none, text), {.length_bytes = model.length});
    if (!registered.ok()) {
      ASSERT_EQ(registered.code(), StatusCode::kResourceExhausted);
      return;
    }
    model.state = PageState::kLive;
    model.client = 0;
    model.key = text;
    keys_[text] = record.value();
  }

  void Decide(RecordNumber record, ModelRecord& model) {
    if (random_.OneIn(2)) {
      test_->Revert(record);
      model.state = PageState::kLive;
      return;
    }
    test_->Condemn(record);
    model.state = PageState::kCondemned;
    keys_.erase(model.key);
  }

  Random random_;
  TestWriter test_;
  // Of the pool, whoever writes to it.
  const Reader reader_{test_.pool().view()};
  std::vector<ModelRecord> records_;
  std::vector<ModelRegion> regions_;
  std::map<std::string, uint32_t> keys_;
  uint64_t given_up_ = 0;
  // Fewer than there are places of 128 bytes, with room for those that are condemned.
  static constexpr size_t kExtentsMax = 200;
  RegionSlot cut_{0};
  uint64_t next_extent_ = 0;
  std::vector<uint32_t> extents_;
};

TEST(WriterModel, RandomTransitionsCutsAndRestartsAgree) {
  const uint64_t seed = TestSeed();
  WriterModel model(seed, 384ull << 20);
  Random random(seed + 1);
  constexpr uint64_t kKeySpace = 900;
  model.Cut(300);
  for (int step = 0; step < 60'000; ++step) {
    ASSERT_NO_FATAL_FAILURE(model.Step(kKeySpace, 10));
    if (random.OneIn(4)) {
      ASSERT_NO_FATAL_FAILURE(model.StepExtent(kKeySpace));
    }
    if (random.OneIn(1'000)) {
      ASSERT_NO_FATAL_FAILURE(model.Cut(1 + random.Below(50)));
    }
    if (random.OneIn(20)) {
      ASSERT_NO_FATAL_FAILURE(model.GiveUpRegion());
    }
    if (random.OneIn(3'000)) {
      ASSERT_NO_FATAL_FAILURE(model.Reopen());
    }
    if (random.OneIn(6'000)) {
      ASSERT_NO_FATAL_FAILURE(model.CheckAll(kKeySpace));
    }
    if (model.keys() == 0 && step > 1'000) model.Cut(300);
  }
  ASSERT_NO_FATAL_FAILURE(model.CheckAll(kKeySpace));
  EXPECT_GT(model.given_up(), 0u);
}

TEST(WriterModel, AgreesWhileTheIndexGrows) {
  const uint64_t seed = TestSeed();
  WriterModel model(seed, 384ull << 20);
  Random random(seed + 1);
  constexpr uint64_t kKeySpace = 2'000;
  // Keys beside those of the model, up to where the table is about to grow.
  TestWriter& test = model.test();
  constexpr uint32_t kFill = 196'000;
  const RecordNumber fill = test.Cut(kFill);
  const Namespace other("fill");
  for (uint32_t i = 0; i < kFill; ++i) {
    const std::string text = NumberedKey(i);
    ASSERT_TRUE(test.Put(RecordNumber(fill.value() + i), MakeKeyRef(other, text)).ok());
  }
  ASSERT_FALSE(test->usage().growing);
  model.Cut(1'500);
  bool grew = false;
  for (int step = 0; step < 120'000; ++step) {
    ASSERT_NO_FATAL_FAILURE(model.Step(kKeySpace, 30));
    grew = grew || test->usage().growing;
    if (random.OneIn(2'000)) test->AdvanceGrowth();
    if (grew && random.OneIn(40'000)) {
      ASSERT_NO_FATAL_FAILURE(model.Reopen(kFill));
    }
  }
  EXPECT_TRUE(grew);
  Found found;
  const Reader reader(test->view());
  for (uint32_t i = 0; i < kFill; ++i) {
    const std::string text = NumberedKey(i);
    ASSERT_EQ(reader.Find(MakeKeyRef(other, text), &found), FindVerdict::kLive) << i;
    ASSERT_EQ(found.record.value(), fill.value() + i);
  }
  ASSERT_EQ(test.Audit(), "");
}

}  // namespace
}  // namespace maru::catalogue
