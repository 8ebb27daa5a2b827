#pragma once

// Named places in the code where a test may step in: stop the thread, throw, kill the process.
//
//   MARU_SEQUENCE_POINT("lease:slot-filled");        // between two steps of a race; compiled in
//                                                    // where MARU_SEQUENCE_POINTS is 1
//   MARU_PUBLICATION_POINT("register:live");         // where the writer has just published
//                                                    // something; always compiled in
//
// Without a hook a point costs one relaxed load. Tests install hooks with ScopedHook and hold
// threads at a point with SequenceGate. A hook runs in the thread that passes the point, outside
// all locks of this file; it may throw or never return. All of it is thread-safe.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace maru {

using PointHook = std::function<void()>;
// Gets the name of each point that is passed.
using AnyPointHook = std::function<void(std::string_view)>;

namespace internal {
// The number of installed hooks. Relaxed in MARU_*_POINT: tests install their hooks before they
// start the threads that are to meet them; the hooks themselves are read under a lock.
extern std::atomic<int> installed_hooks;
void RunHooks(std::string_view name);
}  // namespace internal

inline void PassPoint(std::string_view name) {
  if (internal::installed_hooks.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    internal::RunHooks(name);
  }
}

// Runs HOOK at each passing of NAME while this object lives. At most kPointHooksMax at once.
class ScopedHook {
 public:
  ScopedHook(std::string_view name, PointHook hook);
  // At every point, by name.
  explicit ScopedHook(AnyPointHook hook);
  ~ScopedHook();
  ScopedHook(const ScopedHook&) = delete;
  ScopedHook& operator=(const ScopedHook&) = delete;

 private:
  int id_;
};

inline constexpr std::size_t kPointHooksMax = 64;

// Holds the first thread that comes to NAME until Open() or destruction.
//
//   SequenceGate gate("lease:slot-filled");
//   std::thread reader([&] { reader.Lease(key); });
//   gate.AwaitArrival();      // the reader stands at the point
//   writer.Delete(key);
//   gate.Open();
class SequenceGate {
 public:
  explicit SequenceGate(std::string_view name);
  ~SequenceGate();  // opens; the held thread must not outlive what its point's code refers to
  void AwaitArrival();
  void Open();

 private:
  struct State;
  std::shared_ptr<State> state_;
  ScopedHook hook_;
};

}  // namespace maru

#define MARU_PUBLICATION_POINT(name) ::maru::PassPoint(name)

#if MARU_SEQUENCE_POINTS
#define MARU_SEQUENCE_POINT(name) ::maru::PassPoint(name)
#else
#define MARU_SEQUENCE_POINT(name) ((void)0)
#endif
