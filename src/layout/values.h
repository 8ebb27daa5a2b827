// Plain copies of what lies in a pool: what validators judge and describe.h prints. Each has the
// bytes of the shared struct of the same name, so a copy is also made from a file's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "layout/client.h"
#include "layout/geometry.h"
#include "layout/page_record.h"
#include "layout/region.h"
#include "layout/superblock.h"

namespace maru::layout {

struct RootValues {
  uint64_t epoch, table_word, record_high, next_region_ordinal, next_client_id, clean;
  uint64_t boot_id[2];
  uint64_t starts, region_slots_high, use_tick, lapsed_count;
  uint64_t reserved[52];
  uint64_t tables[kIndexTables];
  uint64_t lapsed_leases[kLapsedLeases];
  uint64_t reserved_tail[128];
};
static_assert(sizeof(RootValues) == sizeof(Root));
static_assert(offsetof(RootValues, use_tick) == offsetof(Root, use_tick));
static_assert(offsetof(RootValues, tables) == offsetof(Root, tables));
static_assert(offsetof(RootValues, lapsed_leases) == offsetof(Root, lapsed_leases));

struct RegionValues {
  uint64_t word, offset_bytes, length_bytes, page_bytes, pages, region_id, owner;
  uint64_t lease_deadline_unix_ns;
  uint8_t instance_id[kLabelBytes];
  uint8_t lease_id[kLabelBytes];
  uint64_t road, request_id, endpoint, hold_until_unix_ns;
  uint64_t reserved[4];
};
static_assert(sizeof(RegionValues) == sizeof(RegionRecord));
static_assert(offsetof(RegionValues, instance_id) == offsetof(RegionRecord, instance_id));
static_assert(offsetof(RegionValues, reserved) == offsetof(RegionRecord, reserved));

struct PageValues {
  uint64_t state_word, hash_low, hash_high, text_offset, key_sizes, length_bytes, region_slot;
  uint64_t checksum, last_use, owner, global_pins, hold_until_unix_ns, extent_offset_bytes;
  uint64_t reserved[3];
};
static_assert(sizeof(PageValues) == sizeof(PageRecord));
static_assert(offsetof(PageValues, checksum) == offsetof(PageRecord, checksum));
static_assert(offsetof(PageValues, extent_offset_bytes) ==
              offsetof(PageRecord, extent_offset_bytes));
static_assert(offsetof(PageValues, reserved) == offsetof(PageRecord, reserved));

struct ClientValues {
  uint64_t client_id, process, attached_unix_ns, budget_bytes;
  uint8_t label[kLabelBytes];
  uint64_t reserved[4];
};
static_assert(sizeof(ClientValues) == sizeof(ClientRecord));
static_assert(offsetof(ClientValues, label) == offsetof(ClientRecord, label));

// From the bytes of a file. REQUIRES: bytes.size() >= sizeof(Values)
template <typename Values>
Values ValuesFrom(std::span<const std::byte> bytes) {
  static_assert(std::has_unique_object_representations_v<Values>);
  Values values{};
  std::memcpy(&values, bytes.data(), sizeof(values));
  return values;
}

// From a mapped pool, also one that is being served: each word is loaded once, the publishing word
// first (acquire; its partner is the writer's release store). A record that changes meanwhile may
// give values that never stood together.
RootValues ReadRoot(const Root& root);
RegionValues ReadRegion(const RegionRecord& record);
PageValues ReadPage(const PageRecord& record);
ClientValues ReadClient(const ClientRecord& record);

}  // namespace maru::layout
