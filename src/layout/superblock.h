// The head of a pool: the superblock, which `maru pool init` writes once, and the root, the words
// that the server changes. Format: docs/formats/superblock.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "layout/geometry.h"
#include "maru/status.h"

namespace maru::layout {

using Uuid = std::array<uint8_t, 16>;

// The 32 bytes at offset 0 by which other tools recognise a device of this kind.
struct DeviceHeader {
  char magic[8];     // "MARUDEV\0"
  uint32_t version;  // 1
  Uuid uuid;
  uint32_t reserved;  // 0
};
static_assert(sizeof(DeviceHeader) == 32);
static_assert(offsetof(DeviceHeader, uuid) == 12 && offsetof(DeviceHeader, reserved) == 28);

struct Superblock {
  DeviceHeader device;        // 0
  char magic[8];              // 32  "MARUPOOL"
  uint32_t layout_version;    // 40
  uint32_t superblock_bytes;  // 44  512
  uint64_t pool_bytes;        // 48  multiple of kUnitBytes; equals the size of the file
  uint64_t flags;             // 56  kFlag...
  uint64_t created_unix_ns;   // 64
  uint32_t region_id_base;    // 72  multiple of kRegionIdsPerPool
  uint32_t client_slots;      // 76  kClientSlots
  uint64_t unit_bytes;        // 80  kUnitBytes
  uint8_t reserved[416];      // 88  zero
  uint64_t checksum;          // 504 XXH3 (64 bits) of bytes 0 .. 503
};
static_assert(sizeof(Superblock) == 512);
static_assert(offsetof(Superblock, magic) == 32);
static_assert(offsetof(Superblock, reserved) == 88);
static_assert(offsetof(Superblock, checksum) == 504);
static_assert(std::has_unique_object_representations_v<Superblock>);

inline constexpr uint64_t kFlagChecksums = 1;  // a store carries the XXH3 of its bytes
inline constexpr uint64_t kFlagsKnown = kFlagChecksums;

// Fills a superblock, checksum included. REQUIRES: pool_bytes within limits and unit-aligned.
Superblock MakeSuperblock(const Uuid& uuid, uint64_t pool_bytes, uint64_t flags,
                          uint32_t region_id_base, uint64_t created_unix_ns);

// A pure validator of the first 512 bytes of something that may be a pool of file_bytes bytes.
// Says what is wrong and what to do: foreign (no magic), torn (checksum), another layout version
// (names both), another size than its file's. Reads nothing outside `bytes`.
Status ValidateSuperblock(std::span<const std::byte> bytes, uint64_t file_bytes, Superblock* out);

// The table word: which index tables are in use. One 64-bit atomic; `sequence` grows with every
// store and never repeats, also over restarts.
//
//    63                                        16 15        8 7         0
//   +--------------------------------------------+-----------+-----------+
//   |                  sequence                  | old table |  current  |
//   +--------------------------------------------+-----------+-----------+
class TableWord {
 public:
  static constexpr uint8_t kNone = 0xFF;
  constexpr TableWord() = default;
  constexpr explicit TableWord(uint64_t bits) : bits_(bits) {}
  static constexpr TableWord Make(uint64_t sequence, uint8_t old_table, uint8_t current) {
    return TableWord(sequence << 16 | uint64_t{old_table} << 8 | current);
  }
  constexpr uint64_t bits() const { return bits_; }
  constexpr uint64_t sequence() const { return bits_ >> 16; }
  constexpr uint8_t old_table() const { return static_cast<uint8_t>(bits_ >> 8); }
  constexpr uint8_t current() const { return static_cast<uint8_t>(bits_); }

 private:
  uint64_t bits_ = 0;
};

// Where an index table lies. Written before a table word names it; not changed while one does.
//   bits 63..8: offset in the pool / 256; bits 7..0: log2 of the number of entries; 0: unused.
class TableDescriptor {
 public:
  constexpr TableDescriptor() = default;
  constexpr explicit TableDescriptor(uint64_t bits) : bits_(bits) {}
  static constexpr TableDescriptor Make(uint64_t offset_bytes, uint8_t entries_log2) {
    return TableDescriptor((offset_bytes >> 8) << 8 | entries_log2);
  }
  constexpr uint64_t bits() const { return bits_; }
  constexpr uint64_t offset_bytes() const { return bits_ & ~uint64_t{0xFF}; }
  constexpr uint8_t entries_log2() const { return static_cast<uint8_t>(bits_); }
  // Unit-aligned, a size within the limits, inside the pool and outside its head.
  bool Valid(uint64_t pool_bytes) const;

 private:
  uint64_t bits_ = 0;
};

// The clock of last_use counts single uses: no pool's life has as many.
inline constexpr uint64_t kUseTickMax = uint64_t{1} << 62;

// The words that the server changes, at kRootOffset. Clients read them.
struct Root {
  std::atomic<uint64_t> epoch;                // drawn at each start of a server; 0: never served
  std::atomic<uint64_t> table_word;           // TableWord
  std::atomic<uint64_t> record_high;          // record numbers from 1 below it were ever cut
  std::atomic<uint64_t> next_region_ordinal;  // region id = base + ordinal; never falls
  std::atomic<uint64_t> next_client_id;       // never falls; 2^32: all were given
  std::atomic<uint64_t> clean;                // 1: closed by a server that stopped in order
  std::atomic<uint64_t> boot_id[2];         // of the last server's machine (random text's 128 bits)
  std::atomic<uint64_t> starts;             // how often a server opened the pool
  std::atomic<uint64_t> region_slots_high;  // region slots from 0 below it were ever used
  // The clock of last_use: grows with each drain, kUseTickMax at most.
  std::atomic<uint64_t> use_tick;
  // How many were ever put into lapsed_leases: the next one goes to that number modulo its size.
  std::atomic<uint64_t> lapsed_count;
  uint64_t reserved[52];                       // zero
  std::atomic<uint64_t> tables[kIndexTables];  // TableDescriptor
  // Leases of clients of upstream's protocols that have lapsed, the newest of them; 0: none.
  std::atomic<uint64_t> lapsed_leases[kLapsedLeases];
  uint64_t reserved_tail[128];  // zero
};
static_assert(sizeof(Root) == 4096);
static_assert(offsetof(Root, lapsed_count) == 88);
static_assert(offsetof(Root, lapsed_leases) == 1024);
static_assert(offsetof(Root, tables) == 512);
static_assert(std::is_standard_layout_v<Root>);

// At kRegionDirectoryOffset: the units of the further region tables, in order; 0: none.
struct RegionDirectory {
  std::atomic<uint64_t> units[kRegionTablesMax];
  uint64_t reserved[448];
};
static_assert(sizeof(RegionDirectory) == 4096);

}  // namespace maru::layout
