#include "layout/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/random.h"
#include "layout/state_word.h"

namespace maru::layout {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPoolBytes = 64 << 20;

RegionValues PagesRegion() {
  RegionValues record{};
  record.word = RegionWord::Make(RegionKind::kPages, 2).bits();
  record.offset_bytes = 0xC00000;
  record.length_bytes = 0x2000000;
  record.page_bytes = 0x100000;
  record.pages = PackRegionPages(32, 1);
  record.region_id = 0x500003;
  return record;
}

RegionValues ClientCutRegion() {
  RegionValues record{};
  record.word = RegionWord::Make(RegionKind::kClientCut, 1).bits();
  record.offset_bytes = 0xC00000;
  record.length_bytes = 0x200000;
  record.region_id = 7;
  record.owner = 3;
  record.lease_deadline_unix_ns = 5;
  record.instance_id[0] = 'a';
  return record;
}

RegionValues PartRegion(RegionKind kind) {
  RegionValues record{};
  record.word = RegionWord::Make(kind, 1).bits();
  record.offset_bytes = kUnitBytes;
  record.length_bytes = kUnitBytes;
  return record;
}

PageValues LivePage() {
  PageValues record{};
  record.state_word = StateWord::Make(PageState::kLive, Generation(7)).bits();
  record.text_offset = 0x400008;
  record.key_sizes = KeySizes{11, 4}.Pack();
  record.length_bytes = 0xC0000;
  record.region_slot = 5;
  return record;
}

RootValues ServedRoot() {
  RootValues root{};
  root.starts = 1;
  root.table_word = TableWord::Make(5, TableWord::kNone, 1).bits();
  root.tables[1] = TableDescriptor::Make(0x600000, 18).bits();
  return root;
}

template <typename Values, typename... Args>
void ExpectRefused(Status (*validate)(const Values&, Args...), Values values,
                   const std::function<void(Values&)>& change, const char* part, Args... args) {
  ASSERT_TRUE(validate(values, args...).ok()) << validate(values, args...).ToString();
  change(values);
  const Status status = validate(values, args...);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << part;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

void ExpectRegionRefused(const RegionValues& record, std::function<void(RegionValues&)> change,
                         const char* part) {
  ExpectRefused<RegionValues, uint64_t>(ValidateRegionRecord, record, change, part, kPoolBytes);
}

void ExpectPageRefused(std::function<void(PageValues&)> change, const char* part) {
  ExpectRefused<PageValues, uint64_t>(ValidatePageRecord, LivePage(), change, part, kPoolBytes);
}

void ExpectRootRefused(std::function<void(RootValues&)> change, const char* part) {
  ExpectRefused<RootValues, uint64_t>(ValidateRoot, ServedRoot(), change, part, kPoolBytes);
}

TEST(ValidateRegionRecord, AcceptsEachKind) {
  EXPECT_TRUE(ValidateRegionRecord(RegionValues{}, kPoolBytes).ok());
  EXPECT_TRUE(ValidateRegionRecord(PagesRegion(), kPoolBytes).ok());
  EXPECT_TRUE(ValidateRegionRecord(ClientCutRegion(), kPoolBytes).ok());
  for (const RegionKind kind : {RegionKind::kRecords, RegionKind::kText, RegionKind::kIndex,
                                RegionKind::kLeases, RegionKind::kRegionTable}) {
    EXPECT_TRUE(ValidateRegionRecord(PartRegion(kind), kPoolBytes).ok());
  }
}

TEST(ValidateRegionRecord, ReadsNothingElseOfAnUnusedOne) {
  RegionValues record = PagesRegion();
  record.word = RegionWord::Make(RegionKind::kNone, 3).bits();
  record.offset_bytes = 13;
  EXPECT_TRUE(ValidateRegionRecord(record, kPoolBytes).ok());
}

TEST(ValidateRegionRecord, NamesTheFieldOfAPlaceThatIsWrong) {
  using R = RegionValues;
  const R pages = PagesRegion();
  ExpectRegionRefused(pages, [](R& r) { r.word |= 8; }, "kind is 9");
  ExpectRegionRefused(pages, [](R& r) { r.word |= 0x100; }, "word is");
  ExpectRegionRefused(pages, [](R& r) { r.word = 1; }, "cut is 0");
  ExpectRegionRefused(pages, [](R& r) { r.offset_bytes = 0; }, "offset_bytes is 0");
  ExpectRegionRefused(pages, [](R& r) { r.offset_bytes += 4096; }, "offset_bytes");
  ExpectRegionRefused(pages, [](R& r) { r.length_bytes = 0; }, "length_bytes is 0");
  ExpectRegionRefused(pages, [](R& r) { r.length_bytes += 4096; }, "length_bytes");
  ExpectRegionRefused(pages, [](R& r) { r.length_bytes = kPoolBytes; }, "do not lie in a pool");
  ExpectRegionRefused(
      pages, [](R& r) { r.offset_bytes = ~uint64_t{0} & ~(kUnitBytes - 1); }, "do not lie");
  ExpectRegionRefused(
      PartRegion(RegionKind::kRegionTable), [](R& r) { r.length_bytes = 2 * kUnitBytes; },
      "one unit");
}

TEST(ValidateRegionRecord, NamesThePagesThatDoNotFit) {
  using R = RegionValues;
  const R pages = PagesRegion();
  ExpectRegionRefused(pages, [](R& r) { r.page_bytes = 0; }, "page_bytes is 0");
  ExpectRegionRefused(pages, [](R& r) { r.page_bytes = 1000; }, "page_bytes is 1000");
  ExpectRegionRefused(pages, [](R& r) { r.pages = PackRegionPages(33, 1); }, "33 pages");
  ExpectRegionRefused(pages, [](R& r) { r.pages = PackRegionPages(0, 1); }, "0 pages");
  ExpectRegionRefused(pages, [](R& r) { r.pages = PackRegionPages(32, 0); }, "records from 0");
  ExpectRegionRefused(
      pages, [](R& r) { r.pages = PackRegionPages(32, kRecordNumberMax - 30); }, "records from");
  ExpectRegionRefused(pages, [](R& r) { r.region_id = 1ull << 31; }, "region_id");
}

TEST(ValidateRegionRecord, FieldsOfOtherKindsAreZero) {
  using R = RegionValues;
  const R text = PartRegion(RegionKind::kText);
  ExpectRegionRefused(text, [](R& r) { r.page_bytes = 512; }, "page_bytes is 512");
  ExpectRegionRefused(text, [](R& r) { r.pages = 1; }, "pages is 1");
  ExpectRegionRefused(text, [](R& r) { r.region_id = 1; }, "region_id is 1");
  ExpectRegionRefused(text, [](R& r) { r.owner = 1; }, "owner is 1");
  ExpectRegionRefused(text, [](R& r) { r.lease_deadline_unix_ns = 1; }, "lease_deadline_unix_ns");
  ExpectRegionRefused(text, [](R& r) { r.lease_id[3] = 'x'; }, "names a client");
  ExpectRegionRefused(text, [](R& r) { r.road = 1; }, "road is 1");
  ExpectRegionRefused(text, [](R& r) { r.request_id = 1; }, "request_id is 1");
  ExpectRegionRefused(text, [](R& r) { r.endpoint = 1; }, "endpoint is 1");
  ExpectRegionRefused(text, [](R& r) { r.hold_until_unix_ns = 1; }, "hold_until_unix_ns is 1");
  ExpectRegionRefused(text, [](R& r) { r.reserved[3] = 1; }, "reserved");
  const R cut = ClientCutRegion();
  ExpectRegionRefused(cut, [](R& r) { r.page_bytes = 512; }, "page_bytes");
  ExpectRegionRefused(cut, [](R& r) { r.owner = 1ull << 32; }, "owner");
  ExpectRegionRefused(cut, [](R& r) { r.instance_id[5] = 'x'; }, "instance_id is no text");
  ExpectRegionRefused(
      cut, [](R& r) { std::memset(r.lease_id, 'x', sizeof(r.lease_id)); }, "lease_id is no text");
  ExpectRegionRefused(cut, [](R& r) { r.road = 2; }, "road is 2");
  ExpectRegionRefused(cut, [](R& r) { r.request_id = 7; }, "request_id is 7");
  ExpectRegionRefused(
      cut,
      [](R& r) {
        r.road = 1;
        r.endpoint = 7;
      },
      "endpoint is 7");
}

TEST(ValidatePageRecord, AcceptsEveryStateAndNamesWhatIsWrong) {
  using P = PageValues;
  EXPECT_TRUE(ValidatePageRecord(PageValues{}, kPoolBytes).ok());
  PageValues free{};
  free.state_word = StateWord::Make(PageState::kFree, Generation(1)).bits();
  free.text_offset = 3;  // of a key that is gone
  free.region_slot = 1ull << 32;
  free.owner = 1ull << 40;
  EXPECT_TRUE(ValidatePageRecord(free, kPoolBytes).ok());
  ExpectPageRefused([](P& p) { p.state_word = 0xF000000010000000; }, "state_word");
  ExpectPageRefused([](P& p) { p.region_slot = kRegionSlotsMax; }, "region_slot");
  ExpectPageRefused([](P& p) { p.key_sizes = 70000; }, "key_sizes is 70000");
  ExpectPageRefused([](P& p) { p.text_offset = 0; }, "text_offset is 0");
  ExpectPageRefused([](P& p) { p.text_offset = 0x400004; }, "key text");
  ExpectPageRefused([](P& p) { p.text_offset = 8; }, "key text");
  ExpectPageRefused([](P& p) { p.text_offset = kPoolBytes - 8; }, "key text of 15 bytes");
  ExpectPageRefused([](P& p) { p.length_bytes = kPoolBytes + 1; }, "length_bytes");
  ExpectPageRefused([](P& p) { p.extent_offset_bytes = kPoolBytes + 1; }, "extent_offset_bytes");
  ExpectPageRefused([](P& p) { p.owner = 1ull << 40; }, "owner");
  ExpectPageRefused([](P& p) { p.last_use = ~0ull; }, "last_use");
  ExpectPageRefused([](P& p) { p.reserved[0] = 1; }, "reserved");
}

TEST(ValidateRoot, NamesTheWordThatIsWrong) {
  using R = RootValues;
  RootValues fresh{};  // never served
  fresh.table_word = TableWord::Make(0, TableWord::kNone, TableWord::kNone).bits();
  EXPECT_TRUE(ValidateRoot(fresh, kPoolBytes).ok());
  ExpectRootRefused([](R& r) { r.reserved[51] = 1; }, "reserved");
  ExpectRootRefused([](R& r) { r.reserved_tail[0] = 1; }, "reserved");
  ExpectRootRefused([](R& r) { r.record_high = 1ull << 32; }, "record_high");
  ExpectRootRefused([](R& r) { r.next_region_ordinal = 2 << 20; }, "next_region_ordinal");
  ExpectRootRefused([](R& r) { r.next_client_id = 1ull << 33; }, "next_client_id");
  ExpectRootRefused([](R& r) { r.use_tick = ~0ull; }, "use_tick");
  ExpectRootRefused([](R& r) { r.clean = 2; }, "clean is 2");
  ExpectRootRefused([](R& r) { r.region_slots_high = 526337; }, "region_slots_high");
  ExpectRootRefused([](R& r) { r.table_word = TableWord::Make(5, 255, 64).bits(); },
                    "current table is 64");
  ExpectRootRefused([](R& r) { r.table_word = TableWord::Make(5, 1, 1).bits(); }, "old table is 1");
  ExpectRootRefused([](R& r) { r.table_word = TableWord::Make(5, 2, 1).bits(); }, "old table 2");
  ExpectRefused<R, uint64_t>(
      ValidateRoot, fresh, [](R& r) { r.table_word = TableWord::Make(5, 255, 64).bits(); },
      "current table is 64", kPoolBytes);
  ExpectRootRefused([](R& r) { r.tables[1] = TableDescriptor::Make(0, 18).bits(); },
                    "current table 1 has 18 index bits");
}

TEST(ValidateClientRecord, NamesTheFieldThatIsWrong) {
  ClientValues good{};
  good.label[0] = 'a';
  EXPECT_TRUE(ValidateClientRecord(good).ok());  // free
  good.client_id = 1;
  using C = ClientValues;
  const auto refused = [&](std::function<void(C&)> change, const char* part) {
    ExpectRefused<C>(ValidateClientRecord, good, change, part);
  };
  refused([](C& c) { c.client_id = 1ull << 32; }, "client_id");
  refused([](C& c) { c.label[63] = 'x'; }, "label is no text");
  refused([](C& c) { c.reserved[3] = 1; }, "reserved");
}

TEST(ValidateBlockOwner, NamesTheFieldThatIsWrong) {
  EXPECT_TRUE(ValidateBlockOwner(BlockOwner(), 0).ok());
  EXPECT_TRUE(ValidateBlockOwner(BlockOwner::Make(1, 1023, 4096), 63).ok());
  const auto refused = [](BlockOwner owner, uint32_t block, const char* part) {
    EXPECT_THAT(std::string(ValidateBlockOwner(owner, block).message()), HasSubstr(part));
  };
  refused(BlockOwner::Make(1, 0, 0), 0, "block 0");
  refused(BlockOwner::Make(0, 1, 0), 1, "client id is 0");
  refused(BlockOwner::Make(1, 1024, 0), 1, "client slot is 1024");
  refused(BlockOwner::Make(1, 0, 4097), 1, "ordinal is 4097");
}

// Whatever a validator lets through keeps the promises that its callers rely on.
TEST(ValidateRegionRecord, WhatPassesLiesInThePool) {
  Random random(3);
  int passed = 0;
  for (int i = 0; i < 200'000; ++i) {
    RegionValues record = random.OneIn(2) ? PagesRegion() : ClientCutRegion();
    auto* const words = reinterpret_cast<uint64_t*>(&record);
    for (uint64_t changes = random.Below(3); changes > 0; --changes) {
      const uint64_t bit = 1ull << random.Below(64);
      words[random.Below(8)] = random.OneIn(2) ? bit : bit - 1;
    }
    if (!ValidateRegionRecord(record, kPoolBytes).ok()) continue;
    if (RegionWord(record.word).kind() == RegionKind::kNone) continue;
    ++passed;
    ASSERT_GE(record.offset_bytes, kHeadBytes);
    ASSERT_LE(record.length_bytes, kPoolBytes);
    ASSERT_LE(record.offset_bytes + record.length_bytes, kPoolBytes);
    ASSERT_LE(record.page_bytes * RegionPageCount(record.pages), record.length_bytes);
  }
  EXPECT_GT(passed, 1000);
}

}  // namespace
}  // namespace maru::layout
