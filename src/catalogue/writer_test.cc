#include "catalogue/writer.h"

#include <gtest/gtest.h>

#include <string>

#include "catalogue/reader.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

using layout::PageState;

constexpr uint64_t kPoolBytes = 64ull << 20;

PageState StateOf(TestWriter& test, RecordNumber record) { return test->State(record).state(); }

TEST(Writer, ARecordGoesThroughItsLife) {
  TestWriter test(kPoolBytes);
  const RecordNumber record = test.Cut(4);
  EXPECT_EQ(test->State(record), layout::StateWord::Make(PageState::kFree, Generation(1)));
  Generation generation;
  ASSERT_TRUE(test->Grant(record, ClientSlot(9), &generation));
  EXPECT_EQ(generation, Generation(2));
  EXPECT_EQ(test->State(record).client(), ClientSlot(9));
  ASSERT_TRUE(test->Renew(record, ClientId(5), &generation));
  EXPECT_EQ(generation, Generation(3));
  EXPECT_EQ(test->State(record).client(), ClientSlot(9));

  const Namespace name_space("tenant");
  const KeyRef key = MakeKeyRef(name_space, "prefix/0");
  ASSERT_TRUE(test->Register(record, key, {.length_bytes = 300, .checksum = 11}).ok());
  EXPECT_EQ(test->State(record), layout::StateWord::Make(PageState::kLive, Generation(3)));
  Writer::Hit hit;
  ASSERT_TRUE(test->Lookup(key, &hit));
  EXPECT_EQ(hit.record, record);
  EXPECT_EQ(test->KeyOf(record).key, "prefix/0");
  EXPECT_EQ(test->KeyOf(record).name_space, "tenant");
  Found found;
  EXPECT_EQ(Reader(test->view()).Find(key, &found), FindVerdict::kLive);
  EXPECT_EQ(found.record, record);
  EXPECT_EQ(found.generation, Generation(3));
  EXPECT_EQ(found.length_bytes, 300u);
  EXPECT_EQ(found.checksum, 11u);

  test->Retire(record);
  EXPECT_EQ(Reader(test->view()).Find(key, &found), FindVerdict::kRetiring);
  EXPECT_TRUE(test->Lookup(key, &hit));
  test->Revert(record);
  EXPECT_EQ(test->State(record), layout::StateWord::Make(PageState::kLive, Generation(3)));
  test->Retire(record);
  test->Condemn(record);
  EXPECT_FALSE(test->Lookup(key, &hit));
  EXPECT_EQ(Reader(test->view()).Find(key, &found), FindVerdict::kMiss);
  EXPECT_EQ(StateOf(test, record), PageState::kCondemned);
  test->Free(record);
  EXPECT_EQ(test->State(record), layout::StateWord::Make(PageState::kFree, Generation(3)));
  EXPECT_EQ(test->usage().text_bytes_used, 0u);
  EXPECT_EQ(test.Audit(), "");
}

TEST(Writer, GrantsComeBackThroughQuarantineOrAtOnce) {
  TestWriter test(kPoolBytes);
  const RecordNumber record = test.Cut(1);
  Generation generation;
  ASSERT_TRUE(test->Grant(record, ClientSlot(1), &generation));
  test->GiveBack(record);
  EXPECT_EQ(test->State(record), layout::StateWord::Make(PageState::kFree, Generation(2)));
  ASSERT_TRUE(test->Grant(record, ClientSlot(1), &generation));
  test->Quarantine(record);
  EXPECT_EQ(StateOf(test, record), PageState::kQuarantined);
  test->EndQuarantine(record);
  EXPECT_EQ(StateOf(test, record), PageState::kFree);
  ASSERT_TRUE(test->Grant(record, ClientSlot(1), &generation));
  test->Quarantine(record);
  ASSERT_TRUE(test->Grant(record, ClientSlot(2), &generation));  // used last, but used
  EXPECT_EQ(generation, Generation(5));
}

TEST(Writer, APageAtItsLastGenerationIsWornOnEveryWay) {
  TestWriter test(kPoolBytes);
  const RecordNumber first = test.Cut(8);
  const auto at_last = [&](uint32_t i, PageState state) {
    const RecordNumber record(first.value() + i);
    test.pool().Record(record).state_word.store(
        layout::StateWord::Make(state, Generation(layout::kGenerationMax)).bits());
    return record;
  };
  Generation generation;
  EXPECT_FALSE(test->Grant(at_last(0, PageState::kFree), ClientSlot(1), &generation));
  EXPECT_FALSE(test->Grant(at_last(1, PageState::kQuarantined), ClientSlot(1), &generation));
  EXPECT_FALSE(test->Renew(at_last(2, PageState::kGranted), ClientId(5), &generation));
  test->GiveBack(at_last(3, PageState::kGranted));
  test->EndQuarantine(at_last(4, PageState::kQuarantined));
  test->Free(at_last(5, PageState::kCondemned));
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(StateOf(test, RecordNumber(first.value() + i)), PageState::kWorn) << i;
  }
  // Worn pages stay worn through another cut of their numbers.
  test.pool().Region(RegionSlot(test.pool().Record(first).region_slot.load())).word.store(0);
  test->ReleaseRecords(first, 8);
  EXPECT_EQ(StateOf(test, RecordNumber(first.value() + 7)), PageState::kAbsent);
  EXPECT_EQ(test.Cut(8), first);
  EXPECT_EQ(StateOf(test, first), PageState::kWorn);
  EXPECT_EQ(StateOf(test, RecordNumber(first.value() + 7)), PageState::kFree);
}

TEST(Writer, GenerationsGoOnThroughANewCut) {
  TestWriter test(kPoolBytes);
  const RecordNumber first = test.Cut(3);
  Generation generation;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(test->Grant(first, ClientSlot(1), &generation));
    test->GiveBack(first);
  }
  test.pool().Region(RegionSlot(test.pool().Record(first).region_slot.load())).word.store(0);
  test->ReleaseRecords(first, 3);
  test.Reopen();
  ASSERT_EQ(test.Cut(2), first);
  ASSERT_TRUE(test->Grant(first, ClientSlot(1), &generation));
  EXPECT_EQ(generation, Generation(7));
}

TEST(Writer, KeysOfEveryLengthAreStoredWhole) {
  TestWriter test(kPoolBytes);
  const RecordNumber first = test.Cut(64);
  const std::string longest(layout::kKeyBytesMax, 'k');
  const Namespace names[] = {Namespace(), Namespace("n"),
                             Namespace(std::string(layout::kNamespaceBytesMax, 'n'))};
  uint32_t next = 0;
  for (const Namespace& name : names) {
    for (const size_t length :
         {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{255}, size_t{256},
          size_t{257}, size_t{511}, size_t{1000}, longest.size()}) {
      const KeyRef key = MakeKeyRef(name, std::string_view(longest).substr(0, length));
      const RecordNumber record(first.value() + next++);
      ASSERT_TRUE(test.Put(record, key).ok());
      EXPECT_EQ(test->KeyOf(record).key, key.key);
      EXPECT_EQ(test->KeyOf(record).name_space, key.name_space);
      Found found;
      ASSERT_EQ(Reader(test->view()).Find(key, &found), FindVerdict::kLive) << length;
      EXPECT_EQ(found.record, record);
    }
  }
  EXPECT_EQ(test.Audit(), "");
  test.Reopen();
  EXPECT_EQ(test.summary().live, next);
  EXPECT_EQ(test.Audit(), "");
}

TEST(Writer, WithoutRoomForTextAPageStaysAsItWas) {
  TestWriter test(layout::kPoolBytesMin);
  const RecordNumber first = test.Cut(600);
  const std::string text(layout::kKeyBytesMax - 8, 't');
  Namespace none;
  uint32_t stored = 0;
  for (; stored < 600; ++stored) {
    const RecordNumber record(first.value() + stored);
    Generation generation;
    ASSERT_TRUE(test->Grant(record, ClientSlot(1), &generation));
    const layout::StateWord before = test->State(record);
    const std::string key = text + std::to_string(stored);
    const Status status = test->Register(record, MakeKeyRef(none, key), {});
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(test->State(record), before);
    break;
  }
  ASSERT_LT(stored, 600u);
  EXPECT_EQ(test->usage().index_entries, stored);
  EXPECT_EQ(test.Audit(), "");
  // One goes, one comes.
  test.Delete(first);
  ASSERT_TRUE(
      test->Register(RecordNumber(first.value() + stored), MakeKeyRef(none, text), {}).ok());
}

TEST(Writer, UnknownRecordsAreAbsent) {
  TestWriter test(kPoolBytes);
  EXPECT_EQ(test->State(RecordNumber(0)), layout::StateWord());
  EXPECT_EQ(test->State(RecordNumber(77)), layout::StateWord());
  EXPECT_EQ(test->State(RecordNumber(0xFFFFFFFF)), layout::StateWord());
}

class Thrown {};
void Throw(const CheckFailure&) { throw Thrown(); }

TEST(Writer, TransitionsFromAnotherStateAreOurOwnBug) {
  TestWriter test(kPoolBytes);
  const RecordNumber record = test.Cut(2);
  const CheckHandler before = SetCheckHandler(Throw);
  Generation generation;
  EXPECT_THROW(test->Renew(record, ClientId(5), &generation), Thrown);
  EXPECT_THROW(test->GiveBack(record), Thrown);
  EXPECT_THROW(test->Quarantine(record), Thrown);
  EXPECT_THROW(test->EndQuarantine(record), Thrown);
  EXPECT_THROW(test->Retire(record), Thrown);
  EXPECT_THROW(test->Revert(record), Thrown);
  EXPECT_THROW(test->Condemn(record), Thrown);
  EXPECT_THROW(test->Free(record), Thrown);
  EXPECT_THROW(test->KeyOf(record), Thrown);
  EXPECT_THROW((void)test->Register(record, MakeKeyRef(Namespace(), "k"), {}), Thrown);
  EXPECT_THROW(test->BindRecords(record, 1, RegionSlot(1)), Thrown);
  EXPECT_THROW(test->GiveBack(RecordNumber(12345)), Thrown);
  ASSERT_TRUE(test->Grant(record, ClientSlot(1), &generation));
  EXPECT_THROW(test->Grant(record, ClientSlot(1), &generation), Thrown);
  EXPECT_THROW(test->ReleaseRecords(record, 2), Thrown);
  SetCheckHandler(before);
}

}  // namespace
}  // namespace maru::catalogue
