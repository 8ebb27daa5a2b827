// Uses of keys: those that the server sees itself, and those that clients leave in the touch rings
// of their lease areas, which are taken in from time to time.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/core.h"

namespace maru::engine {

class Touches {
 public:
  // A step that has taken in as many leaves the remaining rings to the next: about 2 ms.
  static constexpr uint64_t kPerStep = 8192;
  enum class Left : uint8_t { kNone, kSome };

  explicit Touches(Core* core) : core_(core) {}

  // The key was used now.
  void Mark(Stock* stock, RecordNumber record);

  // What a step that evicts does first: takes in what lies in the rings, as far as its bound goes.
  void Drain();
  // A round through all rings, a bounded part of it with each call: a ring that fills up quickly
  // gets no more turns than others. kSome: the round is not over.
  Left DrainRound();

 private:
  uint64_t rings() const { return core_->clients.all().size() * core_->stocks.size(); }
  // From the next ring on. Returns how many were looked at.
  uint64_t DrainRings(uint64_t rings_max);
  // How many entries it held.
  uint64_t DrainRing(Stock* stock, ClientSlot slot);
  void TakeIn(Stock* stock, std::span<const RecordNumber> records);

  Core* const core_;
  uint64_t next_ring_ = 0;  // rings are numbered client by client, pool by pool
  uint64_t left_in_round_ = 0;
  std::vector<RecordNumber> touched_;  // of one ring, at most kTouchRingEntries
};

}  // namespace maru::engine
