#pragma once

// Time as an argument: engines and handlers take a Clock, so that tests and the simulator decide
// when it passes. The real one is in os/.

#include <atomic>
#include <cstdint>

namespace maru {

inline constexpr std::int64_t kNanosPerMilli = 1'000'000;
inline constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start; never goes back. Thread-safe.
  virtual std::int64_t Now() const = 0;
};

// Stands still until told otherwise. Thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::int64_t start_ns = 0) : now_ns_(start_ns) {}

  std::int64_t Now() const override { return now_ns_.load(std::memory_order_relaxed); }
  void Advance(std::int64_t by_ns) { now_ns_.fetch_add(by_ns, std::memory_order_relaxed); }
  void AdvanceMillis(std::int64_t by_ms) { Advance(by_ms * kNanosPerMilli); }

 private:
  // Relaxed on both sides: it carries a number, no other memory.
  std::atomic<std::int64_t> now_ns_;
};

}  // namespace maru
