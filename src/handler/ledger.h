// What a handler knows about the pages that it holds or held: for each record of each pool, the
// last generation and who has it. Grows with the records that were ever granted, 12 bytes each, in
// chunks.
//
// Not thread-safe: the handler's state lock guards it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "layout/frame.h"
#include "layout/geometry.h"
#include "wire/messages.h"

namespace maru::handler {

enum class Holding : uint8_t {
  kNone = 0,      // not this handler's (any more)
  kHand = 1,      // free, ready for alloc
  kHeld = 2,      // with the application
  kInFlight = 3,  // named in a request whose reply is awaited
  kUnknown = 4,   // its fate is unknown until it is settled
  kStored = 5,    // registered by this handler in that life
  kLingers = 6,   // free, but a hold keeps it out of the hand
};
inline constexpr size_t kHoldings = 7;

class Ledger {
 public:
  struct Entry {
    // The server's generation of the page, to be named in messages.
    Generation generation{0};
    // How often the page was handed out: the number in the handle that the application has. A page
    // that is freed and handed out anew keeps its generation, and settling renews it meanwhile.
    uint32_t handout = 0;
    Holding holding = Holding::kNone;
    bool held_on = false;  // a hold is on its memory
  };

  // The entry of a page, made when it is not there. REQUIRES: pool < layout::kPoolsMax.
  Entry& At(PoolIndex pool, RecordNumber record);
  // nullptr: never held.
  const Entry* Find(PoolIndex pool, RecordNumber record) const;
  Entry* Find(PoolIndex pool, RecordNumber record);

  // Moves an entry of that pool to another holding; keeps the counts.
  void Move(PoolIndex pool, Entry& entry, Holding holding);
  uint64_t Count(PoolIndex pool, Holding holding) const {
    return pools_[pool.value()].counts[static_cast<size_t>(holding)];
  }
  uint64_t Count(Holding holding) const;

  // Every page that the server may believe to be granted to this handler.
  void VisitHeld(const std::function<void(PoolIndex, RecordNumber, Entry&)>& visit);

 private:
  static constexpr uint32_t kChunkLog2 = 10;
  static constexpr uint32_t kChunkEntries = 1u << kChunkLog2;
  struct Chunk {
    std::array<Entry, kChunkEntries> entries;
  };
  struct PoolChunks {
    std::vector<std::unique_ptr<Chunk>> chunks;
    std::array<uint64_t, kHoldings> counts{};
  };
  PoolChunks pools_[layout::kPoolsMax];
};

}  // namespace maru::handler
