#include "sim/simulation.h"

#include <cstdio>

#include "sim/coverage.h"

namespace maru::sim {

WorldOptions OptionsOf(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.pools = seed % 5 == 0 ? 2 : 1;
  options.checksums = seed % 3 == 0;
  options.eviction = seed % 7 == 0 ? engine::Eviction::kNone : engine::Eviction::kLeastRecentlyUsed;
  // Pages of half a unit fill a pool soon, small ones hardly ever.
  options.page_bytes = seed % 2 == 0 ? 1024 * 1024 : 128 * 1024;
  // Some processes with pages of half the size: regions are cut anew from one to the other.
  if (seed % 4 == 2) options.other_page_bytes = options.page_bytes / 2;
  // A table of 16 entries grows with the first keys; one of a unit never does.
  options.index_entries_log2_min =
      seed % 8 == 0 ? layout::kIndexEntriesLog2Unit : layout::kIndexEntriesLog2Min;
  options.aged = seed % 9 == 0;
  options.repeats = seed % 6 == 1;
  const auto& rare = RarePoints();
  options.target_point = rare[seed % rare.size()];
  // What the point needs to be met at all.
  if (options.target_point == "writer:worn") options.aged = true;
  if (options.target_point == "region:freed" || options.target_point == "pool:records-released") {
    options.other_page_bytes = options.page_bytes / 2;
  }
  if (seed % 16 == 11 || options.target_point == "text-room:emptied") {
    options.long_keys = true;
    options.page_bytes = 256 * 1024;
    if (options.other_page_bytes != 0) options.other_page_bytes = options.page_bytes / 2;
    return options;
  }
  // Regions of several units, which a server can leave when they have memory for some of them.
  const bool grows =
      options.target_point == "region:grown" || options.target_point == "region:shortened";
  if (grows || seed % 10 == 3) options.pool_bytes *= 4;
  return options;
}

Simulation::Simulation(const WorldOptions& options, Tally* tally) : world_(options, tally) {
  world_.interleave = [this] { Interleave(); };
}

void Simulation::Run(uint64_t steps) {
  for (uint64_t step = 0; step < steps; ++step) {
    if (world_.options().aged && step % 256 == 255) world_.AgePages();
    Step();
    world_.CheckInvariants();
    for (const auto& process : processes_) process->CheckMemory();
  }
  for (const auto& process : processes_) {
    if (!world_.server_up()) world_.StartServer();
    if (world_.Happens(500)) {
      process->CloseOrderly();
    } else {
      process->Kill();
    }
  }
  processes_.clear();
  world_.CheckNothingLeaks();
}

void Simulation::Spawn() {
  if (!world_.server_up()) world_.StartServer();
  const uint32_t pid = next_pid_++;
  world_.tally().Count("process started");
  processes_.push_back(std::make_unique<Process>(&world_, pid, pid % 4 == 0 ? "other" : ""));
}

void Simulation::Kill() {
  const size_t at = world_.chance().Below(processes_.size());
  world_.tally().Count("fault: process killed");
  processes_[at]->Kill();
  processes_.erase(processes_.begin() + static_cast<ptrdiff_t>(at));
}

void Simulation::Close() {
  const size_t at = world_.chance().Below(processes_.size());
  world_.tally().Count("process closed");
  processes_[at]->CloseOrderly();
  processes_.erase(processes_.begin() + static_cast<ptrdiff_t>(at));
}

void Simulation::Step() {
  if (world_.tally().trace) std::printf("step\n");
  const uint64_t draw = world_.chance().Below(1000);
  world_.clock().Advance(static_cast<int64_t>(world_.chance().Below(40'000'000)));
  world_.WriteWhatIsDue();
  if (processes_.size() < 2 || (processes_.size() < kProcessesMax && draw < 20)) return Spawn();
  if (draw < 28) return Kill();
  if (draw < 32) return Close();
  if (draw < 37) {
    world_.tally().Count("fault: server killed");
    return world_.KillServer();
  }
  if (draw < 40) return world_.StopServer();
  if (draw < 56) return world_.MakeRoom();
  if (draw < 160) {
    if (world_.Happens(50)) world_.ArmDeath(1 + world_.chance().Below(6));
    world_.TickServer();
    return world_.DisarmDeath();
  }
  if (draw < 300) return world_.DeliverQueued();
  if (!world_.server_up() && draw < 700) return world_.StartServer();
  processes_[world_.chance().Below(processes_.size())]->Act();
}

void Simulation::Interleave() {
  if (nesting_ >= kNestingMax || !world_.Happens(250)) return;
  ++nesting_;
  if (world_.Happens(200)) {
    world_.DeliverQueued();
  } else if (!processes_.empty()) {
    Process& other = *processes_[world_.chance().Below(processes_.size())];
    if (other.alive() && !other.busy()) {
      world_.tally().Count("interleaved");
      other.Act();
    }
  }
  --nesting_;
}

}  // namespace maru::sim
