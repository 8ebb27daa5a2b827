// What the catalogue's writer costs: registering, looking up and deleting keys, the longest single
// step while the index grows, the time of a restart, and the bytes a key takes beside its text.
//
//   writer_bench [--keys=1000000]
//
// The pool is a memory file, mapped as a server maps it: what is touched first costs a page fault,
// and a restart begins with an empty page table. The engine's part of a key is
// engine_memory_bench's.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "catalogue/test_pool.h"
#include "catalogue/writer.h"

namespace maru::catalogue {
namespace {

constexpr uint64_t kKeyBytes = 100;
constexpr uint64_t kPageBytes = 512;
constexpr uint32_t kTurned = 4;  // one key in so many goes and comes
constexpr uint32_t kPagesPerRegion = 1u << 18;

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

class MemoryFile {
 public:
  explicit MemoryFile(uint64_t bytes) : bytes_(bytes), fd_(memfd_create("writer_bench", 0)) {
    MARU_CHECK_GE(fd_, 0);
    MARU_CHECK_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    Map(nullptr);
  }
  ~MemoryFile() {
    munmap(base_, bytes_);
    close(fd_);
  }
  // The same bytes at the same place, with an empty page table: as a new process has them.
  void MapAnew() { Map(base_); }
  std::byte* base() const { return static_cast<std::byte*>(base_); }

 private:
  void Map(void* at) {
    base_ = mmap(at, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | (at != nullptr ? MAP_FIXED : 0),
                 fd_, 0);
    MARU_CHECK(base_ != MAP_FAILED);
  }
  uint64_t bytes_;
  int fd_;
  void* base_ = nullptr;
};

uint64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

// As vLLM names a chunk: the same for all but the hash.
std::string KeyText(uint64_t i) {
  uint64_t state = i;
  char text[kKeyBytes + 1];
  std::snprintf(text, sizeof(text),
                "vllm@meta-llama/Llama-3.1-70B-Instruct@8@0@bfloat16@0123456789@%016llx%016llx",
                static_cast<unsigned long long>(SplitMix64(state)),
                static_cast<unsigned long long>(SplitMix64(state)));
  std::string key(text);
  key.resize(kKeyBytes, '=');
  return key;
}

class Bench {
 public:
  explicit Bench(uint32_t keys)
      : keys_(keys),
        bytes_(AlignUp(keys * (kPageBytes + 512) + (256ull << 20), layout::kUnitBytes)),
        memory_(bytes_),
        pool_({.pool_bytes = bytes_, .memory = memory_.base()}) {
    heap_before_ = HeapBytes();
    Open();
  }

  void Cut() {
    for (uint32_t done = 0; done < keys_; done += kPagesPerRegion) {
      const uint32_t count = std::min(kPagesPerRegion, keys_ - done);
      const RecordNumber first = writer_->AllocateRecords(count).value();
      const auto room = pool_.CarvePages(kPageBytes, count, first).value();
      writer_->BindRecords(first, count, room.slot);
      MARU_CHECK_EQ(first.value(), done + 1);
    }
  }

  void Fill() {
    std::vector<float> steps_us;
    steps_us.reserve(keys_);
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < keys_; ++i) {
      const std::string text = Text(i);
      const auto step = Clock::now();
      Put(i, text);
      steps_us.push_back(static_cast<float>(Seconds(step) * 1e6));
    }
    Print("store: grant, lookup, register", keys_, Seconds(begin));
    std::ranges::sort(steps_us);
    std::printf("  one of them: p50 %.2f us, p99 %.2f us, p99.9 %.2f us, longest %.0f us\n",
                At(steps_us, 0.5), At(steps_us, 0.99), At(steps_us, 0.999), steps_us.back());
  }

  void Look() {
    Random random(1);
    constexpr uint32_t kLooks = 200'000;
    std::vector<std::string> texts;
    for (uint32_t i = 0; i < kLooks; ++i) {
      texts.push_back(Text(static_cast<uint32_t>(random.Below(keys_))));
    }
    const auto begin = Clock::now();
    Writer::Hit hit;
    for (const std::string& text : texts) {
      MARU_CHECK(writer_->Lookup(MakeKeyRef(space_, text), &hit));
    }
    Print("lookup by the server", kLooks, Seconds(begin));
  }

  // A part of the keys goes, others come: what eviction does all day.
  void Turn() {
    const uint32_t count = keys_ / kTurned;
    turned_ = true;
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < count * kTurned; i += kTurned) {
      const RecordNumber record(1 + i);
      writer_->Retire(record);
      writer_->Condemn(record);
      writer_->Free(record);
      Put(i, Text(i));
    }
    Print("delete and store another", count, Seconds(begin));
  }

  void Restart() {
    writer_.reset();
    memory_.MapAnew();
    const auto begin = Clock::now();
    Open();
    std::printf("restart: %.3f s, %llu keys\n", Seconds(begin),
                static_cast<unsigned long long>(summary_.live));
    MARU_CHECK_EQ(summary_.live, keys_);
  }

  // Beside its text.
  void PrintBytesAKey(const char* when) const {
    const Writer::Usage usage = writer_->usage();
    const double keys = keys_;
    const double records = static_cast<double>(usage.records_bytes) / keys;
    const double text = static_cast<double>(usage.text_bytes) / keys - kKeyBytes;
    const double index = static_cast<double>(usage.index_bytes) / keys;
    const double heap = static_cast<double>(usage.heap_bytes) / keys;
    const double malloced = static_cast<double>(HeapBytes() - heap_before_) / keys;
    const double sum = records + text + index + std::max(heap, malloced);
    std::printf(
        "bytes a key %s: %.1f = records %.1f + text beyond the key %.1f + index %.1f + heap %.2f "
        "(malloc says %.2f)\n",
        when, sum, records, text, index, heap, malloced);
  }

 private:
  void Open() {
    auto opened = Writer::Open(pool_.base(), pool_.bytes(), &pool_, &summary_, {});
    MARU_CHECK_OK(opened.status());
    writer_ = std::move(*opened);
  }
  // The text that page i holds now.
  std::string Text(uint32_t i) const {
    return KeyText(turned_ && i % kTurned == 0 ? uint64_t{keys_} + i : i);
  }
  void Put(uint32_t i, const std::string& text) {
    const RecordNumber record(1 + i);
    const KeyRef key = MakeKeyRef(space_, text);
    Generation generation;
    Writer::Hit hit;
    MARU_CHECK(writer_->Grant(record, ClientSlot(1), &generation));
    MARU_CHECK(!writer_->Lookup(key, &hit));
    MARU_CHECK_OK(writer_->Register(record, key, {.length_bytes = kPageBytes}));
  }
  static double At(const std::vector<float>& sorted, double share) {
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
  static void Print(const char* what, uint64_t count, double seconds) {
    std::printf("%s: %.2f M/s (%.2f us each)\n", what, static_cast<double>(count) / seconds / 1e6,
                seconds * 1e6 / static_cast<double>(count));
  }

  uint32_t keys_;
  uint64_t bytes_;
  MemoryFile memory_;
  TestPool pool_;
  uint64_t heap_before_ = 0;
  bool turned_ = false;
  RecoverySummary summary_;
  std::unique_ptr<Writer> writer_;
  const Namespace space_;
};

int Run(int argc, char** argv) {
  uint64_t keys = 1'000'000;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--keys=")) {
      keys = std::strtoull(argument.c_str() + 7, nullptr, 10);
    } else {
      std::fprintf(stderr, "usage: %s [--keys=N]\n", argv[0]);
      return 2;
    }
  }
  if (keys < 1'000 || keys > 100'000'000) {
    std::fprintf(stderr, "--keys must be 1000 to 100000000\n");
    return 2;
  }
  Bench bench(static_cast<uint32_t>(keys));
  bench.Cut();
  bench.Fill();
  bench.PrintBytesAKey("when stored");
  bench.Look();
  bench.Turn();
  bench.PrintBytesAKey("after turnover");
  bench.Restart();
  bench.PrintBytesAKey("after a restart");
  bench.Restart();
  bench.Look();
  return 0;
}

}  // namespace
}  // namespace maru::catalogue

int main(int argc, char** argv) { return maru::catalogue::Run(argc, argv); }
