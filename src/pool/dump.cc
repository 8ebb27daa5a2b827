#include "pool/dump.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "layout/describe.h"
#include "layout/index.h"
#include "layout/text.h"
#include "layout/values.h"
#include "pool/pool_image.h"
#include "pool/region_scan.h"

namespace maru::pool {
namespace {

using catalogue::PoolView;
using layout::Concat;

constexpr uint64_t kIndexEntriesShown = 16;

Dump Cut(const PoolView& view, uint64_t offset_bytes, uint64_t length_bytes, layout::Lines lines,
         decltype(Dump::fields) fields) {
  Dump dump;
  dump.fields = std::move(fields);
  dump.offset_bytes = offset_bytes;
  // A copy of bytes that a server may be changing: of several moments, as its lines are.
  dump.bytes.resize(std::min<uint64_t>(length_bytes, kDumpBytesMax));
  std::memcpy(dump.bytes.data(), view.base() + offset_bytes, dump.bytes.size());
  dump.lines = std::move(lines);
  if (dump.lines.size() > kDumpLinesMax) {
    const size_t more = dump.lines.size() - kDumpLinesMax;
    dump.lines.resize(kDumpLinesMax);
    dump.lines.push_back(Concat("and ", more, " more"));
  }
  return dump;
}

uint64_t OffsetOf(const PoolView& view, const void* at) {
  return static_cast<uint64_t>(static_cast<const std::byte*>(at) - view.base());
}

Status None(std::string_view what, uint64_t number) {
  return NotFound(Concat("this pool has no ", what, " ", number));
}

Result<Dump> DumpRegion(const PoolView& view, uint64_t number) {
  const layout::RegionRecord* region = nullptr;
  if (number < layout::kRegionSlotsMax) {
    region = FindRegionRecord(view.base(), view.bytes(), RegionSlot(static_cast<uint32_t>(number)));
  }
  if (region == nullptr) return None("region slot", number);
  const layout::RegionValues values = layout::ReadRegion(*region);
  return Cut(view, OffsetOf(view, region), sizeof(*region), layout::DescribeRegion(values), values);
}

Result<Dump> DumpClient(const PoolView& view, uint64_t number) {
  if (number >= layout::kClientSlots) return None("client slot", number);
  const auto* const client = view.Client(ClientSlot(static_cast<uint16_t>(number)));
  const layout::ClientValues values = layout::ReadClient(*client);
  return Cut(view, OffsetOf(view, client), sizeof(*client), layout::DescribeClient(values), values);
}

Result<const layout::PageRecord*> FindRecord(const PoolView& view, uint64_t number) {
  const layout::PageRecord* record = nullptr;
  if (number <= layout::kRecordNumberMax) {
    record = view.Record(RecordNumber(static_cast<uint32_t>(number)));
  }
  if (record == nullptr) return None("record", number);
  return record;
}

// The table that readers probe first, and whether there is one.
bool CurrentTable(const PoolView& view, layout::TableDescriptor* table) {
  const layout::RootValues root = layout::ReadRoot(view.root());
  const uint8_t current = layout::TableWord(root.table_word).current();
  if (current >= layout::kIndexTables) return false;
  *table = layout::TableDescriptor(root.tables[current]);
  return table->Valid(view.bytes());
}

Result<Dump> DumpRecord(const PoolView& view, uint64_t number) {
  MARU_ASSIGN_OR_RETURN(const layout::PageRecord* record, FindRecord(view, number));
  const layout::PageValues values = layout::ReadPage(*record);
  layout::Lines lines = layout::DescribePage(values);
  DumpedRecord dumped{values, {}};
  layout::TableDescriptor table;
  if (CurrentTable(view, &table)) {
    const uint64_t entries = uint64_t{1} << table.entries_log2();
    dumped.home = values.hash_low & (entries - 1);
    lines.push_back(Concat("home in the index: entry ", *dumped.home));
  }
  return Cut(view, OffsetOf(view, record), sizeof(*record), std::move(lines), dumped);
}

Result<Dump> DumpText(const PoolView& view, uint64_t number) {
  MARU_ASSIGN_OR_RETURN(const layout::PageRecord* record, FindRecord(view, number));
  const layout::PageValues values = layout::ReadPage(*record);
  const auto sizes = layout::KeySizes::Unpack(values.key_sizes);
  if (values.text_offset == 0) return None("text of record", number);
  if (!layout::KeySizes::Valid(values.key_sizes) ||
      !view.InBounds(values.text_offset, sizes.text_bytes())) {
    return DataLoss(Concat("the text of record ", number, " lies at ",
                           layout::Hex{values.text_offset}, ", ", sizes.text_bytes(),
                           " bytes: outside the pool or longer than a key"));
  }
  const std::string_view text(reinterpret_cast<const char*>(view.base() + values.text_offset),
                              sizes.text_bytes());
  const DumpedText dumped{std::string(text.substr(0, sizes.namespace_bytes)),
                          std::string(text.substr(sizes.namespace_bytes)),
                          layout::StateWord(values.state_word)};
  return Cut(view, values.text_offset, sizes.text_bytes(),
             {Concat("namespace: ", layout::Quoted{dumped.name_space}),
              Concat("key: ", layout::Quoted{dumped.key}),
              Concat("state: ", layout::DescribeState(dumped.state))},
             dumped);
}

Result<Dump> DumpIndex(const PoolView& view, uint64_t first) {
  layout::TableDescriptor table;
  if (!CurrentTable(view, &table)) return NotFound("this pool has no index yet");
  const uint64_t entries = uint64_t{1} << table.entries_log2();
  if (first >= entries) return None("index entry", first);
  const uint64_t count = std::min(kIndexEntriesShown, entries - first);
  const uint64_t offset = table.offset_bytes() + first * sizeof(uint64_t);
  layout::Lines lines = {Concat("table: ", layout::DescribeTable(table))};
  DumpedIndex dumped{table, first, {}};
  for (uint64_t i = 0; i < count; ++i) {
    // Relaxed: shown, not followed.
    const layout::IndexEntry entry(view.At<std::atomic<uint64_t>>(offset + i * sizeof(uint64_t))
                                       ->load(std::memory_order_relaxed));
    dumped.entries.push_back(entry);
    const std::string name = Concat("entry ", first + i, ": ");
    if (entry.empty() || entry.tombstone()) {
      lines.push_back(name + (entry.empty() ? "empty" : "tombstone"));
    } else {
      lines.push_back(Concat(name, "record ", entry.record().value(), ", tag ",
                             layout::Hex{entry.bits() >> 32, 8}));
    }
  }
  return Cut(view, offset, count * sizeof(uint64_t), std::move(lines), std::move(dumped));
}

DumpedLeases::Block ReadBlock(const PoolView& view, uint64_t offset, layout::BlockOwner owner) {
  DumpedLeases::Block read{offset, owner, {}, {}};
  // Relaxed throughout: the client's words, shown and not trusted.
  constexpr auto kOrder = std::memory_order_relaxed;
  if (owner.ordinal() == 0) {
    const auto* const header = view.At<layout::LeaseHeader>(offset);
    read.header = {{"slots high", header->slots_high.load(kOrder)},
                   {"touch head", header->touch_head.load(kOrder)},
                   {"free pages", header->free_pages.load(kOrder)},
                   {"pending pages", header->pending_pages.load(kOrder)},
                   {"held pages", header->held_pages.load(kOrder)},
                   {"last request", header->last_request.load(kOrder)},
                   {"recall", header->recall.load(kOrder)}};
    return read;
  }
  const auto* const block = view.At<layout::LeaseSlots>(offset);
  for (uint32_t i = 0; i < layout::kLeaseSlotsPerBlock; ++i) {
    const layout::SlotWord word(block->slots[i].load(kOrder));
    if (word.empty()) continue;
    read.slots.emplace_back((owner.ordinal() - 1ull) * layout::kLeaseSlotsPerBlock + i, word);
  }
  return read;
}

void DescribeBlock(const DumpedLeases::Block& block, layout::Lines* lines) {
  lines->push_back(Concat("block at ", layout::Hex{block.offset_bytes}, ": ",
                          layout::DescribeOwner(block.owner)));
  for (const auto& [name, value] : block.header) lines->push_back(Concat("  ", name, ": ", value));
  for (const auto& [slot, word] : block.slots) {
    lines->push_back(Concat("  slot ", slot, ": ", layout::DescribeSlot(word)));
  }
}

Result<Dump> DumpLeases(const PoolView& view, uint64_t number) {
  uint64_t first_offset = 0;
  layout::Lines lines;
  DumpedLeases leases;
  for (const Region& region : ScanRegions(view.base(), view.bytes()).regions) {
    if (region.kind != layout::RegionKind::kLeases) continue;
    for (uint64_t at = 0; at < region.length_bytes; at += layout::kUnitBytes) {
      const uint64_t unit = region.offset_bytes + at;
      const auto* const directory = view.Leases(unit);
      if (directory == nullptr) continue;
      for (uint32_t block = 1; block < layout::kLeaseBlocksPerUnit; ++block) {
        // Relaxed: shown, not followed.
        const layout::BlockOwner owner(directory->owners[block].load(std::memory_order_relaxed));
        if (owner.free() || owner.client_slot() != number) continue;
        const uint64_t offset = unit + block * layout::kLeaseBlockBytes;
        if (first_offset == 0) first_offset = offset;
        if (lines.size() > kDumpLinesMax) {
          ++leases.left_out;
          continue;
        }
        leases.blocks.push_back(ReadBlock(view, offset, owner));
        DescribeBlock(leases.blocks.back(), &lines);
      }
    }
  }
  if (lines.empty()) return None("lease block of client slot", number);
  return Cut(view, first_offset, kDumpBytesMax, std::move(lines), std::move(leases));
}

Status Unknown(std::string_view part) {
  std::string all;
  for (const DumpKind& kind : kDumpKinds) {
    all += Concat(all.empty() ? "" : ", ", kind.name, kind.number.empty() ? "" : ":N");
  }
  return InvalidArgument(
      Concat(layout::Quoted{part}, " is no part of a pool; wanted is one of ", all));
}

}  // namespace

Result<Dump> DumpPart(const std::string& path, std::string_view part) {
  const size_t colon = std::min(part.find(':'), part.size());
  const std::string_view name = part.substr(0, colon);
  const std::string_view digits = part.substr(std::min(colon + 1, part.size()));
  const auto* const kind = std::ranges::find(kDumpKinds, name, &DumpKind::name);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool numbered = error == std::errc() && end == digits.data() + digits.size();
  if (kind == std::end(kDumpKinds) || (kind->number.empty() ? colon < part.size() : !numbered)) {
    return Unknown(part);
  }
  MARU_ASSIGN_OR_RETURN(const PoolImage image, PoolImage::Open(path));
  const PoolView& view = image.view();
  if (name == "superblock") {
    return Cut(view, layout::kSuperblockOffset, sizeof(layout::Superblock),
               layout::DescribeSuperblock(image.superblock()), image.superblock());
  }
  if (name == "root") {
    const layout::RootValues root = layout::ReadRoot(view.root());
    return Cut(view, layout::kRootOffset, sizeof(layout::Root), layout::DescribeRoot(root), root);
  }
  if (name == "region") return DumpRegion(view, number);
  if (name == "client") return DumpClient(view, number);
  if (name == "record") return DumpRecord(view, number);
  if (name == "text") return DumpText(view, number);
  if (name == "index") return DumpIndex(view, number);
  return DumpLeases(view, number);
}

}  // namespace maru::pool
