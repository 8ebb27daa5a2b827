// What the engine takes for a request, without a socket: over a pool in plain memory with --keys=N
// keys of 100 bytes (1,000,000) on pages of 512 bytes. Times are of Engine::Handle alone.
#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "bench/engine_rig.h"

namespace {

using namespace maru;  // NOLINT

uint64_t key_count = 1'000'000;

// Made once, with all its keys.
class Bench : public EngineRig {
 public:
  static Bench& Get() {
    static Bench bench;
    return bench;
  }

  Bench() : EngineRig(key_count) {
    Open();
    Grant(kBatch);
    while (keys() < key_count) Store(0);
  }

  double FindSome(Random* random) {
    std::array<KeyText, kBatch> texts;
    wire::FindRequest request;
    for (KeyText& text : texts) {
      text = TextOf(random->Between(first(), next() - 1));
      request.keys.emplace_back(text.data(), kKeyBytes);
    }
    return Ask(request);
  }
  // Fills the pool until keys go for new ones.
  void FillUp() {
    while (pool().usage().free_bytes > 64 * layout::kUnitBytes ||
           engine().Count(PoolIndex(0)).free > kBatch) {
      Store(kBatch);
    }
  }
  engine::Engine::PoolCounts Count() const { return engine().Count(PoolIndex(0)); }
};

constexpr uint32_t kBatch = EngineRig::kBatch;

void Keys(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * kBatch);
}

void RegisterBatch(benchmark::State& state) {
  Bench& bench = Bench::Get();
  for (auto _ : state) {
    state.SetIterationTime(bench.Store(0));
    bench.DeleteOldest();
  }
  Keys(state);
}
BENCHMARK(RegisterBatch)->UseManualTime();

void DeleteBatch(benchmark::State& state) {
  Bench& bench = Bench::Get();
  for (auto _ : state) {
    bench.Store(0);
    state.SetIterationTime(bench.DeleteOldest());
  }
  Keys(state);
}
BENCHMARK(DeleteBatch)->UseManualTime();

void FindBatch(benchmark::State& state) {
  Bench& bench = Bench::Get();
  Random random(1);
  for (auto _ : state) state.SetIterationTime(bench.FindSome(&random));
  Keys(state);
}
BENCHMARK(FindBatch)->UseManualTime();

void GrantAndGiveBackBatch(benchmark::State& state) {
  Bench& bench = Bench::Get();
  for (auto _ : state) {
    const double back = bench.GiveBack();
    state.SetIterationTime(back + bench.Grant(kBatch));
  }
  Keys(state);
}
BENCHMARK(GrantAndGiveBackBatch)->UseManualTime();

// Pool and engine open again with all their keys.
void Restart(benchmark::State& state) {
  Bench& bench = Bench::Get();
  for (auto _ : state) bench.Open();
  state.counters["keys"] = static_cast<double>(bench.Count().live);
  bench.Grant(kBatch);
}
BENCHMARK(Restart)->Unit(benchmark::kMillisecond)->Iterations(3);

// The last one: it leaves a full pool. Each batch of keys costs another one.
void RegisterBatchInAFullPool(benchmark::State& state) {
  Bench& bench = Bench::Get();
  bench.FillUp();
  for (auto _ : state) state.SetIterationTime(bench.Store(kBatch));
  state.counters["keys"] = static_cast<double>(bench.Count().live);
  Keys(state);
}
BENCHMARK(RegisterBatchInAFullPool)->UseManualTime();

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--keys=", 7) != 0) {
      std::fprintf(stderr, "unknown argument %s; known: --keys=N and those of the library\n",
                   argv[i]);
      return 2;
    }
    key_count = std::strtoull(argv[i] + 7, nullptr, 10);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
