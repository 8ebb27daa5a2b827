// What a key takes beside its text: its part of the catalogue, and of the server's heap, of a real
// engine over a pool in plain memory. When the keys are stored, after a quarter of them has gone
// and others have come, and after a restart.
//
//   engine_memory_bench [--keys=1000000] [--bytes-a-key-max=0]
//
// Keys of 100 bytes, pages of 512. Fails when a key takes more than --bytes-a-key-max (0: no
// limit).
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "bench/engine_rig.h"

namespace maru {
namespace {

constexpr uint64_t kTurned = 4;  // one key in so many goes and comes

uint64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

class Bench {
 public:
  explicit Bench(uint64_t keys) : keys_(keys), rig_(keys), heap_before_(HeapBytes()) { Open(); }

  void Fill() {
    while (rig_.keys() < keys_) rig_.Store(EngineRig::kBatch);
  }
  void Turn() {
    for (const uint64_t end = rig_.first() + keys_ / kTurned; rig_.first() < end;) {
      rig_.DeleteOldest();
      rig_.Store(EngineRig::kBatch);
    }
  }
  void Restart() {
    Open();
    MARU_CHECK_EQ(rig_.engine().CountKeys(PoolIndex(0)), rig_.keys());
  }

  double BytesAKey(const char* when) {
    const catalogue::Writer::Usage usage = rig_.pool().writer().usage();
    const auto keys = static_cast<double>(rig_.keys());
    const double records = static_cast<double>(usage.records_bytes) / keys;
    const double text = static_cast<double>(usage.text_bytes) / keys - EngineRig::kKeyBytes;
    const double index = static_cast<double>(usage.index_bytes) / keys;
    const double heap = static_cast<double>(HeapBytes() - heap_before_) / keys;
    const double sum = records + text + index + heap;
    std::printf(
        "bytes a key %s: %.1f = records %.1f + text beyond the key %.1f + index %.1f + heap of the "
        "server %.1f\n",
        when, sum, records, text, index, heap);
    return sum;
  }

 private:
  void Open() {
    rig_.Open();
    rig_.Grant(EngineRig::kBatch);
  }

  const uint64_t keys_;
  EngineRig rig_;
  const uint64_t heap_before_;
};

int Run(int argc, char** argv) {
  uint64_t keys = 1'000'000;
  double bytes_max = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--keys=")) {
      keys = std::strtoull(argv[i] + 7, nullptr, 10);
    } else if (argument.starts_with("--bytes-a-key-max=")) {
      bytes_max = std::strtod(argv[i] + 18, nullptr);
    } else {
      std::fprintf(stderr, "usage: %s [--keys=N] [--bytes-a-key-max=N]\n", argv[0]);
      return 2;
    }
  }
  if (keys < 1'000 || keys > 100'000'000) {
    std::fprintf(stderr, "--keys must be 1000 to 100000000\n");
    return 2;
  }
  Bench bench(keys);
  bench.Fill();
  double most = bench.BytesAKey("when stored");
  bench.Turn();
  most = std::max(most, bench.BytesAKey("after turnover"));
  bench.Restart();
  most = std::max(most, bench.BytesAKey("after a restart"));
  if (bytes_max > 0 && most > bytes_max) {
    std::printf("FAILED: %.1f bytes a key, the limit is %.0f\n", most, bytes_max);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace maru

int main(int argc, char** argv) { return maru::Run(argc, argv); }
