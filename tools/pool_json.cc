#include "tools/pool_json.h"

#include <algorithm>
#include <string>
#include <variant>

#include "layout/describe.h"
#include "layout/geometry.h"
#include "layout/text.h"

namespace maru::tools {

namespace {

using layout::PageState;

// Of zero-padded text that may lack its zero.
template <size_t kSize>
std::string_view LabelText(const uint8_t (&text)[kSize]) {
  const auto* const end = std::find(text, text + kSize, uint8_t{0});
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(end - text)};
}

std::string HexNumber(uint64_t number) { return layout::Concat(layout::Hex{number, 16}); }

// Every state by name, also those that no page is in.
Json JsonOf(const pool::StateCounts& counts) {
  Json json = Json::object();
  for (size_t i = 0; i < counts.size(); ++i) {
    json[std::string(layout::PageStateName(static_cast<PageState>(i)))] = counts[i];
  }
  return json;
}

Json JsonOf(layout::TableDescriptor table) {
  if (table.bits() == 0) return nullptr;
  return {{"offset_bytes", table.offset_bytes()}, {"entries_log2", table.entries_log2()}};
}

Json TableNumber(uint8_t number) {
  return number == layout::TableWord::kNone ? Json() : Json(number);
}

Json JsonOf(layout::StateWord word) {
  Json json = {{"state", layout::PageStateName(word.state())},
               {"generation", word.generation().value()},
               {"valid", word.Valid()}};
  if (word.state() == PageState::kGranted) json["client_slot"] = word.client().value();
  return json;
}

// What must be zero, where it is not.
template <size_t kCount>
void SetReserved(Json* json, const char* name, const uint64_t (&words)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (words[i] != 0) (*json)[name][std::to_string(i)] = words[i];
  }
}

Json JsonOf(const layout::Superblock& block) {
  return {{"device_version", block.device.version},
          {"uuid", layout::UuidText(block.device.uuid)},
          {"layout_version", block.layout_version},
          {"superblock_bytes", block.superblock_bytes},
          {"pool_bytes", block.pool_bytes},
          {"flags", block.flags},
          {"checksums", (block.flags & layout::kFlagChecksums) != 0},
          {"created_unix_ns", block.created_unix_ns},
          {"region_id_base", block.region_id_base},
          {"client_slots", block.client_slots},
          {"unit_bytes", block.unit_bytes},
          {"checksum", HexNumber(block.checksum)}};
}

Json JsonOf(const layout::RootValues& root) {
  const layout::TableWord tables(root.table_word);
  Json json = {{"epoch", HexNumber(root.epoch)},
               {"table_sequence", tables.sequence()},
               {"current_table", TableNumber(tables.current())},
               {"old_table", TableNumber(tables.old_table())},
               {"record_high", root.record_high},
               {"next_region_ordinal", root.next_region_ordinal},
               {"next_client_id", root.next_client_id},
               {"clean", root.clean == 1},
               {"boot_id", HexNumber(root.boot_id[0]) + HexNumber(root.boot_id[1]).substr(2)},
               {"starts", root.starts},
               {"region_slots_high", root.region_slots_high},
               {"use_tick", root.use_tick},
               {"lapsed_count", root.lapsed_count}};
  json["tables"] = Json::array();
  for (const uint64_t table : root.tables) {
    json["tables"].push_back(JsonOf(layout::TableDescriptor(table)));
  }
  json["lapsed_leases"] = Json::array();
  for (const uint64_t lease : root.lapsed_leases) {
    if (lease != 0) json["lapsed_leases"].push_back(HexNumber(lease));
  }
  SetReserved(&json, "reserved", root.reserved);
  SetReserved(&json, "reserved_tail", root.reserved_tail);
  return json;
}

Json JsonOf(const layout::RegionValues& record) {
  const layout::RegionWord word(record.word);
  Json json = {{"kind", layout::RegionKindName(word.kind())},
               {"kind_number", static_cast<uint8_t>(word.kind())},
               {"cut", word.cut()},
               {"offset_bytes", record.offset_bytes},
               {"length_bytes", record.length_bytes},
               {"page_bytes", record.page_bytes},
               {"pages", layout::RegionPageCount(record.pages)},
               {"first_record", layout::RegionFirstRecord(record.pages)},
               {"region_id", record.region_id},
               {"owner", record.owner},
               {"lease_deadline_unix_ns", record.lease_deadline_unix_ns},
               {"road", record.road},
               {"request_id", record.request_id},
               {"endpoint", record.endpoint},
               {"hold_until_unix_ns", record.hold_until_unix_ns}};
  SetText(&json, "instance_id", LabelText(record.instance_id));
  SetText(&json, "lease_id", LabelText(record.lease_id));
  SetReserved(&json, "reserved", record.reserved);
  return json;
}

Json JsonOf(const layout::ClientValues& record) {
  Json json = {{"client_id", record.client_id},
               {"pid", static_cast<uint32_t>(record.process)},
               {"uid", record.process >> 32},
               {"attached_unix_ns", record.attached_unix_ns},
               {"budget_bytes", record.budget_bytes}};
  SetText(&json, "label", LabelText(record.label));
  SetReserved(&json, "reserved", record.reserved);
  return json;
}

Json JsonOf(const pool::DumpedRecord& record) {
  const layout::PageValues& page = record.page;
  const auto sizes = layout::KeySizes::Unpack(page.key_sizes);
  Json json = JsonOf(layout::StateWord(page.state_word));
  json.update(Json{{"hash", HexNumber(page.hash_low) + HexNumber(page.hash_high).substr(2)},
                   {"text_offset_bytes", page.text_offset},
                   {"namespace_bytes", sizes.namespace_bytes},
                   {"key_bytes", sizes.key_bytes},
                   {"length_bytes", page.length_bytes},
                   {"region_slot", page.region_slot},
                   {"checksum", HexNumber(page.checksum)},
                   {"last_use", page.last_use},
                   {"owner", page.owner},
                   {"global_pins", page.global_pins},
                   {"hold_until_unix_ns", page.hold_until_unix_ns},
                   {"extent_offset_bytes", page.extent_offset_bytes}});
  if (record.home) json["index_home"] = *record.home;
  SetReserved(&json, "reserved", page.reserved);
  return json;
}

Json JsonOf(const pool::DumpedText& text) {
  Json json = JsonOf(text.state);
  SetText(&json, "namespace", text.name_space);
  SetText(&json, "key", text.key);
  return json;
}

Json JsonOf(const pool::DumpedIndex& index) {
  Json json = {{"table", JsonOf(index.table)}, {"entries", Json::array()}};
  for (size_t i = 0; i < index.entries.size(); ++i) {
    const layout::IndexEntry entry = index.entries[i];
    Json one = {{"entry", index.first + i}};
    if (entry.empty() || entry.tombstone()) {
      one["is"] = entry.empty() ? "empty" : "tombstone";
    } else {
      one["is"] = "record";
      one["record"] = entry.record().value();
      one["tag"] = layout::Concat(layout::Hex{entry.bits() >> 32, 8});
    }
    json["entries"].push_back(std::move(one));
  }
  return json;
}

Json JsonOf(const pool::DumpedLeases& leases) {
  Json json = {{"blocks", Json::array()}, {"left_out", leases.left_out}};
  for (const pool::DumpedLeases::Block& block : leases.blocks) {
    Json one = {{"offset_bytes", block.offset_bytes},
                {"client_id", block.owner.client_id()},
                {"client_slot", block.owner.client_slot()},
                {"ordinal", block.owner.ordinal()}};
    for (const auto& [name, value] : block.header) {
      std::string member(name);
      std::ranges::replace(member, ' ', '_');
      one[member] = value;
    }
    if (block.owner.ordinal() != 0) one["slots"] = Json::array();
    for (const auto& [slot, word] : block.slots) {
      one["slots"].push_back({{"slot", slot},
                              {"is", word.pinned() ? "pin" : "lease"},
                              {"record", word.record().value()},
                              {"generation", word.generation().value()}});
    }
    json["blocks"].push_back(std::move(one));
  }
  return json;
}

Json JsonOf(const std::monostate&) { return nullptr; }

Json JsonOf(const pool::Region& region) {
  Json json = {{"slot", region.slot.value()},
               {"kind", layout::RegionKindName(region.kind)},
               {"offset_bytes", region.offset_bytes},
               {"length_bytes", region.length_bytes}};
  if (region.has_id()) json["region_id"] = region.id.value();
  if (region.kind == layout::RegionKind::kPages) {
    json["page_bytes"] = region.page_bytes;
    json["pages"] = region.page_count;
    json["first_record"] = region.first_record.value();
  }
  if (region.kind == layout::RegionKind::kClientCut) {
    json["owner"] = region.owner.value();
    json["road"] = layout::RegionRoadName(region.road);
    json["lease_deadline_unix_ns"] = region.lease_deadline_unix_ns;
    json["request_id"] = region.request_id;
    json["endpoint"] = region.endpoint;
    json["hold_until_unix_ns"] = region.hold_until_unix_ns;
    SetText(&json, "instance_id", region.instance_id);
    SetText(&json, "lease_id", region.lease_id);
  }
  return json;
}

Json JsonOf(const pool::PoolReport::Client& client) {
  Json json = {{"slot", client.slot.value()}, {"lives", client.lives}};
  json.update(JsonOf(client.values));
  return json;
}

Json JsonOf(const pool::FindingList& findings) {
  Json json = Json::array();
  for (const std::string& finding : findings.listed) json.push_back(finding);
  return json;
}

}  // namespace

Json JsonOf(const pool::PoolReport& report) {
  Json json = {{"path", report.path},
               {"served", report.use == pool::PoolUse::kServed},
               {"superblock", JsonOf(report.superblock)},
               {"root", JsonOf(report.root)},
               {"head_bytes", layout::kHeadBytes},
               {"free_bytes", report.free_bytes}};
  json["kinds"] = Json::object();
  for (const pool::PoolReport::Kind& kind : report.kinds) {
    json["kinds"][std::string(layout::RegionKindName(kind.kind))] = {{"regions", kind.regions},
                                                                     {"bytes", kind.bytes}};
  }
  pool::StateCounts all{};
  json["page_sizes"] = Json::array();
  for (const auto& [page_bytes, size] : report.page_sizes) {
    json["page_sizes"].push_back({{"page_bytes", page_bytes},
                                  {"regions", size.regions},
                                  {"pages", pool::SumOf(size.states)},
                                  {"pages_by_state", JsonOf(size.states)}});
    for (size_t i = 0; i < all.size(); ++i) all[i] += size.states[i];
  }
  json["pages"] = pool::SumOf(all);
  json["pages_by_state"] = JsonOf(all);
  json["clients"] = Json::array();
  for (const auto& client : report.clients) json["clients"].push_back(JsonOf(client));
  json["regions"] = Json::array();
  for (const pool::Region& region : report.regions) json["regions"].push_back(JsonOf(region));
  json["offences"] = report.offences;
  return json;
}

Json JsonOf(const pool::CheckReport& report) {
  return {{"path", report.path},
          {"ok", report.ok()},
          {"clean", report.clean},
          {"rebooted", report.rebooted},
          {"regions", report.regions},
          {"pages", report.pages},
          {"pages_by_state", JsonOf(report.states)},
          {"keys", report.keys},
          {"text_bytes", report.text_bytes},
          {"extents", report.extents},
          {"extent_bytes", report.extent_bytes},
          {"index_entries", report.index_entries},
          {"clients", report.clients},
          {"verified_pages", report.verified_pages},
          {"verified_bytes", report.verified_bytes},
          {"offences", JsonOf(report.offences)},
          {"offences_left_out", report.offences.count - report.offences.listed.size()},
          {"mends", JsonOf(report.mends)},
          {"mends_left_out", report.mends.count - report.mends.listed.size()}};
}

Json JsonOf(const pool::Dump& dump) {
  return {{"offset_bytes", dump.offset_bytes},
          {"bytes", HexText(dump.bytes)},
          {"fields", std::visit([](const auto& fields) { return JsonOf(fields); }, dump.fields)}};
}

}  // namespace maru::tools
