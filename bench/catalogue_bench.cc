// Lookups and leases in a catalogue of --keys=N keys of 100 bytes (1,000,000), in shared memory as
// in a real pool, beside what the machine can do at best. One core; the keys are asked for in
// random order, and each is hashed when it is asked for.
//
// The counters p50_ns and p99_ns are of single calls, less what reading the clock takes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "catalogue/test_catalogue.h"
#include "os/file.h"
#include "os/mapping.h"

namespace {

using namespace maru;             // NOLINT
using namespace maru::catalogue;  // NOLINT

constexpr std::size_t kKeyBytes = 100;
constexpr std::size_t kBatch = 64;
constexpr std::size_t kSamplesMax = 200'000;
constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kTextBytesEach = 128;

uint64_t key_count = 1'000'000;
uint64_t huge = 1;

os::Mapping Map(const os::File& file) {
  Result<os::Mapping> mapping = os::Mapping::MapWhole(file, {.access = os::Access::kReadWrite});
  MARU_CHECK_OK(mapping.status());
  return std::move(*mapping);
}

// The text of key i: all of them share their first 92 bytes, as keys of one model do.
class KeyText {
 public:
  KeyText() { bytes_.fill('m'); }
  std::string_view Of(uint64_t i) {
    const uint64_t tail = i * 0x9e3779b97f4a7c15;
    std::memcpy(bytes_.data() + kKeyBytes - sizeof(tail), &tail, sizeof(tail));
    return {bytes_.data(), bytes_.size()};
  }

 private:
  std::array<char, kKeyBytes> bytes_;
};

// The pool, made once, shared by all benchmarks.
class Bench {
 public:
  static Bench& Get() {
    static Bench bench;
    return bench;
  }

  Reader reader{PoolView()};
  std::unique_ptr<Leases> leases;
  std::vector<uint64_t> plain_table;  // as many words as keys

 private:
  Bench() {
    TestCatalogue::Options options;
    options.pages = static_cast<uint32_t>(key_count);
    options.page_bytes = kPageBytes;
    options.text_bytes_each = kTextBytesEach;
    options.index_log2 = layout::kIndexEntriesLog2Unit;
    while ((uint64_t{1} << options.index_log2) < 2 * key_count) ++options.index_log2;
    const uint64_t bytes =
        AlignUp(key_count * (sizeof(layout::PageRecord) + kTextBytesEach + kPageBytes) +
                    (sizeof(uint64_t) << options.index_log2) + 16 * layout::kUnitBytes,
                layout::kUnitBytes);
    const Result<os::File> file = os::File::CreateMemory("catalogue_bench");
    MARU_CHECK_OK(file.status());
    MARU_CHECK_OK(file->GrowTo(bytes));
    writers_ = Map(*file);
    pool_ = std::make_unique<TestPool>(
        TestPool::Options{.pool_bytes = bytes, .memory = writers_.data()});
    catalogue_ = std::make_unique<TestCatalogue>(pool_.get(), options);
    KeyText text;
    for (uint64_t i = 0; i < key_count; ++i) {
      catalogue_->Put(RecordNumber(static_cast<uint32_t>(1 + i)),
                      MakeKeyRef(Namespace(), text.Of(i)), kPageBytes);
    }
    // The catalogue's regions come first.
    const uint64_t catalogue_bytes = pool_->Region(RegionSlot(4)).offset_bytes.load();
    if (huge != 0) writers_.MakeHuge(0, catalogue_bytes);
    // As a client that comes later maps it.
    readers_ = Map(*file);
    readers_.FaultIn(0, catalogue_bytes);
    reader = Reader(PoolView(readers_.data(), bytes));
    leases = std::make_unique<Leases>(reader.view(), catalogue_->Header(ClientSlot(0)),
                                      catalogue_->Blocks(ClientSlot(0)));
    Random random(1);
    for (uint64_t i = 0; i < key_count; ++i) plain_table.push_back(random());
  }

  os::Mapping writers_, readers_;
  std::unique_ptr<TestPool> pool_;
  std::unique_ptr<TestCatalogue> catalogue_;
};

// Times single calls now and then, so that the clock does not slow the rest.
class Samples {
 public:
  using Clock = std::chrono::steady_clock;

  template <typename Call>
  void Time(const Call& call) {
    const Clock::time_point begin = Clock::now();
    call();
    const Clock::time_point end = Clock::now();
    if (nanoseconds_.size() < kSamplesMax) {
      nanoseconds_.push_back(static_cast<double>((end - begin).count()));
    }
  }
  void Report(benchmark::State& state) {
    if (nanoseconds_.empty()) return;
    Samples nothing;
    for (int i = 0; i < 1000; ++i) nothing.Time([] {});
    const double clock = nothing.Percentile(50);
    state.counters["p50_ns"] = Percentile(50) - clock;
    state.counters["p99_ns"] = Percentile(99) - clock;
  }

 private:
  double Percentile(std::size_t percent) {
    std::sort(nanoseconds_.begin(), nanoseconds_.end());
    return nanoseconds_[nanoseconds_.size() * percent / 100];
  }
  std::vector<double> nanoseconds_;
};

// Random numbers below the number of keys, with the texts of the keys from `first` on that they
// name. They are drawn by the block: a key that is written just before it is looked up would hold
// its hash up until the store has left the processor, and with it everything behind.
class Draws {
 public:
  static constexpr std::size_t kBlock = 256;
  explicit Draws(uint64_t first) : first_(first) {}
  // Valid until kBlock more were drawn.
  std::pair<uint64_t, std::string_view> Next() {
    if (at_ == kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        numbers_[i] = random_.Below(key_count);
        views_[i] = texts_[i].Of(first_ + numbers_[i]);
      }
      at_ = 0;
    }
    const std::size_t at = at_++;
    return {numbers_[at], views_[at]};
  }

 private:
  const uint64_t first_;
  Random random_{7};
  std::size_t at_ = kBlock;
  std::array<uint64_t, kBlock> numbers_;
  std::array<std::string_view, kBlock> views_;
  std::array<KeyText, kBlock> texts_;
};

// Runs `call` with a random number below the number of keys and a key; every 16th call is timed
// alone.
template <typename Call>
void Run(benchmark::State& state, const Call& call, uint64_t first = 0) {
  Draws draws(first);
  Samples samples;
  uint64_t calls = 0;
  for (auto _ : state) {
    const auto [i, key] = draws.Next();
    if (++calls % 16 == 0) {
      samples.Time([&, number = i, text = key] { call(number, text); });
    } else {
      call(i, key);
    }
  }
  state.SetItemsProcessed(state.iterations());
  samples.Report(state);
}

// --- What the machine can do.

void BM_RandomRead(benchmark::State& state) {
  const std::vector<uint64_t>& table = Bench::Get().plain_table;
  Run(state, [&](uint64_t i, std::string_view /*key*/) { benchmark::DoNotOptimize(table[i]); });
}
BENCHMARK(BM_RandomRead);

void BM_Hash(benchmark::State& state) {
  const Namespace none;
  Run(state, [&](uint64_t /*i*/, std::string_view key) {
    benchmark::DoNotOptimize(MakeKeyRef(none, key));
  });
}
BENCHMARK(BM_Hash);

// The three reads that a lookup cannot do without, each at an address that the one before tells: an
// index entry, a record, a text. The processor overlaps one call with the next.
void BM_ThreeReads(benchmark::State& state) {
  const PoolView view = Bench::Get().reader.view();
  const layout::TableDescriptor table(view.root().tables[0].load());
  const auto* entries = view.At<uint64_t>(table.offset_bytes());
  const uint64_t mask = (uint64_t{1} << table.entries_log2()) - 1;
  const auto* records = view.Record(RecordNumber(1));
  Run(state, [&](uint64_t i, std::string_view /*key*/) {
    const uint64_t entry = entries[(i * 0x9e3779b97f4a7c15) >> 32 & mask];
    uint64_t at = i;
    benchmark::DoNotOptimize(at += entry & 1);
    const uint64_t text = records[at % key_count].text_offset.load(std::memory_order_relaxed);
    benchmark::DoNotOptimize(*view.At<uint64_t>(text));
  });
}
BENCHMARK(BM_ThreeReads);

// --- Lookups.

void BM_Find(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  const Namespace none;
  Found found;
  Run(state, [&](uint64_t i, std::string_view key) {
    const FindVerdict verdict = reader.Find(MakeKeyRef(none, key), &found);
    MARU_CHECK(verdict == FindVerdict::kLive && found.record.value() == i + 1);
  });
}
BENCHMARK(BM_Find);

void BM_FindMiss(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  const Namespace none;
  Found found;
  Run(
      state,
      [&](uint64_t /*i*/, std::string_view key) {
        const FindVerdict verdict = reader.Find(MakeKeyRef(none, key), &found);
        MARU_CHECK(verdict == FindVerdict::kMiss);
      },
      key_count);
}
BENCHMARK(BM_FindMiss);

void BM_FindBatch(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  const Namespace none;
  std::array<KeyRef, kBatch> keys;
  std::array<FindVerdict, kBatch> verdicts;
  std::array<Found, kBatch> found;
  Draws draws(0);
  while (state.KeepRunning()) {
    for (KeyRef& key : keys) key = MakeKeyRef(none, draws.Next().second);
    reader.FindBatch(keys, verdicts, found);
    for (const FindVerdict verdict : verdicts) MARU_CHECK(verdict == FindVerdict::kLive);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kBatch));
}
BENCHMARK(BM_FindBatch);

// --- Leases.

void BM_LeaseAndRelease(benchmark::State& state) {
  Leases& leases = *Bench::Get().leases;
  const Generation generation(2);
  Run(state, [&](uint64_t i, std::string_view /*key*/) {
    const RecordNumber record(static_cast<uint32_t>(1 + i));
    MARU_CHECK(leases.Acquire(record, generation) == LeaseOutcome::kHeld);
    leases.Release(record, generation);
  });
}
BENCHMARK(BM_LeaseAndRelease);

void BM_Touch(benchmark::State& state) {
  Leases& leases = *Bench::Get().leases;
  Run(state, [&](uint64_t i, std::string_view /*key*/) {
    leases.Touch(RecordNumber(static_cast<uint32_t>(1 + i)));
  });
}
BENCHMARK(BM_Touch);

// All that a retrieve does here: find, lease, where the page lies, touch, release.
void BM_Retrieve(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  Leases& leases = *Bench::Get().leases;
  const Namespace none;
  Found found;
  Run(state, [&](uint64_t /*i*/, std::string_view key) {
    const FindVerdict verdict = reader.Find(MakeKeyRef(none, key), &found);
    MARU_CHECK(verdict == FindVerdict::kLive);
    MARU_CHECK(leases.Acquire(found.record, found.generation) == LeaseOutcome::kHeld);
    PoolView::PageExtent extent;
    MARU_CHECK(reader.view().Page(found.record, &extent));
    benchmark::DoNotOptimize(extent);
    leases.Touch(found.record);
    leases.Release(found.record, found.generation);
  });
}
BENCHMARK(BM_Retrieve);

bool TakeFlag(std::string_view argument, std::string_view flag, uint64_t* value) {
  if (!argument.starts_with(flag)) return false;
  *value = std::strtoull(argument.data() + flag.size(), nullptr, 10);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (!TakeFlag(argv[i], "--keys=", &key_count) && !TakeFlag(argv[i], "--huge=", &huge)) {
      std::fprintf(stderr, "usage: %s [--keys=N] [--huge=0] [--benchmark_...]\n", argv[0]);
      return 2;
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
