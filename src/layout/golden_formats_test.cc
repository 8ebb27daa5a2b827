// The bytes of each format of a pool, written out by hand; docs/formats/ shows the same ones.
#include <memory>

#include "layout/client.h"
#include "layout/golden_test.h"
#include "layout/index.h"
#include "layout/lease_area.h"
#include "layout/page_record.h"
#include "layout/region.h"
#include "layout/state_word.h"
#include "layout/superblock.h"

namespace maru::layout {
namespace {

constexpr uint64_t kUnixNs = 1'700'000'000'000'000'000;  // 0x17979cfe362a0000

template <size_t kCount>
void SetText(uint8_t (&to)[kCount], std::string_view text) {
  std::ranges::copy(text, to);
}

// Zeroed and in its place, as shared memory holds it.
template <typename T>
std::unique_ptr<T> Zeroed() {
  return std::unique_ptr<T>(new T());
}

TEST(GoldenFormats, Superblock) {
  const Uuid uuid = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                     0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
  const Superblock block = MakeSuperblock(uuid, 64 << 20, kFlagChecksums, 5 << 20, kUnixNs);
  ExpectGolden(BytesOf(block), R"(
      0000: 4d 41 52 55 44 45 56 00  01 00 00 00 00 11 22 33
      0010: 44 55 66 77 88 99 aa bb  cc dd ee ff 00 00 00 00
      0020: 4d 41 52 55 50 4f 4f 4c  01 00 00 00 00 02 00 00
      0030: 00 00 00 04 00 00 00 00  01 00 00 00 00 00 00 00
      0040: 00 00 2a 36 fe 9c 97 17  00 00 50 00 00 04 00 00
      0050: 00 00 20 00 00 00 00 00
      01f8: 1e 1f fa d6 51 8c 3e fd
      0200:)",
               "superblock.md", "superblock");
}

TEST(GoldenFormats, Root) {
  const auto root = Zeroed<Root>();
  root->epoch = 0x1122334455667788;
  root->table_word = TableWord::Make(5, TableWord::kNone, 1).bits();
  root->record_high = 65;
  root->next_region_ordinal = 4;
  root->next_client_id = 10;
  root->clean = 1;
  root->boot_id[0] = 0x0102030405060708;
  root->boot_id[1] = 0x090a0b0c0d0e0f10;
  root->starts = 2;
  root->region_slots_high = 6;
  root->use_tick = 43;
  root->lapsed_count = 258;
  root->lapsed_leases[1] = 0x1f2e3d4c5b6a7988;
  root->tables[1] = TableDescriptor::Make(0x600000, 18).bits();
  ExpectGolden(BytesOf(*root), R"(
      0000: 88 77 66 55 44 33 22 11  01 ff 05 00 00 00 00 00
      0010: 41 00 00 00 00 00 00 00  04 00 00 00 00 00 00 00
      0020: 0a 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00
      0030: 08 07 06 05 04 03 02 01  10 0f 0e 0d 0c 0b 0a 09
      0040: 02 00 00 00 00 00 00 00  06 00 00 00 00 00 00 00
      0050: 2b 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00
      0208: 12 00 60 00 00 00 00 00
      0408: 88 79 6a 5b 4c 3d 2e 1f
      1000:)",
               "superblock.md", "root");
}

TEST(GoldenFormats, RegionRecordOfPages) {
  const auto record = Zeroed<RegionRecord>();
  record->offset_bytes = 0xC00000;
  record->length_bytes = 0x2000000;
  record->page_bytes = 0x100000;
  record->pages = PackRegionPages(32, 1);
  record->region_id = 0x500003;
  record->word = RegionWord::Make(RegionKind::kPages, 2).bits();
  ExpectGolden(BytesOf(*record), R"(
      0000: 01 00 00 00 02 00 00 00  00 00 c0 00 00 00 00 00
      0010: 00 00 00 02 00 00 00 00  00 00 10 00 00 00 00 00
      0020: 20 00 00 00 01 00 00 00  03 00 50 00 00 00 00 00
      0100:)",
               "region_table.md", "pages");
}

TEST(GoldenFormats, RegionRecordOfAClientCutRegion) {
  const auto record = Zeroed<RegionRecord>();
  record->offset_bytes = 0x2C00000;
  record->length_bytes = 0x400000;
  record->region_id = 0x500004;
  record->owner = 9;
  record->lease_deadline_unix_ns = kUnixNs;
  SetText(record->instance_id, "prefill-0");
  SetText(record->lease_id, "lease-17");
  record->road = static_cast<uint8_t>(RegionRoad::kMetadata);
  record->endpoint = 0x7a5cf3d6e1b40928;
  record->hold_until_unix_ns = kUnixNs;
  record->word = RegionWord::Make(RegionKind::kClientCut, 1).bits();
  ExpectGolden(BytesOf(*record), R"(
      0000: 02 00 00 00 01 00 00 00  00 00 c0 02 00 00 00 00
      0010: 00 00 40 00 00 00 00 00  00 00 00 00 00 00 00 00
      0020: 00 00 00 00 00 00 00 00  04 00 50 00 00 00 00 00
      0030: 09 00 00 00 00 00 00 00  00 00 2a 36 fe 9c 97 17
      0040: 70 72 65 66 69 6c 6c 2d  30
      0080: 6c 65 61 73 65 2d 31 37
      00d0: 28 09 b4 e1 d6 f3 5c 7a  00 00 2a 36 fe 9c 97 17
      0100:)",
               "region_table.md", "client-cut");
}

TEST(GoldenFormats, RegionRecordOfTheResourceManager) {
  const auto record = Zeroed<RegionRecord>();
  record->offset_bytes = 0x2C00000;
  record->length_bytes = 0x400000;
  record->region_id = 0x500005;
  record->owner = 10;
  SetText(record->instance_id, "node-4:6943");
  record->road = static_cast<uint8_t>(RegionRoad::kResourceManager);
  record->request_id = 0x0102;
  record->word = RegionWord::Make(RegionKind::kClientCut, 1).bits();
  ExpectGolden(BytesOf(*record), R"(
      0000: 02 00 00 00 01 00 00 00  00 00 c0 02 00 00 00 00
      0010: 00 00 40 00 00 00 00 00  00 00 00 00 00 00 00 00
      0020: 00 00 00 00 00 00 00 00  05 00 50 00 00 00 00 00
      0030: 0a 00 00 00 00 00 00 00
      0040: 6e 6f 64 65 2d 34 3a 36  39 34 33
      00c0: 01 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00
      0100:)",
               "region_table.md", "client-cut-rm");
}

TEST(GoldenFormats, RegionDirectory) {
  const auto directory = Zeroed<RegionDirectory>();
  directory->units[0] = 5;
  directory->units[1] = 0x0102;
  ExpectGolden(BytesOf(*directory), R"(
      0000: 05 00 00 00 00 00 00 00  02 01 00 00 00 00 00 00
      1000:)",
               "region_table.md", "directory");
}

TEST(GoldenFormats, PageRecord) {
  const auto record = Zeroed<PageRecord>();
  record->hash_low = 0x1122334455667788;
  record->hash_high = 0xaabbccdd99aaeeff;
  record->text_offset = 0x400008;
  record->key_sizes = KeySizes{11, 4}.Pack();
  record->length_bytes = 0xC0000;
  record->region_slot = 5;
  record->checksum = 0xfedcba9876543210;
  record->last_use = 42;
  record->owner = 3;
  record->global_pins = 1;
  record->hold_until_unix_ns = kUnixNs;
  record->state_word = StateWord::Make(PageState::kLive, Generation(7)).bits();
  ExpectGolden(BytesOf(*record), R"(
      0000: 00 00 00 70 00 00 00 30  88 77 66 55 44 33 22 11
      0010: ff ee aa 99 dd cc bb aa  08 00 40 00 00 00 00 00
      0020: 0b 00 00 00 04 00 00 00  00 00 0c 00 00 00 00 00
      0030: 05 00 00 00 00 00 00 00  10 32 54 76 98 ba dc fe
      0040: 2a 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00
      0050: 01 00 00 00 00 00 00 00  00 00 2a 36 fe 9c 97 17
      0080:)",
               "page_record.md", "record");
}

TEST(GoldenFormats, PageRecordOfAnExtent) {
  const auto record = Zeroed<PageRecord>();
  record->hash_low = 0x1122334455667788;
  record->hash_high = 0xaabbccdd99aaeeff;
  record->text_offset = 0x400008;
  record->key_sizes = KeySizes{11, 4}.Pack();
  record->length_bytes = 0xC0000;
  record->region_slot = 6;
  record->extent_offset_bytes = 0x123456;
  record->state_word = StateWord::Make(PageState::kLive, Generation(7)).bits();
  ExpectGolden(BytesOf(*record), R"(
      0000: 00 00 00 70 00 00 00 30  88 77 66 55 44 33 22 11
      0010: ff ee aa 99 dd cc bb aa  08 00 40 00 00 00 00 00
      0020: 0b 00 00 00 04 00 00 00  00 00 0c 00 00 00 00 00
      0030: 06 00 00 00 00 00 00 00
      0060: 56 34 12 00 00 00 00 00
      0080:)",
               "page_record.md", "extent");
}

TEST(GoldenFormats, StateWordOfAGrantedPage) {
  const uint64_t word =
      StateWord::Make(PageState::kGranted, Generation(0x89abcdef), ClientSlot(0x0123)).bits();
  ExpectGolden(BytesOf(word), "0000: 23 01 00 f0 de bc 9a 28", "page_record.md", "granted");
}

TEST(GoldenFormats, RecordDirectory) {
  const auto directory = Zeroed<RecordDirectory>();
  directory->units[0] = 1;
  directory->units[1] = 0x010203;
  ExpectGolden(BytesOf(*directory), R"(
      0000: 01 00 00 00 03 02 01 00
      100000:)",
               "page_record.md", "directory");
}

TEST(GoldenFormats, IndexEntries) {
  const Hash128 hash{0x1122334455667788, 0xaabbccdd99aaeeff};
  const uint64_t entries[3] = {IndexEntry::Make(hash, RecordNumber(0x00010203)).bits(),
                               IndexEntry::kTombstone, IndexEntry::kEmpty};
  ExpectGolden(BytesOf(entries), R"(
      0000: 03 02 01 00 dd cc bb aa  ff ff ff ff 00 00 00 00
      0018:)",
               "index.md", "entries");
  EXPECT_EQ(IndexEntry::Home(hash, 1 << 18), 0x27788u);
}

TEST(GoldenFormats, TableWordAndDescriptor) {
  const uint64_t words[2] = {TableWord::Make(0x060504030201, 2, 3).bits(),
                             TableDescriptor::Make(0x123456000000, 21).bits()};
  ExpectGolden(BytesOf(words), R"(
      0000: 03 02 01 02 03 04 05 06  15 00 00 56 34 12 00 00
      0010:)",
               "index.md", "words");
}

TEST(GoldenFormats, ClientRecord) {
  const auto record = Zeroed<ClientRecord>();
  record->process = uint64_t{1000} << 32 | 4242;
  record->attached_unix_ns = kUnixNs;
  record->budget_bytes = 1 << 30;
  SetText(record->label, "decode-1");
  record->client_id = 9;
  ExpectGolden(BytesOf(*record), R"(
      0000: 09 00 00 00 00 00 00 00  92 10 00 00 e8 03 00 00
      0010: 00 00 2a 36 fe 9c 97 17  00 00 00 40 00 00 00 00
      0020: 64 65 63 6f 64 65 2d 31
      0080:)",
               "lease_area.md", "client");
}

TEST(GoldenFormats, LeaseDirectory) {
  const auto directory = Zeroed<LeaseDirectory>();
  directory->owners[1] = BlockOwner::Make(9, 0x0102, 0).bits();
  directory->owners[2] = BlockOwner::Make(9, 0x0102, 1).bits();
  directory->owners[63] = BlockOwner::Make(0x0a0b0c0d, 3, 0x1000).bits();
  ExpectGolden(BytesOf(*directory), R"(
      0008: 00 00 02 01 09 00 00 00  01 00 02 01 09 00 00 00
      01f8: 00 10 03 00 0d 0c 0b 0a
      8000:)",
               "lease_area.md", "directory");
}

TEST(GoldenFormats, LeaseHeader) {
  const auto header = Zeroed<LeaseHeader>();
  header->slots_high = 3;
  header->touch_head = 4098;
  header->free_pages = 16;
  header->pending_pages = 1;
  header->held_pages = 2;
  header->last_request = 77;
  header->recall = 8;
  header->touches[0] = 0x21;
  header->touches[1] = 0x22;
  header->touches[kTouchRingEntries - 1] = 0x01020304;
  ExpectGolden(BytesOf(*header), R"(
      0000: 03 00 00 00 00 00 00 00  02 10 00 00 00 00 00 00
      0010: 10 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00
      0020: 02 00 00 00 00 00 00 00  4d 00 00 00 00 00 00 00
      0040: 08 00 00 00 00 00 00 00
      0080: 21 00 00 00 22 00 00 00
      407c: 04 03 02 01
      8000:)",
               "lease_area.md", "header");
}

TEST(GoldenFormats, SlotWords) {
  const auto slots = Zeroed<LeaseSlots>();
  slots->slots[0] =
      SlotWord::Make(RecordNumber(0x21), Generation(7), SlotWord::Kind::kLease).bits();
  slots->slots[2] =
      SlotWord::Make(RecordNumber(0x01020304), Generation(kGenerationMax), SlotWord::Kind::kPin)
          .bits();
  ExpectGolden(BytesOf(*slots), R"(
      0000: 0e 00 00 00 21 00 00 00
      0010: ff ff ff ff 04 03 02 01
      8000:)",
               "lease_area.md", "slots");
}

TEST(GoldenFormats, HeadOfAPool) {
  EXPECT_EQ(kRootOffset, 0x1000u);
  EXPECT_EQ(kRegionDirectoryOffset, 0x2000u);
  EXPECT_EQ(kClientTableOffset, 0x10000u);
  EXPECT_EQ(kLivenessOffset, 0x30000u);
  EXPECT_EQ(kServerLivenessOffset, 0x30400u);
  EXPECT_EQ(kNamespaceTableOffset, 0x40000u);
  EXPECT_EQ(kReplicaTableOffset, 0x50000u);
  EXPECT_EQ(kRegionTableOffset, 0x80000u);
  EXPECT_EQ(kRecordDirectoryOffset, 0x100000u);
  EXPECT_EQ(kUnitBytes, 0x200000u);
}

}  // namespace
}  // namespace maru::layout
