// What lies in the pool before and after one call of a handler, and what its answers may be by it.
// An answer for one key and that for one key of a batch are held to the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/world.h"

namespace maru::sim {

class Call {
 public:
  // Looks at the keys now; at the first answer, once more. Keys may repeat.
  // REQUIRES: world outlives this.
  Call(World* world, std::string name_space, std::vector<std::string> keys);

  // Each throws Violation when the answer for a key, by its place, is none that it may be. What
  // others did meanwhile makes several right; a key that was there for the whole call is found, and
  // neither deleted nor missing.
  void ExpectStored(size_t key);  // the answer was True
  enum class Answer : uint8_t { kFound, kMissed };
  void ExpectLookup(size_t key, Answer answer);
  void ExpectDelete(size_t key, wire::DeleteOutcome outcome);
  // Whatever others did.
  void ExpectThereBefore(size_t key);
  void ExpectThereAfter(size_t key);

 private:
  using Truths = std::vector<std::vector<World::Truth>>;

  void LookAgain();
  void Expect(bool held, size_t key, std::string_view what) const;
  bool ThereThroughout(size_t key) const;
  bool RepeatsEarlier(size_t key) const;

  World* const world_;
  const std::string name_space_;
  const std::vector<std::string> keys_;
  const uint64_t steps_before_;
  const Truths before_;
  bool looked_again_ = false;
  Truths after_;
  // What was done meanwhile, the call's own messages included: without any nothing has changed, and
  // after a single one it is the call's own, or the call had none.
  uint64_t steps_ = 0;
};

}  // namespace maru::sim
