#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "os/errno_status.h"
#include "os/process.h"

// The environment of this process (environ(7)).
extern char** environ;

namespace maru::os {
namespace {

constexpr int kFirstPassed = 3;
// Descriptors are parked above the numbers that the child's own ones get.
constexpr int kParkedFrom = kFirstPassed + static_cast<int>(kChildDescriptorsMax) + 1;

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe", "");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// What the child needs, made before the fork: after it, no memory may be allocated.
struct Plan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int input = -1;
  int output = -1;
  int error = -1;
  std::vector<int> passed;
  int report = -1;  // errno of a failure goes here; closed by a successful exec
  int parent = 0;   // the child ends with it; 0: on its own
};

[[noreturn]] void Fail(int report) {
  const int error = errno;
  (void)!::write(report, &error, sizeof(error));
  ::_exit(127);
}

int Park(int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, kParkedFrom); }

// Async-signal-safe calls only.
[[noreturn]] void RunChild(Plan& plan) {
  const int report = Park(plan.report);
  if (report < 0) ::_exit(127);
  for (int& fd : plan.passed) {
    fd = Park(fd);
    if (fd < 0) Fail(report);
  }
  if (plan.input >= 0 && ::dup2(plan.input, STDIN_FILENO) < 0) Fail(report);
  if (plan.output >= 0 && ::dup2(plan.output, STDOUT_FILENO) < 0) Fail(report);
  if (plan.error >= 0 && ::dup2(plan.error, STDERR_FILENO) < 0) Fail(report);
  for (std::size_t i = 0; i < plan.passed.size(); ++i) {
    if (::dup2(plan.passed[i], kFirstPassed + static_cast<int>(i)) < 0) Fail(report);
  }
  if (plan.parent > 0) {
    // A parent that ended before the call is seen by the other pid.
    if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) Fail(report);
    if (::getppid() != plan.parent) ::_exit(1);
  }
  // An ignored signal would stay ignored in the program.
  if (::signal(SIGPIPE, SIG_DFL) == SIG_ERR) Fail(report);
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  Fail(report);
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  return pointers;
}

// One of the child's streams: its end, and this process's.
struct Stream {
  UniqueFd child;
  UniqueFd parent;
};

enum class Direction : std::uint8_t { kToChild, kFromChild };

Result<Stream> MakeStream(ChildStream stream, Direction direction) {
  if (stream == ChildStream::kInherit) return Stream{};
  const bool reads = direction == Direction::kToChild;
  if (stream == ChildStream::kPipe) {
    MARU_ASSIGN_OR_RETURN(Pipe pipe, MakePipe());
    if (reads) return Stream{std::move(pipe.read), std::move(pipe.write)};
    return Stream{std::move(pipe.write), std::move(pipe.read)};
  }
  UniqueFd nowhere(::open("/dev/null", (reads ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
  if (!nowhere.valid()) return ErrnoStatus(errno, "open", "/dev/null");
  return Stream{std::move(nowhere), UniqueFd()};
}

ChildExit ExitOf(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace

Result<Child> Child::Start(const std::vector<std::string>& arguments, const ChildOptions& options) {
  MARU_CHECK(!arguments.empty());
  MARU_CHECK_LE(options.descriptors.size(), kChildDescriptorsMax);
  MARU_ASSIGN_OR_RETURN(Stream input, MakeStream(options.input, Direction::kToChild));
  MARU_ASSIGN_OR_RETURN(Stream output, MakeStream(options.output, Direction::kFromChild));
  MARU_ASSIGN_OR_RETURN(Stream error, MakeStream(options.error, Direction::kFromChild));
  MARU_ASSIGN_OR_RETURN(Pipe report, MakePipe());

  Plan plan;
  plan.arguments = Pointers(arguments);
  plan.arguments.push_back(nullptr);
  plan.environment = Pointers(options.environment);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    plan.environment.push_back(*entry);
  }
  plan.environment.push_back(nullptr);
  if (options.life == ChildLife::kWithParent) plan.parent = ::getpid();
  plan.input = input.child.get();
  plan.output = output.child.get();
  plan.error = error.child.get();
  plan.passed = options.descriptors;
  plan.report = report.write.get();

  const pid_t pid = ::fork();
  if (pid < 0) return ErrnoStatus(errno, "start", arguments[0]);
  if (pid == 0) RunChild(plan);
  Child child(pid, std::move(input.parent), std::move(output.parent), std::move(error.parent));
  report.write.Reset();
  int failure = 0;
  const ssize_t got =
      RetryInterrupted([&] { return ::read(report.read.get(), &failure, sizeof(failure)); });
  if (got == 0) return child;
  MARU_RETURN_IF_ERROR(child.Wait().status());
  return ErrnoStatus(failure, "run", arguments[0]);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      error_(std::move(other.error_)),
      exit_(other.exit_) {}

Child::~Child() {
  if (pid_ == 0 || exit_.has_value()) return;
  (void)Signal(SIGKILL);
  (void)Wait();
}

Result<std::string> Child::ReadOutput(std::size_t bytes_max) {
  MARU_CHECK(output_.valid());
  std::string text;
  char chunk[4096];
  while (true) {
    const ssize_t got =
        RetryInterrupted([&] { return ::read(output_.get(), chunk, sizeof(chunk)); });
    if (got < 0) return ErrnoStatus(errno, "read", "a child's output");
    if (got == 0) return text;
    if (static_cast<std::size_t>(got) > bytes_max - text.size()) {
      return ResourceExhausted("a child wrote more than " + std::to_string(bytes_max) + " bytes");
    }
    text.append(chunk, static_cast<std::size_t>(got));
  }
}

Status Child::WriteInput(std::string_view text) const {
  MARU_CHECK(input_.valid());
  while (!text.empty()) {
    const ssize_t put =
        RetryInterrupted([&] { return ::write(input_.get(), text.data(), text.size()); });
    if (put < 0 && errno == EPIPE) return Unavailable("the child reads no more");
    if (put < 0) return ErrnoStatus(errno, "write", "a child's input");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return OkStatus();
}

Status Child::Signal(int signal) const {
  // A reaped child's number may be somebody else's.
  if (exit_.has_value()) return FailedPrecondition("the child has ended");
  if (::kill(pid_, signal) != 0) {
    return ErrnoStatus(errno, "signal", "process " + std::to_string(pid_));
  }
  return OkStatus();
}

Result<ChildExit> Child::Wait() {
  if (!exit_.has_value()) {
    int status = 0;
    if (RetryInterrupted([&] { return ::waitpid(pid_, &status, 0); }) < 0) {
      return ErrnoStatus(errno, "wait for", "process " + std::to_string(pid_));
    }
    exit_ = ExitOf(status);
  }
  return *exit_;
}

Result<std::optional<ChildExit>> Child::TryWait() {
  if (!exit_.has_value()) {
    int status = 0;
    const pid_t ended = RetryInterrupted([&] { return ::waitpid(pid_, &status, WNOHANG); });
    if (ended < 0) return ErrnoStatus(errno, "wait for", "process " + std::to_string(pid_));
    if (ended > 0) exit_ = ExitOf(status);
  }
  return exit_;
}

}  // namespace maru::os
