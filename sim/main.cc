// Runs the real engine and the real handlers of many instances against each other, from seeds.
//
//   maru_sim --seeds 1000 --steps 2000           the test
//   maru_sim --first 4711 --seeds 1 --verbose    one seed again

#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "base/check.h"
#include "sim/process.h"
#include "sim/world.h"

namespace maru::sim {
namespace {

constexpr int kNestingMax = 2;
constexpr uint64_t kTakenMin = 10;

struct RunOptions {
  uint64_t first = 1, seeds = 1000, steps = 2000;
  bool verbose = false;
  bool coverage = true;
};

class Simulation {
 public:
  Simulation(const WorldOptions& options, Tally* tally) : world_(options, tally) {
    world_.interleave = [this] { Interleave(); };
  }

  void Run(uint64_t steps) {
    for (uint64_t step = 0; step < steps; ++step) {
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

 private:
  void Spawn() {
    const uint32_t pid = next_pid_++;
    world_.tally().Count("process started");
    processes_.push_back(std::make_unique<Process>(&world_, pid, pid % 4 == 0 ? "other" : ""));
  }

  void Step() {
    if (world_.tally().trace) std::printf("step\n");
    const uint64_t draw = world_.chance().Below(1000);
    world_.clock().Advance(static_cast<int64_t>(world_.chance().Below(40'000'000)));
    if (processes_.size() < 2 || (processes_.size() < 5 && draw < 20)) {
      if (!world_.server_up()) world_.StartServer();
      return Spawn();
    }
    if (draw < 28) {
      const size_t at = world_.chance().Below(processes_.size());
      world_.tally().Count("fault: process killed");
      processes_[at]->Kill();
      processes_.erase(processes_.begin() + static_cast<ptrdiff_t>(at));
      return;
    }
    if (draw < 32) {
      const size_t at = world_.chance().Below(processes_.size());
      world_.tally().Count("process closed");
      processes_[at]->CloseOrderly();
      processes_.erase(processes_.begin() + static_cast<ptrdiff_t>(at));
      return;
    }
    if (draw < 37) {
      world_.tally().Count("fault: server killed");
      return world_.KillServer();
    }
    if (draw < 40) {
      world_.tally().Count("server stopped in order");
      return world_.StopServer();
    }
    if (draw < 160) {
      if (world_.Happens(50)) world_.ArmDeath(1 + world_.chance().Below(6));
      world_.TickServer();
      return world_.DisarmDeath();
    }
    if (draw < 300) return world_.DeliverQueued();
    if (!world_.server_up() && draw < 700) return world_.StartServer();
    processes_[world_.chance().Below(processes_.size())]->Act();
  }

  // Somebody else acts while a process waits for its answer.
  void Interleave() {
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

  World world_;
  std::vector<std::unique_ptr<Process>> processes_;
  uint32_t next_pid_ = 1;
  int nesting_ = 0;
};

WorldOptions OptionsOf(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.pools = seed % 5 == 0 ? 2 : 1;
  options.checksums = seed % 3 == 0;
  options.eviction = seed % 7 == 0 ? engine::Eviction::kNone : engine::Eviction::kLeastRecentlyUsed;
  // Pages of half a unit fill a pool soon, small ones hardly ever.
  options.page_bytes = seed % 2 == 0 ? 1024 * 1024 : 128 * 1024;
  return options;
}

// Returns the number of failures.
int RunAll(const RunOptions& run, Tally* tally) {
  for (uint64_t seed = run.first; seed < run.first + run.seeds; ++seed) {
    if (run.verbose) std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    try {
      Simulation(OptionsOf(seed), tally).Run(run.steps);
    } catch (const Violation& violation) {
      std::printf("seed %llu: %s\nagain with: maru_sim --first %llu --seeds 1 --steps %llu\n",
                  static_cast<unsigned long long>(seed), violation.what(),
                  static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(run.steps));
      return 1;
    }
    const uint64_t done = seed - run.first + 1;
    if (done % 100 == 0) {
      std::fprintf(stderr, "%llu of %llu seeds\n", static_cast<unsigned long long>(done),
                   static_cast<unsigned long long>(run.seeds));
    }
  }
  return 0;
}

bool ParseNumber(const char* text, uint64_t* out) {
  const std::string_view view(text);
  const auto parsed = std::from_chars(view.data(), view.data() + view.size(), *out);
  return parsed.ec == std::errc() && parsed.ptr == view.data() + view.size();
}

int Usage() {
  std::puts(
      "maru_sim [--first N] [--seeds N] [--steps N] [--verbose] [--no-coverage]\n"
      "Simulates a server and its clients from seeds and checks every promise after every step.\n"
      "Exit code 0: all seeds kept all promises and everything was taken at least 10 times.");
  return 2;
}

int Main(int argc, char** argv) {
  RunOptions run;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--verbose") {
      run.verbose = true;
    } else if (flag == "--no-coverage") {
      run.coverage = false;
    } else if (i + 1 < argc && flag == "--first") {
      if (!ParseNumber(argv[++i], &run.first)) return Usage();
    } else if (i + 1 < argc && flag == "--seeds") {
      if (!ParseNumber(argv[++i], &run.seeds)) return Usage();
    } else if (i + 1 < argc && flag == "--steps") {
      if (!ParseNumber(argv[++i], &run.steps)) return Usage();
    } else {
      return Usage();
    }
  }
  SetCheckHandler([](const CheckFailure& failure) { throw Violation(failure.ToString()); });
  Tally tally;
  tally.trace = run.verbose;
  int failures = RunAll(run, &tally);
  for (const auto& [what, count] : tally.counts()) {
    std::printf("%10llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
    // Operations, faults and points are held to it. How the states looked between two steps
    // ("seen") and which of the rarest points a death fell on are for people.
    const bool held = !what.starts_with("seen ") && !what.starts_with("death at ");
    if (failures == 0 && run.coverage && held && count < kTakenMin) {
      std::printf("            ^ under %llu\n", static_cast<unsigned long long>(kTakenMin));
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace maru::sim

int main(int argc, char** argv) { return maru::sim::Main(argc, argv); }
