// One seed: a world, its processes, and what happens to them step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/process.h"
#include "sim/tally.h"
#include "sim/world.h"

namespace maru::sim {

// What the seed decides before its first step.
WorldOptions OptionsOf(uint64_t seed);

class Simulation {
 public:
  // REQUIRES: tally outlives this.
  Simulation(const WorldOptions& options, Tally* tally);

  // Throws Violation at the first promise that does not hold.
  void Run(uint64_t steps);

 private:
  // A process that acts while another waits for its answer, and one that acts while that one waits.
  static constexpr int kNestingMax = 2;
  static constexpr size_t kProcessesMax = 5;

  void Spawn();
  void Kill();
  void Close();
  void Step();
  void Interleave();

  World world_;
  std::vector<std::unique_ptr<Process>> processes_;
  uint32_t next_pid_ = 1;
  int nesting_ = 0;
};

}  // namespace maru::sim
