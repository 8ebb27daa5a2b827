#include "os/event.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/clock.h"
#include "os/errno_status.h"

namespace maru::os {
namespace {

std::uint32_t EpollBits(Interest interest) {
  const auto bits = static_cast<unsigned>(interest);
  std::uint32_t events = 0;
  if ((bits & static_cast<unsigned>(Interest::kRead)) != 0) events |= EPOLLIN | EPOLLRDHUP;
  if ((bits & static_cast<unsigned>(Interest::kWrite)) != 0) events |= EPOLLOUT;
  return events;
}

Status Control(int poller, int operation, int fd, Interest interest, std::uint64_t token) {
  epoll_event event{};
  event.events = EpollBits(interest);
  event.data.u64 = token;
  if (::epoll_ctl(poller, operation, fd, &event) != 0) {
    return ErrnoStatus(errno, "watch", "descriptor " + std::to_string(fd));
  }
  return OkStatus();
}

timespec ToTimespec(std::int64_t ns) {
  return {static_cast<time_t>(ns / kNanosPerSecond), static_cast<long>(ns % kNanosPerSecond)};
}

// Reads the 8-byte counter of an eventfd or timerfd; 0 when it is zero.
std::uint64_t ReadCounter(int fd) {
  std::uint64_t count = 0;
  const ssize_t got = RetryInterrupted([&] { return ::read(fd, &count, sizeof(count)); });
  return got == sizeof(count) ? count : 0;
}

}  // namespace

Result<Poller> Poller::Create() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "make a poller", "");
  return Poller(std::move(fd));
}

Status Poller::Add(int fd, Interest interest, std::uint64_t token) {
  return Control(fd_.get(), EPOLL_CTL_ADD, fd, interest, token);
}

Status Poller::Change(int fd, Interest interest, std::uint64_t token) {
  return Control(fd_.get(), EPOLL_CTL_MOD, fd, interest, token);
}

Status Poller::Remove(int fd) { return Control(fd_.get(), EPOLL_CTL_DEL, fd, Interest::kNone, 0); }

Result<std::size_t> Poller::Wait(std::span<ReadyEvent> events, std::int32_t timeout_ms) {
  MARU_CHECK(!events.empty());
  std::array<epoll_event, kReadyEventsMax> ready;
  const int room = static_cast<int>(std::min(events.size(), ready.size()));
  const int count = ::epoll_wait(fd_.get(), ready.data(), room, timeout_ms);
  if (count < 0) {
    if (errno == EINTR) return std::size_t{0};
    return ErrnoStatus(errno, "wait for events", "");
  }
  for (int i = 0; i < count; ++i) {
    const std::uint32_t bits = ready[static_cast<std::size_t>(i)].events;
    events[static_cast<std::size_t>(i)] = {
        .token = ready[static_cast<std::size_t>(i)].data.u64,
        .readable = (bits & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
        .writable = (bits & EPOLLOUT) != 0,
    };
  }
  return static_cast<std::size_t>(count);
}

Result<WakeFd> WakeFd::Create() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "make an event descriptor", "");
  return WakeFd(std::move(fd));
}

void WakeFd::Notify() const {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake already.
  (void)RetryInterrupted([&] { return ::write(fd_.get(), &one, sizeof(one)); });
}

void WakeFd::Drain() const { (void)ReadCounter(fd_.get()); }

Result<TimerFd> TimerFd::Create() {
  UniqueFd fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "make a timer", "");
  return TimerFd(std::move(fd));
}

Status TimerFd::Arm(std::int64_t first_ns, std::int64_t interval_ns) {
  MARU_CHECK_GT(first_ns, 0);
  MARU_CHECK_GE(interval_ns, 0);
  const itimerspec times{ToTimespec(interval_ns), ToTimespec(first_ns)};
  if (::timerfd_settime(fd_.get(), 0, &times, nullptr) != 0) {
    return ErrnoStatus(errno, "arm a timer", "");
  }
  return OkStatus();
}

Status TimerFd::Disarm() {
  const itimerspec never{};
  if (::timerfd_settime(fd_.get(), 0, &never, nullptr) != 0) {
    return ErrnoStatus(errno, "disarm a timer", "");
  }
  return OkStatus();
}

std::uint64_t TimerFd::Drain() const { return ReadCounter(fd_.get()); }

Result<SignalFd> SignalFd::Create(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (error != 0) return ErrnoStatus(error, "block signals", "");
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "make a signal descriptor", "");
  return SignalFd(std::move(fd));
}

std::optional<int> SignalFd::TryTake() const {
  signalfd_siginfo info{};
  const ssize_t got = RetryInterrupted([&] { return ::read(fd_.get(), &info, sizeof(info)); });
  if (got != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

Result<SignalFd> StopSignals() { return SignalFd::Create({SIGTERM, SIGINT}); }

Result<SignalFd> DaemonSignals() { return SignalFd::Create({SIGTERM, SIGINT, SIGHUP}); }

bool IsHangUp(int signal) { return signal == SIGHUP; }

}  // namespace maru::os
