#include "layout/describe.h"

#include <algorithm>

#include "base/units.h"
#include "layout/text.h"

namespace maru::layout {
namespace {

std::string Size(uint64_t bytes) { return Concat(bytes, " (", FormatSize(bytes), ")"); }

// Of zero-padded text that may lack its zero.
Quoted Label(const uint8_t (&text)[kLabelBytes]) {
  const auto* const end = std::ranges::find(text, uint8_t{0});
  return {{reinterpret_cast<const char*>(text), static_cast<size_t>(end - text)}};
}

std::string FlagsText(uint64_t flags) {
  std::string text = Concat(Hex{flags});
  if ((flags & kFlagChecksums) != 0) text += " checksums";
  if ((flags & ~kFlagsKnown) != 0) AppendTo(text, " and unknown ones");
  return text;
}

std::string TableName(uint8_t table) {
  return table == TableWord::kNone ? "none" : std::to_string(table);
}

template <size_t kCount>
void AddReserved(Lines& lines, const uint64_t (&words)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] != 0) lines.push_back(Concat("reserved[", i, "]: ", Hex{words[i], 16}));
  }
}

}  // namespace

std::string_view PageStateName(PageState state) {
  switch (state) {
    case PageState::kAbsent: return "absent";
    case PageState::kFree: return "free";
    case PageState::kGranted: return "granted";
    case PageState::kLive: return "live";
    case PageState::kRetiring: return "retiring";
    case PageState::kCondemned: return "condemned";
    case PageState::kQuarantined: return "quarantined";
    case PageState::kWorn: return "worn";
  }
  return "unknown";
}

std::string_view RegionKindName(RegionKind kind) {
  switch (kind) {
    case RegionKind::kNone: return "none";
    case RegionKind::kPages: return "pages";
    case RegionKind::kClientCut: return "client-cut";
    case RegionKind::kRecords: return "records";
    case RegionKind::kText: return "text";
    case RegionKind::kIndex: return "index";
    case RegionKind::kLeases: return "leases";
    case RegionKind::kRegionTable: return "region-table";
  }
  return "unknown";
}

std::string_view RegionRoadName(RegionRoad road) {
  switch (road) {
    case RegionRoad::kMetadata: return "metadata";
    case RegionRoad::kResourceManager: return "resource-manager";
  }
  return "unknown";
}

std::string UuidText(const Uuid& uuid) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHex[uuid[i] >> 4];
    text += kHex[uuid[i] & 0xF];
  }
  return text;
}

std::string DescribeState(StateWord word) {
  std::string text =
      Concat(PageStateName(word.state()), ", generation ", word.generation().value());
  if (word.state() == PageState::kGranted) {
    AppendTo(text, Concat(", client slot ", word.client().value()));
  }
  if (!word.Valid()) AppendTo(text, Concat(" (invalid: ", Hex{word.bits(), 16}, ")"));
  return text;
}

std::string DescribeSlot(SlotWord word) {
  if (word.empty()) return "empty";
  return Concat(word.pinned() ? "pin" : "lease", " of record ", word.record().value(),
                ", generation ", word.generation().value());
}

std::string DescribeOwner(BlockOwner owner) {
  if (owner.free()) return "free";
  return Concat("client ", owner.client_id(), " in slot ", owner.client_slot(), ", block ",
                owner.ordinal());
}

std::string DescribeTable(TableDescriptor table) {
  if (table.bits() == 0) return "unused";
  return Concat("2^", table.entries_log2(), " entries at offset ", Hex{table.offset_bytes()});
}

std::string DescribeTables(TableWord word) {
  return Concat("sequence ", word.sequence(), ", current ", TableName(word.current()), ", old ",
                TableName(word.old_table()));
}

Lines DescribeSuperblock(const Superblock& block) {
  return {
      Concat("device version: ", block.device.version),
      Concat("uuid: ", UuidText(block.device.uuid)),
      Concat("layout version: ", block.layout_version),
      Concat("superblock bytes: ", block.superblock_bytes),
      Concat("pool bytes: ", Size(block.pool_bytes)),
      Concat("flags: ", FlagsText(block.flags)),
      Concat("created (unix ns): ", block.created_unix_ns),
      Concat("region ids: from ", block.region_id_base, " to ",
             uint64_t{block.region_id_base} + kRegionIdsPerPool - 1),
      Concat("client slots: ", block.client_slots),
      Concat("unit bytes: ", Size(block.unit_bytes)),
      Concat("checksum: ", Hex{block.checksum, 16}),
  };
}

Lines DescribeRoot(const RootValues& root) {
  Lines lines = {
      Concat("epoch: ", Hex{root.epoch, 16}),
      Concat("index tables: ", DescribeTables(TableWord(root.table_word))),
      Concat("record high: ", root.record_high),
      Concat("next region ordinal: ", root.next_region_ordinal),
      Concat("next client id: ", root.next_client_id),
      Concat("clean: ", root.clean == 1 ? "yes" : "no"),
      Concat("boot id: ", Hex{root.boot_id[0], 16}, " ", Hex{root.boot_id[1], 16}),
      Concat("starts: ", root.starts),
      Concat("region slots high: ", root.region_slots_high),
      Concat("use tick: ", root.use_tick),
      Concat("leases lapsed: ", root.lapsed_count),
  };
  AddReserved(lines, root.reserved);
  for (uint32_t i = 0; i < kIndexTables; ++i) {
    if (root.tables[i] != 0) {
      lines.push_back(Concat("table ", i, ": ", DescribeTable(TableDescriptor(root.tables[i]))));
    }
  }
  for (uint32_t i = 0; i < kLapsedLeases; ++i) {
    if (root.lapsed_leases[i] == 0) continue;
    lines.push_back(Concat("lapsed lease ", i, ": ", Hex{root.lapsed_leases[i], 16}));
  }
  AddReserved(lines, root.reserved_tail);
  return lines;
}

Lines DescribeRegion(const RegionValues& record) {
  const RegionWord word(record.word);
  Lines lines = {
      Concat("kind: ", RegionKindName(word.kind()), " (", static_cast<uint8_t>(word.kind()), ")"),
      Concat("cut: ", word.cut()),
      Concat("offset: ", Hex{record.offset_bytes}),
      Concat("length: ", Size(record.length_bytes)),
  };
  if (word.kind() == RegionKind::kPages) {
    lines.push_back(Concat("page size: ", Size(record.page_bytes)));
    lines.push_back(Concat("pages: ", RegionPageCount(record.pages)));
    lines.push_back(Concat("first record: ", RegionFirstRecord(record.pages)));
  }
  if (word.kind() == RegionKind::kPages || word.kind() == RegionKind::kClientCut) {
    lines.push_back(Concat("region id: ", record.region_id));
  }
  if (word.kind() == RegionKind::kClientCut) {
    lines.push_back(Concat("owner: ", record.owner));
    lines.push_back(Concat("lease deadline (unix ns): ", record.lease_deadline_unix_ns));
    lines.push_back(Concat("instance id: ", Label(record.instance_id)));
    lines.push_back(Concat("lease id: ", Label(record.lease_id)));
    lines.push_back(Concat("road: ", record.road <= kRegionRoadLast
                                         ? RegionRoadName(static_cast<RegionRoad>(record.road))
                                         : "unknown"));
    lines.push_back(Concat("request id: ", record.request_id));
    lines.push_back(Concat("endpoint: ", record.endpoint));
    lines.push_back(Concat("hold until (unix ns): ", record.hold_until_unix_ns));
  }
  AddReserved(lines, record.reserved);
  return lines;
}

Lines DescribePage(const PageValues& record) {
  const KeySizes sizes = KeySizes::Unpack(record.key_sizes);
  Lines lines = {
      Concat("state: ", DescribeState(StateWord(record.state_word))),
      Concat("hash: ", Hex{record.hash_low, 16}, " ", Hex{record.hash_high, 16}),
      Concat("text: ", sizes.namespace_bytes, " bytes of namespace and ", sizes.key_bytes,
             " of key at offset ", Hex{record.text_offset}),
      Concat("length: ", Size(record.length_bytes)),
      Concat("region slot: ", record.region_slot),
      Concat("checksum: ", Hex{record.checksum, 16}),
      Concat("last use: ", record.last_use),
      Concat("owner: ", record.owner),
      Concat("global pins: ", record.global_pins),
      Concat("hold until (unix ns): ", record.hold_until_unix_ns),
      Concat("extent offset: ", Hex{record.extent_offset_bytes}),
  };
  AddReserved(lines, record.reserved);
  return lines;
}

Lines DescribeClient(const ClientValues& record) {
  Lines lines = {
      Concat("client id: ", record.client_id),
      Concat("pid: ", static_cast<uint32_t>(record.process)),
      Concat("uid: ", record.process >> 32),
      Concat("attached (unix ns): ", record.attached_unix_ns),
      Concat("budget: ", Size(record.budget_bytes)),
      Concat("label: ", Label(record.label)),
  };
  AddReserved(lines, record.reserved);
  return lines;
}

}  // namespace maru::layout
