// Keys in client-cut regions: their records come one by one, readers find, lease and place them as
// they do pages, and a new server knows them again.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

using layout::PageRecord;
using layout::PageState;
using layout::StateWord;

constexpr uint64_t kPoolBytes = 64ull << 20;
constexpr uint64_t kRegionBytes = 2 * layout::kUnitBytes;

// Pages 1 to 4 of which two hold keys; a client-cut region with the extents a, b and c of 1,000
// bytes each, one behind the other.
class ExtentTest : public testing::Test {
 protected:
  ExtentTest()
      : test_(kPoolBytes), first_page_(test_.Cut(4)), region_(test_.CutClient(kRegionBytes)) {
    MARU_CHECK_OK(test_.Put(first_page_, Key("page 1")));
    MARU_CHECK_OK(test_.Put(RecordNumber(first_page_.value() + 1), Key("page 2")));
    a_ = Put("a", 0);
    b_ = Put("b", 1000);
    c_ = Put("c", 2000);
  }

  KeyRef Key(const std::string& text) {
    texts_.push_back(std::make_unique<std::string>(text));
    return MakeKeyRef(none_, *texts_.back());
  }
  RecordNumber Put(const std::string& text, uint64_t offset_bytes, uint64_t length_bytes = 1000) {
    const auto record = test_->RegisterExtent(Key(text), {.region = region_,
                                                          .offset_bytes = offset_bytes,
                                                          .length_bytes = length_bytes,
                                                          .last_use = 5});
    MARU_CHECK_OK(record.status());
    return *record;
  }
  PageRecord& Record(RecordNumber record) { return test_.pool().Record(record); }
  FindVerdict Find(const std::string& text, Found* found) {
    return Reader(test_->view()).Find(Key(text), found);
  }
  bool Has(const std::string& text) {
    Found found;
    return Find(text, &found) == FindVerdict::kLive;
  }

  void ExpectRefused(RecordNumber record, std::string_view why) {
    const Status status = test_.TryOpen();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    const std::string name = "record " + std::to_string(record.value()) + ": ";
    EXPECT_NE(status.message().find(name), std::string_view::npos) << status.message();
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
  }
  // The same pool as one of an earlier boot: that extent is gone, all others are there.
  void ExpectDropped(RecordNumber record, const std::string& text) {
    ASSERT_TRUE(test_.TryOpen(Damage::kDrop).ok());
    EXPECT_EQ(test_.summary().dropped, 1u);
    EXPECT_EQ(test_.summary().live, 4u);
    EXPECT_EQ(test_.summary().extents, 2u);
    EXPECT_EQ(test_->State(record).state(), PageState::kAbsent);
    for (const std::string other : {"a", "b", "c", "page 1", "page 2"}) {
      EXPECT_EQ(Has(other), other != text) << other;
    }
    EXPECT_EQ(test_.Audit(), "");
    // Its number is free again, once.
    EXPECT_EQ(Put("new 1", 1 << 20), record);
    EXPECT_NE(Put("new 2", 2 << 20), record);
    test_.Reopen();
    EXPECT_EQ(test_.summary().extents, 4u);
    EXPECT_EQ(test_.Audit(), "");
  }
  void ExpectDamage(RecordNumber record, const std::string& text, std::string_view why,
                    const std::function<void(PageRecord&)>& change) {
    SCOPED_TRACE(why);
    change(Record(record));
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(record, why));
    ASSERT_NO_FATAL_FAILURE(ExpectDropped(record, text));
  }

  TestWriter test_;
  const Namespace none_;
  std::vector<std::unique_ptr<std::string>> texts_;
  RecordNumber first_page_;
  RegionSlot region_;
  RecordNumber a_, b_, c_;
};

TEST_F(ExtentTest, AReaderFindsLeasesAndPlacesItLikeAPage) {
  Found found;
  ASSERT_EQ(Find("b", &found), FindVerdict::kLive);
  EXPECT_EQ(found.record, b_);
  EXPECT_EQ(found.length_bytes, 1000u);
  const PoolView view = test_->view();
  PoolView::PageExtent place;
  ASSERT_TRUE(view.Page(b_, &place));
  const uint64_t region_begin = test_.pool().Region(region_).offset_bytes.load();
  EXPECT_EQ(place.offset_bytes, region_begin + 1000);
  EXPECT_EQ(place.page_bytes, kRegionBytes - 1000);
  EXPECT_EQ(place.in_region_bytes(), 1000u);
  EXPECT_EQ(place.region_length_bytes, kRegionBytes);
  EXPECT_EQ(place.region_id, test_.pool().Region(region_).region_id.load());

  const auto header = std::make_unique<layout::LeaseHeader>();
  const auto block = std::make_unique<layout::LeaseSlots>();
  layout::LeaseSlots* const blocks[] = {block.get()};
  Leases leases(view, header.get(), blocks);
  EXPECT_EQ(leases.Acquire(b_, found.generation), LeaseOutcome::kHeld);
  leases.Release(b_, found.generation);
  test_.Delete(b_);
  EXPECT_EQ(leases.Acquire(b_, found.generation), LeaseOutcome::kGone);
  EXPECT_FALSE(Has("b"));
}

TEST_F(ExtentTest, ANumberIsUsedAgainWithTheNextGeneration) {
  const Generation before = test_->State(b_).generation();
  test_.Delete(b_);
  EXPECT_EQ(test_->State(b_), StateWord::Make(PageState::kAbsent, before));
  EXPECT_EQ(Put("d", 1000), b_);
  EXPECT_EQ(test_->State(b_), StateWord::Make(PageState::kLive, Generation(before.value() + 1)));
  EXPECT_EQ(test_.Audit(), "");
  // A region of pages takes it over with its generation.
  test_.Delete(b_);
  test_.Delete(c_);
  const RecordNumber pages = test_.Cut(2);
  ASSERT_EQ(pages, b_);
  EXPECT_EQ(test_->State(b_), StateWord::Make(PageState::kFree, Generation(before.value() + 1)));
}

TEST_F(ExtentTest, ANewServerKnowsThemAndHandsNoNumberOutTwice) {
  test_->Retire(a_);
  test_->Retire(c_);
  test_->Condemn(c_);
  test_.Reopen();
  EXPECT_EQ(test_.summary().live, 4u);
  EXPECT_EQ(test_.summary().extents, 2u);
  EXPECT_EQ(test_.summary().reverted, 1u);
  EXPECT_EQ(test_.summary().condemned, 1u);
  EXPECT_EQ(test_.summary().dropped, 0u);
  EXPECT_TRUE(Has("a"));
  EXPECT_TRUE(Has("b"));
  EXPECT_FALSE(Has("c"));
  const RecordNumber d = Put("d", 3000);
  EXPECT_TRUE(d != a_ && d != b_ && d != c_) << d.value();
  test_->FreeExtent(c_);
  EXPECT_EQ(Put("e", 2000), c_);
  EXPECT_EQ(test_.Audit(), "");
}

TEST_F(ExtentTest, WornNumbersAreNeverUsedAgain) {
  Record(b_).state_word.store(
      StateWord::Make(PageState::kLive, Generation(layout::kGenerationMax)).bits());
  test_.Delete(b_);
  EXPECT_EQ(test_->State(b_).state(), PageState::kWorn);
  EXPECT_NE(Put("d", 1000), b_);
  test_.Reopen();
  EXPECT_EQ(test_->State(b_).state(), PageState::kWorn);
  EXPECT_NE(Put("e", 4000), b_);
  EXPECT_EQ(test_->State(b_).state(), PageState::kWorn);
  EXPECT_EQ(test_.Audit(), "");
}

TEST_F(ExtentTest, WithoutRoomForItsTextNothingHasChanged) {
  // All units of the pool are taken: what is left is text room of this size class, then none.
  const std::string long_key(60'000, 'k');
  while (test_.pool().Carve(layout::RegionKind::kText, layout::kUnitBytes).ok()) {
  }
  int stored = 0;
  Status status;
  for (; stored < 1'000 && status.ok(); ++stored) {
    status = test_
                 ->RegisterExtent(Key(long_key + std::to_string(stored)),
                                  {.region = region_, .offset_bytes = 0, .length_bytes = 1})
                 .status();
  }
  ASSERT_EQ(status.code(), StatusCode::kResourceExhausted);
  const RecordNumber next = Put("short", 3000);
  EXPECT_EQ(next.value(), c_.value() + static_cast<uint32_t>(stored));
  EXPECT_EQ(test_.Audit(), "");
}

TEST_F(ExtentTest, AnExtentOutOfItsRegionIsDamage) {
  ExpectDamage(b_, "b", "does not lie in a region",
               [](PageRecord& r) { r.extent_offset_bytes = kRegionBytes - 999; });
}
TEST_F(ExtentTest, AnExtentThatEndsPastAllIsDamage) {
  ExpectDamage(b_, "b", "does not lie in a region",
               [](PageRecord& r) { r.length_bytes = ~uint64_t{0}; });
}
TEST_F(ExtentTest, AnEmptyExtentIsDamage) {
  ExpectDamage(b_, "b", "does not lie in a region", [](PageRecord& r) { r.length_bytes = 0; });
}
TEST_F(ExtentTest, TwoThatOverlapAreDamage) {
  ExpectDamage(c_, "c", "overlaps that of record",
               [](PageRecord& r) { r.extent_offset_bytes = 1999; });
}
TEST_F(ExtentTest, AnExtentInARegionOfPagesIsDamage) {
  const uint64_t pages = Record(first_page_).region_slot.load();
  ExpectDamage(b_, "b", "is no client-cut region",
               [pages](PageRecord& r) { r.region_slot = pages; });
}
TEST_F(ExtentTest, AnExtentInNoRegionIsDamage) {
  ExpectDamage(b_, "b", "is no client-cut region",
               [](PageRecord& r) { r.region_slot = layout::kRegionSlotsMax; });
}
TEST_F(ExtentTest, ASecondRecordOfAKeyIsDamage) {
  const PageRecord& page = Record(first_page_);
  ExpectDamage(b_, "b", "its hash is not that of its key",
               [&page](PageRecord& r) { r.hash_low = page.hash_low.load(); });
}
TEST_F(ExtentTest, AGrantedRecordOfNoRegionIsDamage) {
  const StateWord word = StateWord::Make(PageState::kGranted, Generation(3), ClientSlot(1));
  Record(b_).state_word = word.bits();
  ExpectRefused(b_, "no region has it");
}

TEST_F(ExtentTest, ACondemnedOneOutOfItsRegionIsDamage) {
  test_->Retire(b_);
  test_->Condemn(b_);
  Record(b_).extent_offset_bytes = kRegionBytes;
  ExpectRefused(b_, "does not lie in a region");
  ASSERT_TRUE(test_.TryOpen(Damage::kDrop).ok());
  EXPECT_EQ(test_->State(b_).state(), PageState::kAbsent);
  EXPECT_EQ(test_.summary().condemned, 0u);
}

TEST_F(ExtentTest, APlaceIsCheckedAgainstRegionAndPoolEachTime) {
  const PoolView view = test_->view();
  PoolView::PageExtent place;
  Record(b_).extent_offset_bytes = kRegionBytes - 1;
  ASSERT_TRUE(view.Page(b_, &place));
  EXPECT_EQ(place.page_bytes, 1u);
  Record(b_).extent_offset_bytes = kRegionBytes;
  EXPECT_FALSE(view.Page(b_, &place));
  Record(b_).extent_offset_bytes = ~uint64_t{0};
  EXPECT_FALSE(view.Page(b_, &place));
  Record(b_).extent_offset_bytes = 0;
  ASSERT_TRUE(view.Page(b_, &place));
  layout::RegionRecord& region = test_.pool().Region(region_);
  region.length_bytes = kPoolBytes;
  EXPECT_FALSE(view.Page(b_, &place));
  region.length_bytes = kRegionBytes;
  region.word = layout::RegionWord::Make(layout::RegionKind::kText, 1).bits();
  EXPECT_FALSE(view.Page(b_, &place));
  region.word = layout::RegionWord::Make(layout::RegionKind::kNone, 1).bits();
  EXPECT_FALSE(view.Page(b_, &place));
}

}  // namespace
}  // namespace maru::catalogue
