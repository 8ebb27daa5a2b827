// For benchmarks: a server of one pool in plain memory with one client, without a socket.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "engine/engine.h"
#include "layout/frame.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"

namespace maru {

// It holds the keys [first, next), 100 bytes each, on pages of 512 bytes.
class EngineRig {
 public:
  static constexpr size_t kKeyBytes = 100;
  static constexpr uint64_t kPageBytes = 512;
  static constexpr uint32_t kBatch = 64;
  // Page, record, key text in its block, index, and what regions of a sixteenth leave over.
  static constexpr uint64_t kPoolBytesPerKey = 1200;

  // All share their first 92 bytes, as keys of one model do.
  using KeyText = std::array<char, kKeyBytes>;
  static KeyText TextOf(uint64_t i) {
    KeyText text;
    text.fill('m');
    const uint64_t tail = i * 0x9e3779b97f4a7c15;
    std::memcpy(text.data() + kKeyBytes - sizeof(tail), &tail, sizeof(tail));
    return text;
  }

  // Memory for so many keys; all else is there after Open.
  explicit EngineRig(uint64_t keys)
      : memory_(pool::MakeMemoryPool(
            AlignUp(kPoolBytesPerKey * keys + 64 * layout::kUnitBytes, layout::kUnitBytes))) {}

  // Pool and engine as after a crash.
  void Open() {
    engine_.reset();
    pool_.reset();
    hand_.clear();
    reply_ = {};
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
      request.entries.push_back({hand_[i], kPageBytes, 0, {texts[i].data(), kKeyBytes}});
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
    const double seconds = Ask(request);
    for (const wire::DeleteOutcome outcome : reply<wire::DeleteReply>().outcomes) {
      MARU_CHECK_EQ(outcome, wire::DeleteOutcome::kDeleted);
    }
    return seconds;
  }

  uint64_t first() const { return first_; }
  uint64_t next() const { return next_; }
  uint64_t keys() const { return next_ - first_; }
  pool::Pool& pool() { return *pool_; }
  const engine::Engine& engine() const { return *engine_; }

 private:
  class NoLocks final : public engine::Liveness {
   public:
    Status Take(ClientSlot) override { return OkStatus(); }
    bool Held(ClientSlot, PoolIndex) const override { return true; }
  };

  std::shared_ptr<pool::PlainMemory> memory_;
  NoLocks locks_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<engine::Engine> engine_;
  wire::Reply reply_;
  std::vector<wire::PageRef> hand_;
  uint64_t epoch_ = 0, first_ = 0, next_ = 0;
};

}  // namespace maru
