#include "layout/validate.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "layout/describe.h"
#include "layout/text.h"
#include "maru/result.h"

namespace maru::layout {
namespace {

constexpr uint64_t kBits32Max = 0xFFFFFFFF;

Status Bad(std::string_view what, std::string_view field, uint64_t value,
           std::string_view expected) {
  return DataLoss(
      Concat(what, ": ", field, " is ", value, " (", Hex{value}, "), expected ", expected));
}

template <typename Values>
bool ReservedZero(const Values& values) {
  return std::ranges::all_of(values, [](uint64_t word) { return word == 0; });
}

// Zero-padded: nothing after the first zero byte, and at least one of them.
bool PaddedText(const uint8_t (&text)[kLabelBytes]) {
  const auto* const end = std::ranges::find(text, uint8_t{0});
  return end != std::end(text) &&
         std::all_of(end, std::end(text), [](uint8_t c) { return c == 0; });
}

Status CheckTables(const RootValues& root, uint64_t pool_bytes) {
  const TableWord word(root.table_word);
  for (const auto& [field, table] :
       {std::pair{"current table", word.current()}, std::pair{"old table", word.old_table()}}) {
    if (table == TableWord::kNone) continue;
    if (table >= kIndexTables) return Bad("root", field, table, "below 64, or 255 for none");
    const TableDescriptor place(root.tables[table]);
    if (!place.Valid(pool_bytes)) {
      return DataLoss(Concat("root: ", field, " ", table, " has ", place.entries_log2(),
                             " index bits at offset ", Hex{place.offset_bytes()},
                             ", which is no table in a pool of ", pool_bytes, " bytes"));
    }
  }
  if (word.current() != TableWord::kNone && word.current() == word.old_table()) {
    return Bad("root", "old table", word.old_table(), "another one than the current");
  }
  return OkStatus();
}

Status CheckPlace(const RegionValues& record, std::string_view what, uint64_t pool_bytes) {
  const RegionWord word(record.word);
  if (word.bits() != RegionWord::Make(word.kind(), word.cut()).bits()) {
    return Bad(what, "word", record.word, "reserved bits zero");
  }
  if (word.cut() == 0) return Bad(what, "cut", 0, "1 or more");
  if (!IsAligned(record.offset_bytes, kUnitBytes) || record.offset_bytes < kHeadBytes) {
    return Bad(what, "offset_bytes", record.offset_bytes, "a multiple of 2 MiB behind the head");
  }
  if (!IsAligned(record.length_bytes, kUnitBytes) || record.length_bytes == 0) {
    return Bad(what, "length_bytes", record.length_bytes, "a multiple of 2 MiB, not 0");
  }
  if (!RangeFits(record.offset_bytes, record.length_bytes, pool_bytes)) {
    return DataLoss(Concat(what, ": ", record.length_bytes, " bytes at offset ",
                           record.offset_bytes, " do not lie in a pool of ", pool_bytes, " bytes"));
  }
  if (word.kind() == RegionKind::kRegionTable && record.length_bytes != kUnitBytes) {
    return Bad(what, "length_bytes", record.length_bytes, "one unit of 2 MiB");
  }
  return OkStatus();
}

// REQUIRES: the place is valid.
Status CheckPages(const RegionValues& record, std::string_view what) {
  if (record.page_bytes < kPageBytesMin || !IsAligned(record.page_bytes, kPageAlignBytes)) {
    return Bad(what, "page_bytes", record.page_bytes, "a multiple of 512, not 0");
  }
  const uint64_t count = RegionPageCount(record.pages);
  const uint64_t first = RegionFirstRecord(record.pages);
  if (count == 0 || count > record.length_bytes / record.page_bytes) {
    return DataLoss(Concat(what, ": ", count, " pages of ", record.page_bytes, " bytes in ",
                           record.length_bytes, " bytes"));
  }
  if (first == 0 || first + count - 1 > kRecordNumberMax) {
    return DataLoss(Concat(what, ": records from ", first, " for ", count,
                           " pages, expected numbers from 1 to ", kRecordNumberMax));
  }
  return OkStatus();
}

Status CheckUnused(std::string_view what, std::string_view field, uint64_t value) {
  return value == 0 ? OkStatus() : Bad(what, field, value, "0 for a region of this kind");
}

Status CheckClientCut(const RegionValues& record, std::string_view what) {
  if (record.owner > kBits32Max) return Bad(what, "owner", record.owner, "32 bits");
  if (!PaddedText(record.instance_id)) return DataLoss(Concat(what, ": instance_id is no text"));
  if (!PaddedText(record.lease_id)) return DataLoss(Concat(what, ": lease_id is no text"));
  if (record.road > kRegionRoadLast) return Bad(what, "road", record.road, "0 or 1");
  if (record.road == static_cast<uint8_t>(RegionRoad::kMetadata) && record.request_id != 0) {
    return Bad(what, "request_id", record.request_id, "0 for a region of the metadata protocol");
  }
  if (record.road == static_cast<uint8_t>(RegionRoad::kResourceManager) && record.endpoint != 0) {
    return Bad(what, "endpoint", record.endpoint, "0 for a region of the resource manager");
  }
  return OkStatus();
}

Status CheckNotClientCut(const RegionValues& record, std::string_view what) {
  MARU_RETURN_IF_ERROR(CheckUnused(what, "owner", record.owner));
  MARU_RETURN_IF_ERROR(CheckUnused(what, "lease_deadline_unix_ns", record.lease_deadline_unix_ns));
  MARU_RETURN_IF_ERROR(CheckUnused(what, "road", record.road));
  MARU_RETURN_IF_ERROR(CheckUnused(what, "request_id", record.request_id));
  MARU_RETURN_IF_ERROR(CheckUnused(what, "endpoint", record.endpoint));
  MARU_RETURN_IF_ERROR(CheckUnused(what, "hold_until_unix_ns", record.hold_until_unix_ns));
  const auto zero = [](uint8_t c) { return c == 0; };
  if (!std::ranges::all_of(record.instance_id, zero) ||
      !std::ranges::all_of(record.lease_id, zero)) {
    return DataLoss(Concat(what, ": names a client, but a region of this kind has none"));
  }
  return OkStatus();
}

bool HasKey(PageState state) { return state == PageState::kLive || state == PageState::kRetiring; }

Status CheckKey(const PageValues& record, uint64_t pool_bytes) {
  if (!KeySizes::Valid(record.key_sizes)) {
    return Bad("page record", "key_sizes", record.key_sizes,
               "at most 65536 bytes of key and 255 of namespace");
  }
  const uint64_t text_bytes = KeySizes::Unpack(record.key_sizes).text_bytes();
  const bool has_text = record.text_offset != 0;
  if (text_bytes > 0 && !has_text) return Bad("page record", "text_offset", 0, "the key's text");
  if (has_text &&
      (!IsAligned(record.text_offset, kTextGranuleBytes) || record.text_offset < kHeadBytes ||
       !RangeFits(record.text_offset, text_bytes, pool_bytes))) {
    return DataLoss(Concat("page record: key text of ", text_bytes, " bytes at offset ",
                           record.text_offset, " does not lie in a pool of ", pool_bytes,
                           " bytes"));
  }
  if (record.extent_offset_bytes > pool_bytes) {
    return Bad("page record", "extent_offset_bytes", record.extent_offset_bytes,
               "at most the pool's size");
  }
  if (record.length_bytes > pool_bytes) {
    return Bad("page record", "length_bytes", record.length_bytes, "at most the pool's size");
  }
  if (record.last_use > kUseTickMax) {
    return Bad("page record", "last_use", record.last_use, "at most 2^62");
  }
  return OkStatus();
}

}  // namespace

Status ValidateRoot(const RootValues& root, uint64_t pool_bytes) {
  if (!ReservedZero(root.reserved) || !ReservedZero(root.reserved_tail)) {
    return DataLoss("root: reserved words are not zero");
  }
  if (root.record_high > uint64_t{kRecordNumberMax} + 1) {
    return Bad("root", "record_high", root.record_high, "32 bits");
  }
  if (root.next_region_ordinal > kRegionIdsPerPool) {
    return Bad("root", "next_region_ordinal", root.next_region_ordinal, "at most 2^20");
  }
  if (root.next_client_id > kBits32Max + 1) {
    return Bad("root", "next_client_id", root.next_client_id, "at most 2^32");
  }
  if (root.use_tick > kUseTickMax) return Bad("root", "use_tick", root.use_tick, "at most 2^62");
  if (root.clean > 1) return Bad("root", "clean", root.clean, "0 or 1");
  if (root.region_slots_high > kRegionSlotsMax) {
    return Bad("root", "region_slots_high", root.region_slots_high, "at most 526336");
  }
  return CheckTables(root, pool_bytes);
}

Status ValidateRegionRecord(const RegionValues& record, uint64_t pool_bytes) {
  const auto number = static_cast<uint8_t>(RegionWord(record.word).kind());
  const RegionKind kind = RegionWord(record.word).kind();
  if (kind == RegionKind::kNone) return OkStatus();
  if (number > kRegionKindLast) return Bad("region record", "kind", number, "0 to 7");
  const std::string what = Concat("region record (", RegionKindName(kind), ")");
  MARU_RETURN_IF_ERROR(CheckPlace(record, what, pool_bytes));
  if (kind == RegionKind::kPages) {
    MARU_RETURN_IF_ERROR(CheckPages(record, what));
  } else {
    MARU_RETURN_IF_ERROR(CheckUnused(what, "page_bytes", record.page_bytes));
    MARU_RETURN_IF_ERROR(CheckUnused(what, "pages", record.pages));
  }
  const bool has_id = kind == RegionKind::kPages || kind == RegionKind::kClientCut;
  if (record.region_id > (has_id ? kRegionIdMax : 0)) {
    return Bad(what, "region_id", record.region_id, has_id ? "31 bits" : "0 for this kind");
  }
  MARU_RETURN_IF_ERROR(kind == RegionKind::kClientCut ? CheckClientCut(record, what)
                                                      : CheckNotClientCut(record, what));
  if (!ReservedZero(record.reserved)) return DataLoss(what + ": reserved words are not zero");
  return OkStatus();
}

Status ValidatePageRecord(const PageValues& record, uint64_t pool_bytes) {
  const StateWord word(record.state_word);
  if (!word.Valid()) {
    return Bad("page record", "state_word", record.state_word,
               "a state from 0 to 7, a generation from 1, a client only while granted");
  }
  if (!ReservedZero(record.reserved)) return DataLoss("page record: reserved words are not zero");
  if (word.state() == PageState::kAbsent) return OkStatus();
  // What else a page without a key says is of a key that is gone; a start gives it its region anew.
  if (word.state() == PageState::kFree || word.state() == PageState::kWorn) return OkStatus();
  if (record.region_slot >= kRegionSlotsMax) {
    return Bad("page record", "region_slot", record.region_slot, "below 526336");
  }
  if (HasKey(word.state())) MARU_RETURN_IF_ERROR(CheckKey(record, pool_bytes));
  if (record.owner > kBits32Max) return Bad("page record", "owner", record.owner, "32 bits");
  return OkStatus();
}

Status ValidateClientRecord(const ClientValues& record) {
  if (record.client_id == 0) return OkStatus();
  if (record.client_id > kBits32Max) {
    return Bad("client record", "client_id", record.client_id, "32 bits");
  }
  if (!PaddedText(record.label)) return DataLoss("client record: label is no text");
  if (!ReservedZero(record.reserved)) {
    return DataLoss("client record: reserved words are not zero");
  }
  return OkStatus();
}

Status ValidateBlockOwner(BlockOwner owner, uint32_t block) {
  if (owner.free()) return OkStatus();
  if (block == 0) return Bad("lease directory", "owner of block 0", owner.bits(), "0");
  const std::string what = Concat("lease directory: block ", block);
  if (owner.client_id() == 0) return Bad(what, "client id", 0, "1 or more");
  if (owner.client_slot() >= kClientSlots) {
    return Bad(what, "client slot", owner.client_slot(), "below 1024");
  }
  if (owner.ordinal() >= kLeaseBlocksPerClientMax) {
    return Bad(what, "ordinal", owner.ordinal(), "below 4097");
  }
  return OkStatus();
}

}  // namespace maru::layout
