// What the engine takes for a request, without a socket: over a pool in plain memory with --keys=N
// keys of 100 bytes (1,000,000) on pages of 512 bytes. Times are of Engine::Handle alone.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "engine/engine.h"
#include "layout/frame.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"

namespace {

using namespace maru;  // NOLINT

constexpr std::size_t kKeyBytes = 100;
constexpr uint64_t kPageBytes = 512;
constexpr uint32_t kBatch = 64;
// Page, record, key text in its block, index, and what regions of a sixteenth leave over.
constexpr uint64_t kPoolBytesPerKey = 1200;

uint64_t key_count = 1'000'000;

class NoLocks final : public engine::Liveness {
 public:
  Status Take(ClientSlot) override { return OkStatus(); }
  bool Held(ClientSlot) const override { return true; }
};

// The text of key i: all share their first 92 bytes, as keys of one model do.
using KeyText = std::array<char, kKeyBytes>;
KeyText TextOf(uint64_t i) {
  KeyText text;
  text.fill('m');
  const uint64_t tail = i * 0x9e3779b97f4a7c15;
  std::memcpy(text.data() + kKeyBytes - sizeof(tail), &tail, sizeof(tail));
  return text;
}

// A server of one pool with one client, made once. It holds the keys [first, next).
class Bench {
 public:
  static Bench& Get() {
    static Bench bench;
    return bench;
  }

  Bench()
      : memory_(pool::MakeMemoryPool(
            AlignUp(kPoolBytesPerKey * key_count + 64 * layout::kUnitBytes, layout::kUnitBytes))) {
    Open();
    Grant(kBatch);
    while (next_ - first_ < key_count) Store(0);
  }

  // Pool and engine as after a crash.
  void Open() {
    engine_.reset();
    pool_.reset();
    hand_.clear();
    auto opened = pool::Pool::Open(std::make_unique<pool::MemoryBacking>(memory_),
                                   {.boot_id = {1, 2}, .epoch = ++epoch_});
    MARU_CHECK_OK(opened.status());
    pool_ = std::move(*opened);
    auto created =
        engine::Engine::Create({.server_version = "bench"}, {pool_.get()}, &locks_, epoch_, 0, 0);
    MARU_CHECK_OK(created.status());
    engine_ = std::move(*created);
    wire::AttachRequest attach;
    attach.protocol_version = layout::kProtocolVersion;
    attach.layout_version = layout::kLayoutVersion;
    attach.label = "bench";
    Ask(attach);
  }

  // The seconds that the engine took.
  double Ask(const wire::Request& request) {
    reply_ = {};
    const auto begin = std::chrono::steady_clock::now();
    const Status status = engine_->Handle(1, {}, request, 0, &reply_);
    const auto end = std::chrono::steady_clock::now();
    MARU_CHECK_OK(status);
    return std::chrono::duration<double>(end - begin).count();
  }
  template <typename Reply>
  Reply& reply() {
    return std::get<Reply>(reply_);
  }

  double Grant(uint32_t count) {
    const double seconds = Ask(wire::GrantRequest{kPageBytes, count});
    const auto& pages = reply<wire::GrantReply>().pages;
    hand_.insert(hand_.end(), pages.begin(), pages.end());
    return seconds;
  }
  double GiveBack() {
    const double seconds = Ask(wire::GiveBackRequest{hand_});
    hand_.clear();
    return seconds;
  }
  // Stores one batch of new keys on the pages in hand; takes `refill` pages with the reply, or a
  // grant of a batch beside it.
  double Store(uint32_t refill) {
    MARU_CHECK_EQ(hand_.size(), kBatch);
    std::array<KeyText, kBatch> texts;
    wire::RegisterRequest request;
    for (uint32_t i = 0; i < kBatch; ++i) {
      texts[i] = TextOf(next_++);
      request.entries.push_back({hand_[i], 100, 0, {texts[i].data(), kKeyBytes}});
    }
    request.refill_page_bytes = refill == 0 ? 0 : kPageBytes;
    request.refill_count = refill;
    const double seconds = Ask(request);
    for (const auto& item : reply<wire::RegisterReply>().items) {
      MARU_CHECK_EQ(item.outcome, wire::RegisterOutcome::kRegistered);
    }
    hand_ = reply<wire::RegisterReply>().refill;
    if (refill == 0) Grant(kBatch);
    return seconds;
  }
  double DeleteOldest() {
    std::array<KeyText, kBatch> texts;
    wire::DeleteRequest request;
    for (KeyText& text : texts) {
      text = TextOf(first_++);
      request.keys.emplace_back(text.data(), kKeyBytes);
    }
    return Ask(request);
  }
  double FindSome(Random* random) {
    std::array<KeyText, kBatch> texts;
    wire::FindRequest request;
    for (KeyText& text : texts) {
      text = TextOf(random->Between(first_, next_ - 1));
      request.keys.emplace_back(text.data(), kKeyBytes);
    }
    return Ask(request);
  }
  // Fills the pool until keys go for new ones.
  void FillUp() {
    while (pool_->usage().free_bytes > 64 * layout::kUnitBytes ||
           engine_->Count(PoolIndex(0)).free > kBatch) {
      Store(kBatch);
    }
  }
  engine::Engine::PoolCounts Count() const { return engine_->Count(PoolIndex(0)); }

 private:
  std::shared_ptr<pool::PlainMemory> memory_;
  NoLocks locks_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<engine::Engine> engine_;
  wire::Reply reply_;
  std::vector<wire::PageRef> hand_;
  uint64_t epoch_ = 0, first_ = 0, next_ = 0;
};

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
