// The memory of a pool, mapped read-write by the server: a file (pool_file.h) or plain memory
// (memory_backing.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "layout/superblock.h"
#include "maru/result.h"
#include "maru/status.h"
#include "os/mapping.h"

namespace maru::pool {

// The one word of a new pool that is not zero, beside the superblock: no index table is named.
inline constexpr uint64_t kTableWordAtInit =
    layout::TableWord::Make(0, layout::TableWord::kNone, layout::TableWord::kNone).bits();

class Backing {
 public:
  virtual ~Backing() = default;
  virtual std::byte* base() = 0;
  virtual uint64_t bytes() const = 0;
  // Makes sure that the range has memory behind it, so that nobody who reads it meets a hole.
  // ResourceExhausted names the bytes and what is free. kHuge: huge pages, where they can be had.
  virtual Status Reserve(uint64_t offset_bytes, uint64_t length_bytes, os::PageHint pages) = 0;
  // For what is reserved in steps, of which a later one may be refused: like Reserve, and says
  // whether any of it is new to the pool; and that gives it back to the machine.
  // REQUIRES for Discard: nothing lies there, and nobody looks.
  virtual Result<bool> ReserveNew(uint64_t offset_bytes, uint64_t length_bytes) {
    const Status status = Reserve(offset_bytes, length_bytes, os::PageHint::kDefault);
    if (!status.ok()) return status;
    return false;
  }
  virtual Status Discard(uint64_t /*offset_bytes*/, uint64_t /*length_bytes*/) {
    return OkStatus();
  }
  // Brings all that was stored to where it outlives the machine's power, if there is such a place.
  virtual Status Flush() { return OkStatus(); }
  virtual std::string name() const = 0;
};

}  // namespace maru::pool
