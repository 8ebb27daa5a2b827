// Opening a catalogue of which any words were changed: it is refused with DataLoss and left as it
// is, or opened, and then records, text and index agree and the writer works. The input is a list
// of (place, word, value): one byte which part, two bytes which word of it, eight bytes its value.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/test_writer.h"

namespace {

using maru::ByteReader;
using maru::ClientSlot;
using maru::Generation;
using maru::RecordNumber;
using maru::RegionSlot;
using maru::catalogue::Damage;
using maru::catalogue::MakeKeyRef;
using maru::catalogue::Namespace;
using maru::catalogue::NumberedKey;
using maru::catalogue::TestWriter;
namespace layout = maru::layout;

constexpr uint32_t kPages = 24;
constexpr int kChangesMax = 64;

RecordNumber Page(RecordNumber first, uint32_t i) { return RecordNumber(first.value() + i); }

// Where the parts lie, found before any of them is changed.
struct Places {
  uint64_t records = 0;
  uint64_t text = 0;
};

Places FillPool(TestWriter& test) {
  const RecordNumber first = test.Cut(kPages);
  const Namespace space("fuzz");
  for (uint32_t i = 0; i < kPages / 2; ++i) {
    const std::string text = NumberedKey(i);
    MARU_CHECK_OK(test.Put(Page(first, i), MakeKeyRef(space, text)));
  }
  test->Retire(Page(first, 0));
  test->Retire(Page(first, 1));
  test->Condemn(Page(first, 1));
  Generation generation;
  MARU_CHECK(test->Grant(Page(first, kPages - 1), ClientSlot(1), &generation));
  MARU_CHECK(test->Grant(Page(first, kPages - 2), ClientSlot(1), &generation));
  test->Quarantine(Page(first, kPages - 2));
  const RegionSlot cut = test.CutClient(layout::kUnitBytes);
  for (uint32_t i = 0; i < 3; ++i) {
    const std::string text = NumberedKey(kPages + i);
    const auto extent = test->RegisterExtent(
        MakeKeyRef(space, text),
        {.region = cut, .offset_bytes = uint64_t{i} * 4096, .length_bytes = 4096});
    MARU_CHECK_OK(extent.status());
    if (i > 0) test->Retire(*extent);
    if (i > 1) test->Condemn(*extent);
  }
  const auto* record = reinterpret_cast<const std::byte*>(&test.pool().Record(first));
  return {static_cast<uint64_t>(record - test.pool().base()),
          test.pool().Record(Page(first, 2)).text_offset.load()};
}

void Change(TestWriter& test, const Places& places, ByteReader& input) {
  const uint8_t part = input.U8();
  const uint64_t word = input.U16();
  const uint64_t value = input.U64();
  if (!input.ok()) return;
  uint64_t at = 0;
  switch (part % 5) {
    case 0:  // a record
      at = places.records + word % ((kPages + 3) * sizeof(layout::PageRecord) / 8) * 8;
      break;
    case 1: at = layout::kRootOffset + word % 512 * 8; break;
    case 2: at = layout::kRegionTableOffset + word % (8 * 32) * 8; break;
    case 3: at = layout::kRecordDirectoryOffset + word % 4 * 8; break;
    default:  // key text
      at = places.text + word % 64 * 8;
  }
  test.pool().Word(at).store(value);
}

void CheckWorks(TestWriter& test) {
  MARU_CHECK_EQ(test.Audit(), "");
  const auto first = test->AllocateRecords(2);
  if (!first.ok()) return;
  const auto room = test.pool().CarvePages(TestWriter::kPageBytes, 2, *first);
  if (!room.ok()) return;
  test->BindRecords(*first, 2, room->slot);
  if (test->State(*first).state() != layout::PageState::kFree) return;  // WORN
  if (test->State(*first).generation().value() >= layout::kGenerationMax - 1) return;
  const Namespace space("after");
  (void)test.Put(*first, MakeKeyRef(space, "key"));
  MARU_CHECK_EQ(test.Audit(), "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteReader input(std::as_bytes(std::span(data, size)));
  TestWriter test(layout::kPoolBytesMin);
  const Places places = FillPool(test);
  const Damage damage = input.U8() % 2 == 0 ? Damage::kRefuse : Damage::kDrop;
  for (int i = 0; i < kChangesMax && input.remaining() > 0; ++i) Change(test, places, input);
  const maru::Status opened = test.TryOpen(damage);
  if (opened.ok()) {
    CheckWorks(test);
  } else {
    MARU_CHECK(opened.code() == maru::StatusCode::kDataLoss ||
               opened.code() == maru::StatusCode::kResourceExhausted)
        << opened.ToString();
  }
  return 0;
}
