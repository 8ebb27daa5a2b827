// Lookups and leases in a catalogue of --keys=N keys of 100 bytes (1,000,000), in shared memory as
// in a real pool, beside what the machine can do at best. One core; the keys are asked for in
// random order, and each is hashed when it is asked for.
//
// The counters p50_ns and p99_ns are of single calls, less what reading the clock takes.
#include <benchmark/benchmark.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "catalogue/test_catalogue.h"

namespace {

using namespace maru;             // NOLINT
using namespace maru::catalogue;  // NOLINT

constexpr std::size_t kKeyBytes = 100;
constexpr std::size_t kBatch = 64;
constexpr std::size_t kSamplesMax = 200'000;
constexpr uint64_t kPageBytes = 512;
constexpr uint64_t kTextBytesEach = 128;

// Not in all headers: of Linux 5.14 and 6.1.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

uint64_t key_count = 1'000'000;
uint64_t huge = 1;

// A shared mapping at an address that is aligned like the file, so that it can use huge pages.
std::byte* Map(int file, uint64_t bytes) {
  void* room =
      ::mmap(nullptr, bytes + layout::kUnitBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MARU_CHECK(room != MAP_FAILED);
  const uint64_t beyond = reinterpret_cast<uint64_t>(room) % layout::kUnitBytes;
  void* aligned = static_cast<std::byte*>(room) + (layout::kUnitBytes - beyond);
  void* memory = ::mmap(aligned, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  MARU_CHECK(memory != MAP_FAILED);
  return static_cast<std::byte*>(memory);
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
    options.index_log2 = layout::kIndexEntriesLog2Min;
    while ((uint64_t{1} << options.index_log2) < 2 * key_count) ++options.index_log2;
    const uint64_t bytes =
        AlignUp(key_count * (sizeof(layout::PageRecord) + kTextBytesEach + kPageBytes) +
                    (sizeof(uint64_t) << options.index_log2) + 16 * layout::kUnitBytes,
                layout::kUnitBytes);
    const int file = ::memfd_create("catalogue_bench", MFD_CLOEXEC);
    MARU_CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0);
    pool_ = std::make_unique<TestPool>(
        TestPool::Options{.pool_bytes = bytes, .memory = Map(file, bytes)});
    catalogue_ = std::make_unique<TestCatalogue>(pool_.get(), options);
    KeyText text;
    for (uint64_t i = 0; i < key_count; ++i) {
      catalogue_->Put(RecordNumber(static_cast<uint32_t>(1 + i)),
                      MakeKeyRef(Namespace(), text.Of(i)), kPageBytes);
    }
    // The catalogue's regions come first. From Linux 6.1 on; elsewhere nothing happens.
    const uint64_t catalogue_bytes = pool_->Region(RegionSlot(4)).offset_bytes.load();
    if (huge != 0 && ::madvise(pool_->base(), catalogue_bytes, MADV_COLLAPSE) != 0) {
      std::fprintf(stderr, "no huge pages\n");
    }
    // As a client that comes later maps it, and has read all of it once.
    std::byte* mapped = Map(file, bytes);
    MARU_CHECK(::madvise(mapped, catalogue_bytes, MADV_POPULATE_READ) == 0);
    reader = Reader(PoolView(mapped, bytes));
    leases = std::make_unique<Leases>(reader.view(), catalogue_->Header(ClientSlot(0)),
                                      catalogue_->Blocks(ClientSlot(0)));
    Random random(1);
    for (uint64_t i = 0; i < key_count; ++i) plain_table.push_back(random());
  }

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

// Runs `call` with a random number below the number of keys; every 16th call is timed alone.
template <typename Call>
void Run(benchmark::State& state, const Call& call) {
  Random random(7);
  Samples samples;
  uint64_t calls = 0;
  for (auto _ : state) {
    const uint64_t i = random.Below(key_count);
    if (++calls % 16 == 0) {
      samples.Time([&] { call(i); });
    } else {
      call(i);
    }
  }
  state.SetItemsProcessed(state.iterations());
  samples.Report(state);
}

// --- What the machine can do.

void BM_RandomRead(benchmark::State& state) {
  const std::vector<uint64_t>& table = Bench::Get().plain_table;
  Run(state, [&](uint64_t i) { benchmark::DoNotOptimize(table[i]); });
}
BENCHMARK(BM_RandomRead);

void BM_Hash(benchmark::State& state) {
  const Namespace none;
  KeyText text;
  Run(state, [&](uint64_t i) { benchmark::DoNotOptimize(MakeKeyRef(none, text.Of(i))); });
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
  Run(state, [&](uint64_t i) {
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
  KeyText text;
  Found found;
  Run(state, [&](uint64_t i) {
    const FindVerdict verdict = reader.Find(MakeKeyRef(none, text.Of(i)), &found);
    MARU_CHECK(verdict == FindVerdict::kLive && found.record.value() == i + 1);
  });
}
BENCHMARK(BM_Find);

void BM_FindMiss(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  const Namespace none;
  KeyText text;
  Found found;
  Run(state, [&](uint64_t i) {
    const FindVerdict verdict = reader.Find(MakeKeyRef(none, text.Of(key_count + i)), &found);
    MARU_CHECK(verdict == FindVerdict::kMiss);
  });
}
BENCHMARK(BM_FindMiss);

void BM_FindBatch(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  const Namespace none;
  std::array<KeyText, kBatch> texts;
  std::array<KeyRef, kBatch> keys;
  std::array<FindVerdict, kBatch> verdicts;
  std::array<Found, kBatch> found;
  Random random(7);
  while (state.KeepRunning()) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      keys[i] = MakeKeyRef(none, texts[i].Of(random.Below(key_count)));
    }
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
  Run(state, [&](uint64_t i) {
    const RecordNumber record(static_cast<uint32_t>(1 + i));
    MARU_CHECK(leases.Acquire(record, generation) == LeaseOutcome::kHeld);
    leases.Release(record, generation);
  });
}
BENCHMARK(BM_LeaseAndRelease);

void BM_Touch(benchmark::State& state) {
  Leases& leases = *Bench::Get().leases;
  Run(state, [&](uint64_t i) { leases.Touch(RecordNumber(static_cast<uint32_t>(1 + i))); });
}
BENCHMARK(BM_Touch);

// All that a retrieve does here: find, lease, where the page lies, touch, release.
void BM_Retrieve(benchmark::State& state) {
  const Reader reader = Bench::Get().reader;
  Leases& leases = *Bench::Get().leases;
  const Namespace none;
  KeyText text;
  Found found;
  Run(state, [&](uint64_t i) {
    const FindVerdict verdict = reader.Find(MakeKeyRef(none, text.Of(i)), &found);
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
