// Lease areas: what a client writes. A lease region is a row of units; each unit is 64 blocks of
// 32 KiB, of which block 0 is the directory, written by the server, that names the client of each
// of the others. A client's block of ordinal 0 is its header; those of ordinal n >= 1 hold the
// slots (n - 1) * kLeaseSlotsPerBlock and on. Format: docs/formats/lease_area.md.
//
// The client maps its own blocks read-write and nothing else of them. The server trusts no value it
// finds there: each is bounds-checked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "layout/geometry.h"

namespace maru::layout {

// Who a block belongs to. 0: free.
//    63            32 31         16 15          0
//   |    client id   | client slot |   ordinal   |
class BlockOwner {
 public:
  constexpr BlockOwner() = default;
  constexpr explicit BlockOwner(uint64_t bits) : bits_(bits) {}
  static constexpr BlockOwner Make(uint32_t client_id, uint16_t client_slot, uint16_t ordinal) {
    return BlockOwner(uint64_t{client_id} << 32 | uint64_t{client_slot} << 16 | ordinal);
  }
  constexpr uint64_t bits() const { return bits_; }
  constexpr bool free() const { return bits_ == 0; }
  constexpr uint32_t client_id() const { return static_cast<uint32_t>(bits_ >> 32); }  // >= 1
  constexpr uint16_t client_slot() const { return static_cast<uint16_t>(bits_ >> 16); }
  constexpr uint16_t ordinal() const { return static_cast<uint16_t>(bits_); }

 private:
  uint64_t bits_ = 0;
};

struct LeaseDirectory {
  std::atomic<uint64_t> owners[kLeaseBlocksPerUnit];  // BlockOwner; [0] is the directory's own: 0
  uint64_t reserved[4032];
};
static_assert(sizeof(LeaseDirectory) == kLeaseBlockBytes);

// Block of ordinal 0. Every field is written by the client but for `recall`.
struct LeaseHeader {
  std::atomic<uint64_t> slots_high;     // slots below it were ever filled; seq_cst, before the slot
  std::atomic<uint64_t> touch_head;     // touches written so far; entry i lies at i % entries
  std::atomic<uint64_t> free_pages;     // grants in hand, for audit
  std::atomic<uint64_t> pending_pages;  // pages whose fate is unknown
  std::atomic<uint64_t> held_pages;     // pages handed to the application and not yet back
  std::atomic<uint64_t> last_request;   // number of the last request whose reply was applied
  uint64_t reserved[2];
  // By the server, in the first pool: pages of any pool it wants back.
  std::atomic<uint64_t> recall;
  uint64_t reserved_server[7];
  std::atomic<uint32_t> touches[kTouchRingEntries];  // record numbers
  uint64_t reserved_tail[2032];
};
static_assert(sizeof(LeaseHeader) == kLeaseBlockBytes);
static_assert(offsetof(LeaseHeader, recall) == 64);
static_assert(offsetof(LeaseHeader, touches) == 128);
static_assert(std::is_standard_layout_v<LeaseHeader>);

struct LeaseSlots {
  std::atomic<uint64_t> slots[kLeaseSlotsPerBlock];  // SlotWord
};
static_assert(sizeof(LeaseSlots) == kLeaseBlockBytes);

}  // namespace maru::layout
