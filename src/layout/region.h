// The region table: one record for each contiguous part of a pool that is in use. Pages that the
// server cuts, regions that a client cuts, and the catalogue's own parts (records, key text, index,
// lease blocks, further region tables) are all regions; a unit that no region covers is free.
// Format: docs/formats/region_table.md.
//
// Publication: all fields first, `word` last (release); freeing stores `word` with kind kNone
// first. A crash before `word` is stored leaves the units free: recovery reads nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "layout/geometry.h"

namespace maru::layout {

// Written to pools: numbers are never reused for something else.
enum class RegionKind : uint8_t {
  kNone = 0,
  kPages = 1,        // server-cut: pages of one size
  kClientCut = 2,    // handed whole to a client that cuts it by itself
  kRecords = 3,      // record chunks, one for each unit
  kText = 4,         // slabs of key text
  kIndex = 5,        // room for one index table
  kLeases = 6,       // lease blocks
  kRegionTable = 7,  // a further region table
};
inline constexpr uint8_t kRegionKindLast = 7;

// Which protocol a client-cut region was asked for over: its client is told apart by it, and lives
// and dies by its rules. Written to pools as well.
enum class RegionRoad : uint8_t {
  kMetadata = 0,
  // A client id of more than 63 bytes goes on in lease_id.
  kResourceManager = 1,
};
inline constexpr uint8_t kRegionRoadLast = 1;

class RegionWord {
 public:
  //  63                 32 31              8 7       0
  //  |       cut         |   reserved 0    |  kind   |    cut: grows each time the slot is used
  constexpr RegionWord() = default;
  constexpr explicit RegionWord(uint64_t bits) : bits_(bits) {}
  static constexpr RegionWord Make(RegionKind kind, uint32_t cut) {
    return RegionWord(uint64_t{cut} << 32 | static_cast<uint8_t>(kind));
  }
  constexpr uint64_t bits() const { return bits_; }
  constexpr RegionKind kind() const { return static_cast<RegionKind>(bits_ & 0xFF); }
  constexpr uint32_t cut() const { return static_cast<uint32_t>(bits_ >> 32); }

 private:
  uint64_t bits_ = 0;
};

struct RegionRecord {
  std::atomic<uint64_t> word;          // RegionWord
  std::atomic<uint64_t> offset_bytes;  // unit-aligned, outside the head
  std::atomic<uint64_t> length_bytes;  // multiple of the unit
  std::atomic<uint64_t> page_bytes;    // kPages: multiple of kPageAlignBytes; else 0
  std::atomic<uint64_t> pages;         // kPages: page count (32) | first record (32) << 32; else 0
  std::atomic<uint64_t> region_id;     // kPages, kClientCut: the id (31 bits); else 0
  std::atomic<uint64_t> owner;         // kClientCut: client id (32) or 0 when ownerless
  std::atomic<uint64_t> lease_deadline_unix_ns;  // kClientCut: of its client's lease, 0: none
  uint8_t instance_id[kLabelBytes];              // kClientCut: text, zero-padded
  uint8_t lease_id[kLabelBytes];                 // kClientCut: text, zero-padded
  std::atomic<uint64_t> road;                    // kClientCut: RegionRoad; else 0
  std::atomic<uint64_t> request_id;              // kClientCut over kResourceManager; else 0
  std::atomic<uint64_t> endpoint;                // kClientCut over kMetadata: whose; else 0
  // kClientCut: not lent anew before; bytes in it were told to a reader without leases.
  std::atomic<uint64_t> hold_until_unix_ns;
  uint64_t reserved[4];  // zero
};
static_assert(sizeof(RegionRecord) == 256);
static_assert(offsetof(RegionRecord, instance_id) == 64);
static_assert(offsetof(RegionRecord, road) == 192);
static_assert(offsetof(RegionRecord, endpoint) == 208);
static_assert(offsetof(RegionRecord, reserved) == 224);
static_assert(std::is_standard_layout_v<RegionRecord>);

constexpr uint64_t PackRegionPages(uint32_t page_count, uint32_t first_record) {
  return uint64_t{first_record} << 32 | page_count;
}
constexpr uint32_t RegionPageCount(uint64_t pages) { return static_cast<uint32_t>(pages); }
constexpr uint32_t RegionFirstRecord(uint64_t pages) { return static_cast<uint32_t>(pages >> 32); }

}  // namespace maru::layout
