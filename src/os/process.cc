#include "os/process.h"

#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "os/errno_status.h"

namespace maru::os {
namespace {

constexpr std::size_t kThreadNameMax = 15;
constexpr std::size_t kLinkMax = 4096;
constexpr std::size_t kNameRecordMax = 1 << 20;

// The number of a user or a group: NAME itself when it is one, else what the system's lists say.
template <typename Record, typename Find, typename Id>
Result<std::uint32_t> FindNumber(const std::string& name, const std::string& kind, const char* list,
                                 Find* find, Id Record::* id) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) return number;
  Record record{};
  Record* found = nullptr;
  std::vector<char> room(1024);
  int failed = find(name.c_str(), &record, room.data(), room.size(), &found);
  while (failed == ERANGE && room.size() < kNameRecordMax) {
    room.resize(room.size() * 4);
    failed = find(name.c_str(), &record, room.data(), room.size(), &found);
  }
  if (found != nullptr) return static_cast<std::uint32_t>(record.*id);
  if (failed != 0) return ErrnoStatus(failed, "look up the " + kind, name);
  return NotFound("there is no " + kind + " \"" + name + "\"; see: getent " + list);
}

}  // namespace

std::int32_t ProcessId() { return ::getpid(); }
std::uint32_t UserId() { return ::geteuid(); }
std::uint32_t GroupId() { return ::getegid(); }

void PrepareProgram() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest that is closed: those below it are open. Not for what it is used for, so that
    // bytes that get lost are an error.
    if (::fcntl(standard, F_GETFD) >= 0) continue;
    const int flags = standard == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    [[maybe_unused]] const int opened = ::open("/dev/null", flags);
  }
  // A file that may not grow is an error of the write.
  ::signal(SIGXFSZ, SIG_IGN);
}

Result<std::string> ProgramPath() {
  std::array<char, kLinkMax> path;
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size < 0) return ErrnoStatus(errno, "read", "/proc/self/exe", "mount /proc");
  return std::string(path.data(), static_cast<std::size_t>(size));
}

Result<std::uint32_t> FindGroup(const std::string& name) {
  return FindNumber<group>(name, "group", "group", &::getgrnam_r, &group::gr_gid);
}

Result<std::uint32_t> FindUser(const std::string& name) {
  return FindNumber<passwd>(name, "user", "passwd", &::getpwnam_r, &passwd::pw_uid);
}

Status FillRandom(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        RetryInterrupted([&] { return ::getrandom(out.data() + done, out.size() - done, 0); });
    if (got < 0) return ErrnoStatus(errno, "draw random bytes", "");
    done += static_cast<std::size_t>(got);
  }
  return OkStatus();
}

Result<std::uint64_t> RandomNumber() {
  std::uint64_t number = 0;
  MARU_RETURN_IF_ERROR(FillRandom(std::as_writable_bytes(std::span(&number, 1))));
  return number;
}

Status OnEachFork(ForkFunction before, ForkFunction in_parent, ForkFunction in_child) {
  const int error = ::pthread_atfork(before, in_parent, in_child);
  if (error != 0) return ErrnoStatus(error, "register for fork", "");
  return OkStatus();
}

Result<std::uint64_t> RaiseDescriptorLimit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return ErrnoStatus(errno, "read the limit of open descriptors", "");
  }
  const rlim_t raised = std::min<rlim_t>(wanted, limit.rlim_max);
  if (raised <= limit.rlim_cur) return limit.rlim_cur;
  limit.rlim_cur = raised;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return ErrnoStatus(errno, "raise the limit of open descriptors", "");
  }
  return raised;
}

Status CheckFreeDescriptors(std::size_t count) {
  std::vector<UniqueFd> taken;
  for (taken.reserve(count); taken.size() < count;) {
    taken.emplace_back(taken.empty() ? ::eventfd(0, EFD_CLOEXEC)
                                     : ::fcntl(taken.front().get(), F_DUPFD_CLOEXEC, 0));
    if (taken.back().valid()) continue;
    return ErrnoStatus(errno, "open " + std::to_string(count) + " descriptors more", "");
  }
  return OkStatus();
}

bool ErrorIsTerminal() { return ::isatty(STDERR_FILENO) == 1; }

bool TryWriteError(std::string_view text) {
  MARU_CHECK_LE(text.size(), kErrorBytesMax);
  // A pipe is ready when it has room for kErrorBytesMax. The descriptor's own flag would be that of
  // all processes that share the stream.
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (RetryInterrupted([&] { return ::poll(&ready, 1, 0); }) != 1) return false;
  if ((ready.revents & POLLOUT) == 0) return false;
  const ssize_t put =
      RetryInterrupted([&] { return ::write(STDERR_FILENO, text.data(), text.size()); });
  return put == static_cast<ssize_t>(text.size());
}

void IgnoreBrokenPipes() { MARU_CHECK(::signal(SIGPIPE, SIG_IGN) != SIG_ERR); }

void GiveLargeBuffersBack() {
  // The C library raises the limit by itself, up to 32 MiB, unless it is set.
  constexpr int kMappedFromBytes = 128 * 1024;
  // Another allocator in its place, as a sanitizer's, refuses and has its own way.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before the process has a second thread.
  ::mallopt(M_MMAP_THRESHOLD, kMappedFromBytes);
}

Result<std::thread> StartThread(const std::string& name, std::function<void()> body) {
  // A new thread begins with the mask of the one that starts it.
  sigset_t all, before;
  sigfillset(&all);
  MARU_CHECK_EQ(::pthread_sigmask(SIG_BLOCK, &all, &before), 0);
  std::thread thread;
  Status started;
  try {
    thread = std::thread([name, body = std::move(body)] {
      // A convenience for debuggers; its failure changes nothing.
      (void)::pthread_setname_np(::pthread_self(), name.substr(0, kThreadNameMax).c_str());
      body();
    });
  } catch (const std::system_error& error) {
    started = ResourceExhausted("no thread \"" + name + "\" can be made: " + error.what());
  }
  MARU_CHECK_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  if (!started.ok()) return started;
  return thread;
}

}  // namespace maru::os
