#pragma once

// What an event loop is made of: readiness of descriptors, wake-ups from other threads, timers and
// signals, all of them descriptors. Thread safety: WakeFd::Notify from any thread, and from signal
// handlers; the rest in the loop's thread.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

#include "maru/result.h"
#include "os/unique_fd.h"

namespace maru::os {

// What to wait for. A hang-up or error is reported as readable, so that the next read tells.
enum class Interest : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2, kReadWrite = 3 };

struct ReadyEvent {
  std::uint64_t token;
  bool readable;
  bool writable;
};

inline constexpr std::size_t kReadyEventsMax = 256;  // reported by one Wait

// Level-triggered: what is not read is reported again.
class Poller {
 public:
  static Result<Poller> Create();

  // TOKEN comes back with each event of FD, which must be removed before it is closed.
  Status Add(int fd, Interest interest, std::uint64_t token);
  Status Change(int fd, Interest interest, std::uint64_t token);
  Status Remove(int fd);

  // Waits up to TIMEOUT_MS (negative: for ever) and fills EVENTS from its front; the number filled,
  // 0 after the time-out or a signal.
  Result<std::size_t> Wait(std::span<ReadyEvent> events, std::int32_t timeout_ms);

  int fd() const { return fd_.get(); }

 private:
  explicit Poller(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// Wakes the loop from another thread.
class WakeFd {
 public:
  static Result<WakeFd> Create();
  int fd() const { return fd_.get(); }
  void Notify() const;
  // Forgets all notifications so far.
  void Drain() const;

 private:
  explicit WakeFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

class TimerFd {
 public:
  static Result<TimerFd> Create();
  int fd() const { return fd_.get(); }
  // Fires once after FIRST_NS, then every INTERVAL_NS (0: not again). REQUIRES: first_ns > 0
  Status Arm(std::int64_t first_ns, std::int64_t interval_ns = 0);
  Status Disarm();
  // How often it has fired since the last Drain.
  std::uint64_t Drain() const;

 private:
  explicit TimerFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// Turns signals into events. Blocks them in the calling thread, and so in those that it starts
// afterwards; they stay blocked when this object is gone.
class SignalFd {
 public:
  static Result<SignalFd> Create(std::initializer_list<int> signals);
  int fd() const { return fd_.get(); }
  // The number of a signal that has come, nothing when there is none.
  std::optional<int> TryTake() const;

 private:
  explicit SignalFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// SIGTERM and SIGINT, what a program stops at.
Result<SignalFd> StopSignals();
// And SIGHUP, which a daemon takes note of and goes on: a terminal was closed, or who sends it
// means "look anew". Blocked, it ends no process, whatever it was set to.
Result<SignalFd> DaemonSignals();
bool IsHangUp(int signal);

}  // namespace maru::os
