// The constants of a pool's geometry. Every number here was written into pools: a change of one of
// them is a new layout version (docs/formats/superblock.md).
//
// A pool is one file or device, seen as units of 2 MiB. Unit 0 is the head; all other units belong
// to a region (region.h) or are free:
//
//   0x000000  superblock: what never changes after `maru pool init`            4 KiB
//   0x001000  root: the words that the server changes (superblock.h)            4 KiB
//   0x002000  region table directory: where further region tables lie           4 KiB
//   0x010000  client table: 1,024 records of 128 bytes (client.h)               128 KiB
//   0x030000  liveness bytes: one for each client slot and one for the server; never read or
//             written, they carry OFD locks only                                4 KiB
//   0x040000  namespace table, reserved for quotas; zero in this version         64 KiB
//   0x050000  replica table, reserved for other hosts; zero in this version      64 KiB
//   0x080000  region table, first part: 2,048 records of 256 bytes              512 KiB
//   0x100000  record directory: the unit of each record chunk                   1 MiB
#pragma once

#include <cstdint>

namespace maru::layout {

inline constexpr uint32_t kLayoutVersion = 1;

inline constexpr uint64_t kUnitBytes = 2ull << 20;
inline constexpr uint64_t kHeadBytes = kUnitBytes;
inline constexpr uint64_t kPoolBytesMin = 16 * kUnitBytes;
inline constexpr uint64_t kPoolBytesMax = 1ull << 46;  // text words hold 43 bits of 8-byte granules

inline constexpr uint64_t kSuperblockOffset = 0;
inline constexpr uint64_t kRootOffset = 0x1000;
inline constexpr uint64_t kRegionDirectoryOffset = 0x2000;
inline constexpr uint64_t kClientTableOffset = 0x10000;
inline constexpr uint64_t kLivenessOffset = 0x30000;
inline constexpr uint64_t kNamespaceTableOffset = 0x40000;
inline constexpr uint64_t kReplicaTableOffset = 0x50000;
inline constexpr uint64_t kRegionTableOffset = 0x80000;
inline constexpr uint64_t kRecordDirectoryOffset = 0x100000;

// Clients. Slot numbers are 0 .. kClientSlots - 1; the liveness byte of slot s is
// kLivenessOffset + s, the server's is kServerLivenessOffset.
inline constexpr uint32_t kClientSlots = 1024;
inline constexpr uint64_t kServerLivenessOffset = kLivenessOffset + kClientSlots;

// Regions.
inline constexpr uint32_t kRegionTableEntriesFirst = 2048;
inline constexpr uint32_t kRegionTablesMax = 64;  // further tables, one unit each
inline constexpr uint32_t kRegionTableEntriesUnit = kUnitBytes / 256;
inline constexpr uint32_t kRegionSlotsMax =
    kRegionTableEntriesFirst + kRegionTablesMax * kRegionTableEntriesUnit;
inline constexpr uint32_t kRegionIdsPerPool = 1u << 20;  // ids of a pool start at a multiple of it
inline constexpr uint32_t kRegionIdMax = (1u << 31) - 1;

// Leases that have lapsed and that a pool remembers.
inline constexpr uint32_t kLapsedLeases = 256;

// Records. Number 0 and the last one are never used: they mean "empty" and "tombstone" in the
// index.
inline constexpr uint32_t kRecordBytes = 128;
inline constexpr uint32_t kRecordsPerChunkLog2 = 14;
inline constexpr uint32_t kRecordsPerChunk = 1u << kRecordsPerChunkLog2;  // 2 MiB
inline constexpr uint32_t kRecordChunksMax = 1u << 18;
inline constexpr uint32_t kRecordNumberMax = 0xFFFFFFFEu;

// Pages.
inline constexpr uint64_t kPageBytesMin = 512;
inline constexpr uint64_t kPageAlignBytes = 512;
inline constexpr uint32_t kGenerationMax = (1u << 31) - 1;  // then the page is WORN

// Key text: the namespace, then the key, in blocks of a size class within slabs.
inline constexpr uint32_t kKeyBytesMax = 64 * 1024;
inline constexpr uint32_t kNamespaceBytesMax = 255;
inline constexpr uint64_t kTextGranuleBytes = 8;
inline constexpr uint64_t kTextSlabBytes = 128ull * 1024;

// The index.
inline constexpr uint32_t kIndexTables = 64;  // descriptors in the root
// Tables of fewer entries than a unit holds are what simulations of growth use: every table has
// whole units, so they save nothing, and no server makes them by itself.
inline constexpr uint32_t kIndexEntriesLog2Min = 4;
inline constexpr uint32_t kIndexEntriesLog2Unit = 18;  // 2 MiB
inline constexpr uint32_t kIndexEntriesLog2Max = 33;

// Lease areas: blocks of 32 KiB within lease regions; block 0 of each unit is its directory.
inline constexpr uint64_t kLeaseBlockBytes = 32ull * 1024;
inline constexpr uint32_t kLeaseBlocksPerUnit = kUnitBytes / kLeaseBlockBytes;
inline constexpr uint32_t kLeaseSlotsPerBlock = kLeaseBlockBytes / 8;
inline constexpr uint32_t kLeaseBlocksPerClientMax = 4097;  // its header and 16,777,216 slots
inline constexpr uint32_t kTouchRingEntries = 4096;

inline constexpr uint32_t kLabelBytes = 64;  // instance_id of a client, for people

}  // namespace maru::layout
