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
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "engine/engine.h"
#include "layout/frame.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"

namespace maru {
namespace {

constexpr size_t kKeyBytes = 100;
constexpr uint64_t kPageBytes = 512;
constexpr uint32_t kBatch = 64;
constexpr uint64_t kTurned = 4;  // one key in so many goes and comes
// Page, record, key text in its block, index, and what regions of a sixteenth leave over.
constexpr uint64_t kPoolBytesPerKey = 1200;

uint64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

class NoLocks final : public engine::Liveness {
 public:
  Status Take(ClientSlot) override { return OkStatus(); }
  bool Held(ClientSlot) const override { return true; }
};

// All share their first 92 bytes, as keys of one model do.
using KeyText = std::array<char, kKeyBytes>;
KeyText TextOf(uint64_t i) {
  KeyText text;
  text.fill('m');
  const uint64_t tail = i * 0x9e3779b97f4a7c15;
  std::memcpy(text.data() + kKeyBytes - sizeof(tail), &tail, sizeof(tail));
  return text;
}

// A server of one pool with one client. It has the keys [first, next).
class Bench {
 public:
  explicit Bench(uint64_t keys)
      : keys_(keys),
        memory_(pool::MakeMemoryPool(
            AlignUp(kPoolBytesPerKey * keys + 64 * layout::kUnitBytes, layout::kUnitBytes))),
        heap_before_(HeapBytes()) {
    Open();
  }

  void Fill() {
    while (next_ - first_ < keys_) Store();
  }
  void Turn() {
    for (const uint64_t end = first_ + keys_ / kTurned; first_ < end;) {
      DeleteOldest();
      Store();
    }
  }
  // Pool and engine as after a crash.
  void Restart() {
    Close();
    Open();
    MARU_CHECK_EQ(engine_->CountKeys(PoolIndex(0)), next_ - first_);
  }

  double BytesAKey(const char* when) const {
    const catalogue::Writer::Usage usage = pool_->writer().usage();
    const auto keys = static_cast<double>(next_ - first_);
    const double records = static_cast<double>(usage.records_bytes) / keys;
    const double text = static_cast<double>(usage.text_bytes) / keys - kKeyBytes;
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
    Ask<wire::AttachReply>(attach);
    hand_ = Ask<wire::GrantReply>(wire::GrantRequest{kPageBytes, kBatch}).pages;
  }
  void Close() {
    engine_.reset();
    pool_.reset();
    hand_ = {};
  }

  template <typename Reply>
  Reply Ask(const wire::Request& request) {
    wire::Reply reply;
    MARU_CHECK_OK(engine_->Handle(1, {}, request, 0, &reply));
    return std::get<Reply>(std::move(reply));
  }
  void Store() {
    MARU_CHECK_EQ(hand_.size(), kBatch);
    std::array<KeyText, kBatch> texts;
    wire::RegisterRequest request;
    for (uint32_t i = 0; i < kBatch; ++i) {
      texts[i] = TextOf(next_++);
      request.entries.push_back({hand_[i], kPageBytes, 0, {texts[i].data(), kKeyBytes}});
    }
    request.refill_page_bytes = kPageBytes;
    request.refill_count = kBatch;
    auto reply = Ask<wire::RegisterReply>(request);
    for (const auto& item : reply.items) {
      MARU_CHECK_EQ(item.outcome, wire::RegisterOutcome::kRegistered);
    }
    hand_ = std::move(reply.refill);
  }
  void DeleteOldest() {
    std::array<KeyText, kBatch> texts;
    wire::DeleteRequest request;
    for (KeyText& text : texts) {
      text = TextOf(first_++);
      request.keys.emplace_back(text.data(), kKeyBytes);
    }
    for (const wire::DeleteOutcome outcome : Ask<wire::DeleteReply>(request).outcomes) {
      MARU_CHECK_EQ(outcome, wire::DeleteOutcome::kDeleted);
    }
  }

  const uint64_t keys_;
  const std::shared_ptr<pool::PlainMemory> memory_;
  const uint64_t heap_before_;
  NoLocks locks_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<wire::PageRef> hand_;
  uint64_t epoch_ = 0, first_ = 0, next_ = 0;
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
