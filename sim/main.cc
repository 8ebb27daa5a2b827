// Runs the real engine and the real handlers of many instances against each other, from seeds.
// docs/simulator.md says what is simulated, checked and counted.
//
//   maru_sim --seeds 1000 --steps 2000 --jobs 2  the test
//   maru_sim --first 4711 --seeds 1 --verbose    one seed again

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "sim/coverage.h"
#include "sim/simulation.h"
#include "sim/workers.h"

namespace maru::sim {
namespace {

constexpr uint64_t kSeedsPerLine = 100;  // how often a worker says how far it is

uint64_t seed_under_way = 0;  // for the last words of a process that ends over it

struct RunOptions {
  uint64_t first = 1, seeds = 1000, steps = 2000, jobs = 1;
  bool verbose = false;
  bool coverage = true;
  // The program was built with a defect: the run is right when a seed finds it.
  bool expect_violation = false;
};

bool RunSeed(uint64_t seed, const RunOptions& run, Tally* tally) {
  seed_under_way = seed;
  if (run.verbose) std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  try {
    Simulation(OptionsOf(seed), tally).Run(run.steps);
    return true;
  } catch (const Violation& violation) {
    std::printf("seed %llu: %s\nagain with: maru_sim --first %llu --seeds 1 --steps %llu\n",
                static_cast<unsigned long long>(seed), violation.what(),
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(run.steps));
    return false;
  }
}

// Every jobs-th seed, until one fails.
bool RunShare(uint64_t worker, const RunOptions& run, Tally* tally) {
  tally->trace = run.verbose;
  uint64_t done = 0;
  for (uint64_t i = worker; i < run.seeds; i += run.jobs) {
    if (!RunSeed(run.first + i, run, tally)) return false;
    if (++done % kSeedsPerLine == 0) {
      std::fprintf(stderr, "worker %llu: %llu seeds\n", static_cast<unsigned long long>(worker),
                   static_cast<unsigned long long>(done));
    }
  }
  return true;
}

bool ParseNumber(const char* text, uint64_t* out) {
  const std::string_view view(text);
  const auto parsed = std::from_chars(view.data(), view.data() + view.size(), *out);
  return parsed.ec == std::errc() && parsed.ptr == view.data() + view.size();
}

bool ParseFlags(int argc, char** argv, RunOptions* run) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    uint64_t* number = nullptr;
    if (flag == "--verbose") {
      run->verbose = true;
    } else if (flag == "--no-coverage") {
      run->coverage = false;
    } else if (flag == "--expect-violation") {
      run->expect_violation = true;
    } else if (flag == "--first") {
      number = &run->first;
    } else if (flag == "--seeds") {
      number = &run->seeds;
    } else if (flag == "--steps") {
      number = &run->steps;
    } else if (flag == "--jobs") {
      number = &run->jobs;
    } else {
      return false;
    }
    if (number == nullptr) continue;
    ++i;
    if (i == argc || !ParseNumber(argv[i], number)) return false;
  }
  return run->jobs >= 1 && run->jobs <= kWorkersMax;
}

int Usage() {
  std::puts(
      "maru_sim [--first N] [--seeds N] [--steps N] [--jobs N] [--verbose] [--no-coverage]\n"
      "         [--expect-violation]\n"
      "Simulates a server and its clients from seeds and checks every promise after every step.\n"
      "Exit code 0: all seeds kept all promises and everything was taken at least 10 times; with\n"
      "--expect-violation: a seed broke one.");
  return 2;
}

int Main(int argc, char** argv) {
  RunOptions run;
  if (!ParseFlags(argc, argv, &run)) return Usage();
  SetCheckHandler([](const CheckFailure& failure) { throw Violation(failure.ToString()); });
  // A check that fails inside a destructor.
  std::set_terminate([] {
    std::printf("seed %llu: ended the process\n", static_cast<unsigned long long>(seed_under_way));
    std::fflush(stdout);
    std::abort();
  });
  Tally tally;
  const bool kept = RunWorkers(
      run.jobs, [&](uint64_t worker, Tally* own) { return RunShare(worker, run, own); }, &tally);
  if (run.expect_violation) {
    if (kept) std::puts("no seed has found the defect");
    return kept ? 1 : 0;
  }
  for (const auto& [what, count] : tally.counts()) {
    std::printf("%10llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  if (!kept) return 1;
  if (!run.coverage) return 0;
  const std::vector<std::string> missing = MissingCoverage(tally);
  for (const std::string& line : missing) std::puts(line.c_str());
  return missing.empty() ? 0 : 1;
}

}  // namespace
}  // namespace maru::sim

int main(int argc, char** argv) { return maru::sim::Main(argc, argv); }
