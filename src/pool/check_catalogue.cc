#include "pool/check_catalogue.h"

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "catalogue/index_writer.h"
#include "catalogue/key.h"
#include "layout/describe.h"
#include "layout/text.h"
#include "layout/validate.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::IndexEntry;
using layout::PageState;
using layout::RegionKind;
using layout::StateWord;

bool HasKey(StateWord word) {
  return word.state() == PageState::kLive || word.state() == PageState::kRetiring;
}

Hash128 HashOf(const layout::PageValues& page) { return {page.hash_low, page.hash_high}; }

}  // namespace

CatalogueCheck::CatalogueCheck(const catalogue::PoolView& view, const std::vector<Region>& regions,
                               VerifyBytes verify, CheckReport* report,
                               const CheckProgress& progress)
    : view_(view),
      regions_(regions),
      verify_(verify),
      report_(report),
      progress_(progress),
      text_(nullptr) {}

void CatalogueCheck::Tell() {
  ++looked_at_;
  if (progress_) progress_(looked_at_, records_);
}

void CatalogueCheck::Offend(RecordNumber record, std::string_view what) {
  report_->offences.Add(Concat("record ", record.value(), ": ", what));
}

void CatalogueCheck::Mend(RecordNumber record, std::string_view what) {
  report_->mends.Add(Concat("record ", record.value(), ": ", what));
}

void CatalogueCheck::Run() {
  records_ = std::max<uint64_t>(RecordsEnd(), 1) - 1;
  for (const Region& region : regions_) {
    if (region.kind == RegionKind::kText) {
      text_.AddRegion(region.offset_bytes, region.length_bytes);
    } else if (region.kind == RegionKind::kClientCut) {
      client_cut_.emplace(region.slot.value(), &region);
    }
  }
  for (const Region& region : regions_) {
    if (region.kind == RegionKind::kPages) CheckRegion(region);
  }
  CheckOtherRecords();
  CheckOverlaps();
  CheckDuplicates();
  CheckIndex();
  CheckClientIds();
}

// A start moves the counter on: a new client must not be taken for the owner of what is there.
void CatalogueCheck::CheckClientIds() {
  uint64_t high = 0;
  for (const Keyed& key : keyed_) {
    high = std::max(high, layout::ReadPage(*view_.Record(key.record)).owner);
  }
  for (const Region& region : regions_) high = std::max<uint64_t>(high, region.owner.value());
  for (uint16_t number = 0; number < layout::kClientSlots; ++number) {
    high = std::max(high, layout::ReadClient(*view_.Client(ClientSlot(number))).client_id);
  }
  const uint64_t next = layout::ReadRoot(view_.root()).next_client_id;
  if (high == 0 || next > high) return;
  report_->mends.Add(Concat("root: next_client_id is ", next, ", but ", high,
                            " was given out: ids go on from ", high + 1));
}

void CatalogueCheck::CheckRegion(const Region& region) {
  report_->pages += region.page_count;
  for (uint32_t i = 0; i < region.page_count; ++i) {
    CheckPage(region, i);
    Tell();
  }
}

void CatalogueCheck::CheckPage(const Region& region, uint32_t index) {
  const RecordNumber record(region.first_record.value() + index);
  const layout::PageRecord* shared = view_.Record(record);
  if (shared == nullptr) return Offend(record, "has no memory");
  const layout::PageValues page = layout::ReadPage(*shared);
  const Status status = layout::ValidatePageRecord(page, view_.bytes());
  if (!status.ok()) return Offend(record, status.message());
  const StateWord word(page.state_word);
  ++report_->states[static_cast<uint8_t>(word.state())];
  CheckState(record, page, region);
  if (!HasKey(word)) return;
  if (page.length_bytes > region.page_bytes) {
    return Offend(record,
                  Concat("stores ", page.length_bytes, " bytes in a page of ", region.page_bytes));
  }
  if (CheckKey(record, page) && verify_ == VerifyBytes::kYes) {
    CheckBytes(record, page, region.offset_bytes + uint64_t{index} * region.page_bytes);
  }
}

void CatalogueCheck::CheckState(RecordNumber record, const layout::PageValues& page,
                                const Region& region) {
  const StateWord word(page.state_word);
  const bool placed = page.region_slot == region.slot.value();
  switch (word.state()) {
    case PageState::kAbsent: return Mend(record, "is not bound to its region yet");
    case PageState::kFree:
    case PageState::kWorn:
      if (!placed) Mend(record, "names a former region");
      return;
    case PageState::kRetiring: Mend(record, "is retiring: it becomes live again"); break;
    case PageState::kGranted: {
      const layout::ClientRecord* client = view_.Client(word.client());
      if (client == nullptr || layout::ReadClient(*client).client_id == 0) {
        Mend(record, Concat("is granted to slot ", word.client().value(), ", which no client has"));
      }
      break;
    }
    default: break;
  }
  if (placed) return;
  Offend(record, Concat(layout::PageStateName(word.state()), " in region slot ",
                        region.slot.value(), ", but names slot ", page.region_slot));
}

// The text's place is judged by the rule of the writer's own allocator, which also tells when two
// records share a block.
bool CatalogueCheck::CheckKey(RecordNumber record, const layout::PageValues& page) {
  const uint64_t text_bytes = layout::KeySizes::Unpack(page.key_sizes).text_bytes();
  ++report_->keys;
  report_->text_bytes += text_bytes;
  const Status status = text_.Adopt(page.text_offset, text_bytes);
  if (!status.ok()) {
    Offend(record, status.message());
    return false;
  }
  const Text text = TextOf(record);
  const catalogue::Namespace name_space(text.name_space);
  if (catalogue::MakeKeyRef(name_space, text.key).hash != HashOf(page)) {
    Offend(record, Concat("the hash is not that of its key ", layout::Quoted{text.key}));
    return false;
  }
  keyed_.push_back({HashOf(page), record});
  return true;
}

void CatalogueCheck::CheckBytes(RecordNumber record, const layout::PageValues& page,
                                uint64_t page_offset) {
  if ((view_.superblock().flags & layout::kFlagChecksums) == 0) return;
  const std::span<const std::byte> bytes(view_.base() + page_offset, page.length_bytes);
  if (HashBytes64(bytes) == page.checksum) {
    ++report_->verified_pages;
    report_->verified_bytes += bytes.size();
  } else if (report_->rebooted) {
    Mend(record, Concat("its ", bytes.size(), " bytes are not those stored: the key is dropped, ",
                        layout::Quoted{TextOf(record).key}));
  } else {
    Offend(record, Concat("its ", bytes.size(), " bytes do not have the checksum of those stored, ",
                          "key ", layout::Quoted{TextOf(record).key}));
  }
}

// A key in a client-cut region, or what is left of one.
void CatalogueCheck::CheckExtent(RecordNumber record, const layout::PageValues& page) {
  const Status status = layout::ValidatePageRecord(page, view_.bytes());
  if (!status.ok()) return Offend(record, status.message());
  const auto found = client_cut_.find(page.region_slot);
  const Region* const region = found == client_cut_.end() ? nullptr : found->second;
  const StateWord word(page.state_word);
  if (region == nullptr) {
    return Offend(record,
                  Concat("no region of pages has it, but it is ", layout::DescribeState(word),
                         ", and region slot ", page.region_slot, " is no client-cut region"));
  }
  if (page.length_bytes == 0 || page.extent_offset_bytes >= region->length_bytes ||
      page.length_bytes > region->length_bytes - page.extent_offset_bytes) {
    return Offend(
        record, Concat("its extent of ", page.length_bytes, " bytes at ", page.extent_offset_bytes,
                       " does not lie in a region of ", region->length_bytes));
  }
  if (word.state() == PageState::kCondemned) return;
  if (word.state() == PageState::kRetiring) Mend(record, "is retiring: it becomes live again");
  ++report_->extents;
  report_->extent_bytes += page.length_bytes;
  extents_.push_back({page.region_slot, page.extent_offset_bytes,
                      page.extent_offset_bytes + page.length_bytes, record});
  CheckKey(record, page);
}

void CatalogueCheck::CheckOverlaps() {
  std::ranges::sort(extents_, {}, [](const Extent& extent) {
    return std::tuple(extent.slot, extent.begin, extent.record.value());
  });
  const Extent* farthest = nullptr;  // of those before in the same region
  for (const Extent& extent : extents_) {
    if (farthest != nullptr && farthest->slot == extent.slot && extent.begin < farthest->end) {
      Offend(extent.record,
             Concat("its extent overlaps that of record ", farthest->record.value()));
      if (extent.end <= farthest->end) continue;
    }
    farthest = &extent;
  }
}

// Numbers that no region of pages has: ABSENT, an extent's, or WORN for good.
void CatalogueCheck::CheckOtherRecords() {
  std::vector<std::pair<uint64_t, uint64_t>> runs;  // first, one behind the last
  for (const Region& region : regions_) {
    if (region.kind != RegionKind::kPages) continue;
    runs.emplace_back(region.first_record.value(),
                      uint64_t{region.first_record.value()} + region.page_count);
  }
  std::ranges::sort(runs);
  // To the end of the chunks: what no region ever had must be ready for one.
  const uint64_t last = RecordsEnd();
  runs.emplace_back(last, last);
  uint64_t next = 1;
  for (const auto& [first, end] : runs) {
    for (; next < first; ++next) {
      Tell();
      const RecordNumber record(static_cast<uint32_t>(next));
      const layout::PageValues page = layout::ReadPage(*view_.Record(record));
      const StateWord word(page.state_word);
      if (word.Valid() && (HasKey(word) || word.state() == PageState::kCondemned)) {
        CheckExtent(record, page);
        continue;
      }
      const Status fields = layout::ValidatePageRecord(page, view_.bytes());
      if (word.Valid() && !fields.ok()) {
        Offend(record, fields.message());
        continue;
      }
      if (word.Valid() &&
          (word.state() == PageState::kAbsent || word.state() == PageState::kWorn)) {
        continue;
      }
      if (word.Valid() && word.state() == PageState::kFree) {
        Mend(record, "is free in a region that is gone");
      } else {
        Offend(record, Concat("no region has it, but it is ", layout::DescribeState(word)));
      }
    }
    next = std::max(next, end);
  }
}

// One behind the last number that has memory.
uint64_t CatalogueCheck::RecordsEnd() const {
  const auto* directory = view_.At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
  uint64_t chunks = 0;
  while (chunks < layout::kRecordChunksMax &&
         directory->units[chunks].load(std::memory_order_relaxed) != 0) {
    ++chunks;
  }
  return std::min(chunks * layout::kRecordsPerChunk, uint64_t{layout::kRecordNumberMax} + 1);
}

CatalogueCheck::Text CatalogueCheck::TextOf(RecordNumber record) const {
  const layout::PageValues page = layout::ReadPage(*view_.Record(record));
  const layout::KeySizes sizes = layout::KeySizes::Unpack(page.key_sizes);
  const auto* text = reinterpret_cast<const char*>(view_.base() + page.text_offset);
  return {{text, sizes.namespace_bytes}, {text + sizes.namespace_bytes, sizes.key_bytes}};
}

void CatalogueCheck::CheckDuplicates() {
  std::ranges::sort(keyed_, {}, [](const Keyed& key) {
    return std::tuple(key.hash.high, key.hash.low, key.record.value());
  });
  for (size_t i = 1; i < keyed_.size(); ++i) {
    if (keyed_[i].hash != keyed_[i - 1].hash) continue;
    // Two keys of one hash are possible; one key twice is not.
    const Text text = TextOf(keyed_[i].record);
    if (text != TextOf(keyed_[i - 1].record)) continue;
    Offend(keyed_[i].record, Concat("has the key ", layout::Quoted{text.key}, " of record ",
                                    keyed_[i - 1].record.value()));
  }
}

IndexEntry CatalogueCheck::Entry(const Table& table, uint64_t slot) const {
  const auto* slots = view_.At<std::atomic<uint64_t>>(table.offset_bytes);
  return IndexEntry(slots[slot].load(std::memory_order_relaxed));
}

bool CatalogueCheck::InTable(const Table& table, const Keyed& key) const {
  uint64_t slot = IndexEntry::Home(key.hash, table.entries);
  for (uint64_t tried = 0; tried < table.entries; ++tried) {
    const IndexEntry entry = Entry(table, slot);
    if (entry.empty()) return false;
    if (entry.bits() == IndexEntry::Make(key.hash, key.record).bits()) return true;
    slot = (slot + 1) & (table.entries - 1);
  }
  return false;
}

// Of the index no entry is damage, only a table that is none: a start builds it anew from the
// records, whatever they say, and a server that died between entry and state leaves some.
void CatalogueCheck::CheckEntries(const Table& table) {
  for (uint64_t slot = 0; slot < table.entries; ++slot) {
    const IndexEntry entry = Entry(table, slot);
    if (entry.empty() || entry.tombstone()) continue;
    ++report_->index_entries;
    const layout::PageRecord* shared = view_.Record(entry.record());
    if (shared == nullptr) {
      report_->mends.Add(Concat("index at ", layout::Hex{table.offset_bytes}, ": slot ", slot,
                                " names record ", entry.record().value(), ", which has no memory"));
      continue;
    }
    const layout::PageValues page = layout::ReadPage(*shared);
    if (HasKey(StateWord(page.state_word)) && entry.MatchesTag(HashOf(page))) continue;
    Mend(entry.record(), Concat("is in the index at slot ", slot, ", but has no such key"));
  }
}

bool CatalogueCheck::InIndexRegion(layout::TableDescriptor table) const {
  const uint64_t table_bytes = sizeof(uint64_t) << table.entries_log2();
  return std::ranges::any_of(regions_, [&](const Region& region) {
    return region.kind == RegionKind::kIndex && region.offset_bytes == table.offset_bytes() &&
           region.length_bytes >= table_bytes;
  });
}

void CatalogueCheck::CheckIndex() {
  const layout::RootValues root = layout::ReadRoot(view_.root());
  const layout::TableWord word(root.table_word);
  if (word.sequence() >= catalogue::IndexWriter::kSequenceMax) {
    report_->offences.Add(Concat("the table word has the impossible sequence ", word.sequence()));
  }
  std::vector<Table> tables;
  for (const uint8_t number : {word.old_table(), word.current()}) {
    if (number == layout::TableWord::kNone) continue;
    const layout::TableDescriptor descriptor(number < layout::kIndexTables ? root.tables[number]
                                                                           : 0);
    if (!descriptor.Valid(view_.bytes()) || !InIndexRegion(descriptor)) {
      report_->offences.Add(Concat("index table ", number, ", ", layout::DescribeTable(descriptor),
                                   ", lies in no index region"));
      continue;
    }
    const Table table{descriptor.offset_bytes(), uint64_t{1} << descriptor.entries_log2()};
    tables.push_back(table);
    CheckEntries(table);
  }
  if (tables.empty()) {
    if (!keyed_.empty()) report_->mends.Add("no index table: one is built from the records");
    return;
  }
  for (const Keyed& key : keyed_) {
    if (std::ranges::any_of(tables, [&](const Table& table) { return InTable(table, key); })) {
      continue;
    }
    Mend(key.record,
         Concat("its key ", layout::Quoted{TextOf(key.record).key}, " is not in the index"));
  }
}

}  // namespace maru::pool
