#include "layout/values.h"

#include <atomic>

namespace maru::layout {
namespace {

// Acquire, also where a record's publishing word was loaded acquire before: the fields of a record
// that is reused meanwhile are then no older than that word. Partner: the writer's release store.
uint64_t Get(const std::atomic<uint64_t>& word) { return word.load(std::memory_order_acquire); }

template <typename T, size_t kCount>
void CopyWords(T (&to)[kCount], const T (&from)[kCount]) {
  std::memcpy(to, from, sizeof(to));
}

}  // namespace

RootValues ReadRoot(const Root& root) {
  RootValues values{};
  values.epoch = Get(root.epoch);
  values.table_word = Get(root.table_word);
  values.record_high = Get(root.record_high);
  values.next_region_ordinal = Get(root.next_region_ordinal);
  values.next_client_id = Get(root.next_client_id);
  values.clean = Get(root.clean);
  values.boot_id[0] = Get(root.boot_id[0]);
  values.boot_id[1] = Get(root.boot_id[1]);
  values.starts = Get(root.starts);
  values.region_slots_high = Get(root.region_slots_high);
  values.use_tick = Get(root.use_tick);
  values.lapsed_count = Get(root.lapsed_count);
  CopyWords(values.reserved, root.reserved);
  for (uint32_t i = 0; i < kIndexTables; ++i) values.tables[i] = Get(root.tables[i]);
  for (uint32_t i = 0; i < kLapsedLeases; ++i) {
    values.lapsed_leases[i] = Get(root.lapsed_leases[i]);
  }
  CopyWords(values.reserved_tail, root.reserved_tail);
  return values;
}

RegionValues ReadRegion(const RegionRecord& record) {
  RegionValues values{};
  values.word = Get(record.word);
  values.offset_bytes = Get(record.offset_bytes);
  values.length_bytes = Get(record.length_bytes);
  values.page_bytes = Get(record.page_bytes);
  values.pages = Get(record.pages);
  values.region_id = Get(record.region_id);
  values.owner = Get(record.owner);
  values.lease_deadline_unix_ns = Get(record.lease_deadline_unix_ns);
  CopyWords(values.instance_id, record.instance_id);
  CopyWords(values.lease_id, record.lease_id);
  values.road = Get(record.road);
  values.request_id = Get(record.request_id);
  values.endpoint = Get(record.endpoint);
  values.hold_until_unix_ns = Get(record.hold_until_unix_ns);
  CopyWords(values.reserved, record.reserved);
  return values;
}

PageValues ReadPage(const PageRecord& record) {
  PageValues values{};
  values.state_word = Get(record.state_word);
  values.hash_low = Get(record.hash_low);
  values.hash_high = Get(record.hash_high);
  values.text_offset = Get(record.text_offset);
  values.key_sizes = Get(record.key_sizes);
  values.length_bytes = Get(record.length_bytes);
  values.region_slot = Get(record.region_slot);
  values.checksum = Get(record.checksum);
  values.last_use = Get(record.last_use);
  values.owner = Get(record.owner);
  values.global_pins = Get(record.global_pins);
  values.hold_until_unix_ns = Get(record.hold_until_unix_ns);
  values.extent_offset_bytes = Get(record.extent_offset_bytes);
  CopyWords(values.reserved, record.reserved);
  return values;
}

ClientValues ReadClient(const ClientRecord& record) {
  ClientValues values{};
  values.client_id = Get(record.client_id);
  values.process = Get(record.process);
  values.attached_unix_ns = Get(record.attached_unix_ns);
  values.budget_bytes = Get(record.budget_bytes);
  CopyWords(values.label, record.label);
  CopyWords(values.reserved, record.reserved);
  return values;
}

}  // namespace maru::layout
