// Regions that clients of upstream's protocols have asked for and that are not there yet: their
// memory comes in steps, with others' requests between. Plain state; the rules are in lending.h.
//
// The server alone knows of them: nothing tells of one in the pool, so a server that ends in
// between leaves free units, and who asked was not answered.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pool/pool.h"

namespace maru::engine {

struct AskedRegion {
  uint64_t bytes = 0;
  pool::Pool::ClientCut client;
  std::vector<std::string> only;  // names of pools; none: any
  uint64_t lease_ns = 0;

  std::vector<size_t> pools;  // to look in, in that order

  // Where the search for room is: one of those, and what was tried there. In a pool that is full as
  // well, as far as its pages may go (ClientRoom), but only when none has the room as it is.
  enum class Effort : uint8_t { kTake, kMakeRoom };
  Effort effort = Effort::kTake;
  size_t at = 0;              // of `pools`
  int tries = 0;              // in that pool
  uint64_t largest_pool = 0;  // bytes, of those that were looked at
  Status refused;             // the first refusal

  // Of that pool. Undoing: it was refused memory, and what it had goes back.
  enum class State : uint8_t { kSearching, kReserving, kUndoing };
  State state = State::kSearching;
  pool::Pool::ClientCutting cutting;
};

struct AskedRegions {
  static constexpr size_t kAskedMax = 4096;

  uint64_t next = 1;
  std::map<uint64_t, AskedRegion> all;  // by number; none is used twice
};

}  // namespace maru::engine
