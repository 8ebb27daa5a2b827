// The record of one page, or of one extent of a client-cut region: 128 bytes in a record chunk.
// Format: docs/formats/page_record.md.
//
// Records are type-stable: memory that once held records holds records for ever, so that the
// generation of a record survives its region. Only the server writes them. Each field that a reader
// may read while the server writes is an atomic; orders are in docs/memory_model.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "layout/geometry.h"

namespace maru::layout {

struct PageRecord {
  // First cache line: all that a reader reads.
  std::atomic<uint64_t> state_word;  // StateWord
  std::atomic<uint64_t> hash_low;    // 128-bit hash of namespace and key (key_hash.h)
  std::atomic<uint64_t> hash_high;
  std::atomic<uint64_t> text_offset;   // bytes from the pool's start, 8-byte aligned; 0: no text
  std::atomic<uint64_t> key_sizes;     // key bytes (32) | namespace bytes (16) << 32 | 0 (16)
  std::atomic<uint64_t> length_bytes;  // of the stored bytes, at most the page size
  std::atomic<uint64_t> region_slot;   // of the region that the page lies in (32) | 0 (32)
  std::atomic<uint64_t> checksum;      // XXH3 (64 bits) of the stored bytes, in a --checksum pool

  // Second cache line: the server's.
  std::atomic<uint64_t> last_use;     // tick of the last known use, for recency across restarts
  std::atomic<uint64_t> owner;        // client id (32) that registered the key | 0 (32)
  std::atomic<uint64_t> global_pins;  // pins that came over a wire that names no client
  // Not reused before: a page told to a reader without leases.
  std::atomic<uint64_t> hold_until_unix_ns;
  // Of an extent: where it begins within its region, for readers too. 0 for a page.
  std::atomic<uint64_t> extent_offset_bytes;
  uint64_t reserved[3];  // zero
};
static_assert(sizeof(PageRecord) == kRecordBytes);
static_assert(std::is_standard_layout_v<PageRecord>);
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);
static_assert(offsetof(PageRecord, checksum) == 56);
static_assert(offsetof(PageRecord, last_use) == 64);
static_assert(offsetof(PageRecord, extent_offset_bytes) == 96);
static_assert(offsetof(PageRecord, reserved) == 104);

// At kRecordDirectoryOffset: the unit of each record chunk; 0: none. Chunk c holds the records
// c * kRecordsPerChunk and on. Entries are stored release after the chunk's memory is reserved, and
// never change again.
struct RecordDirectory {
  std::atomic<uint32_t> units[kRecordChunksMax];
};
static_assert(sizeof(RecordDirectory) == 1 << 20);
static_assert(kRecordDirectoryOffset + sizeof(RecordDirectory) == kHeadBytes);

struct KeySizes {
  uint32_t key_bytes = 0;
  uint16_t namespace_bytes = 0;

  constexpr uint64_t Pack() const { return uint64_t{namespace_bytes} << 32 | key_bytes; }
  static constexpr KeySizes Unpack(uint64_t bits) {
    return {static_cast<uint32_t>(bits), static_cast<uint16_t>(bits >> 32)};
  }
  constexpr uint64_t text_bytes() const { return uint64_t{key_bytes} + namespace_bytes; }
  // Within the limits of geometry.h, reserved bits zero.
  static bool Valid(uint64_t bits);
};

}  // namespace maru::layout
