// The client table: one record for each client slot, written by the server. It outlives the server,
// so that the next one knows who may still hold leases; whether a client lives is told by the lock
// on its liveness byte alone. Format: docs/formats/lease_area.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "layout/geometry.h"

namespace maru::layout {

struct ClientRecord {
  std::atomic<uint64_t> client_id;  // 0: the slot is free; stored last (release)
  std::atomic<uint64_t> process;    // pid (32) | uid (32) << 32, as the kernel told them
  std::atomic<uint64_t> attached_unix_ns;
  std::atomic<uint64_t> budget_bytes;  // 0: no limit
  uint8_t label[kLabelBytes];          // instance_id, zero-padded text; may repeat
  uint64_t reserved[4];
};
static_assert(sizeof(ClientRecord) == 128);
static_assert(offsetof(ClientRecord, label) == 32);
static_assert(std::is_standard_layout_v<ClientRecord>);
static_assert(kClientTableOffset + kClientSlots * sizeof(ClientRecord) == kLivenessOffset);

}  // namespace maru::layout
