#include "os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/testing.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/file.h"
#include "os/test_host.h"
#include "os/unix_socket.h"

namespace maru::os {
namespace {

TEST(Process, KnowsItself) {
  EXPECT_EQ(ProcessId(), ::getpid());
  EXPECT_EQ(UserId(), ::geteuid());
  ASSERT_OK_AND_ASSIGN(const std::string path, ProgramPath());
  EXPECT_NE(path.find("os_test"), std::string::npos);
}

TEST(Process, FindsGroupsByNameAndNumber) {
  EXPECT_EQ(*FindGroup("root"), 0u);
  EXPECT_EQ(*FindGroup("1234"), 1234u);
  EXPECT_CODE(FindGroup("no-such-group"), kNotFound);
  EXPECT_EQ(*FindUser("root"), 0u);
  EXPECT_EQ(*FindUser("1234"), 1234u);
  EXPECT_CODE(FindUser("no-such-user"), kNotFound);
}

TEST(Process, CountsFreeDescriptors) {
  ASSERT_OK(CheckFreeDescriptors(0));
  const UniqueFd lowest(::dup(STDERR_FILENO));
  int last = lowest.get();  // what is open may have gaps below it
  for (int fd = lowest.get(); fd < lowest.get() + 256; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) last = fd;
  }
  std::vector<UniqueFd> gaps;
  for (gaps.emplace_back(::dup(STDERR_FILENO)); gaps.back().get() < last;) {
    gaps.emplace_back(::dup(STDERR_FILENO));
  }
  const int next = std::max(last, gaps.back().get()) + 1;
  const DescriptorLimit ten(static_cast<rlim_t>(next) + 10);
  EXPECT_OK(CheckFreeDescriptors(10));
  EXPECT_CODE(CheckFreeDescriptors(11), kResourceExhausted);
  EXPECT_OK(CheckFreeDescriptors(10)) << "none was kept";
}

TEST(Process, LargeBuffersGoBackWhenTheyAreFreed) {
  GiveLargeBuffersBack();
  const auto mapped = [] { return ::mallinfo2().hblks; };
  const size_t before = mapped();
  for (int i = 0; i < 3; ++i) {  // the first end of one would raise the limit
    std::vector<char> buffer(8 << 20);
    EXPECT_EQ(mapped(), before + 1);
  }
  EXPECT_EQ(mapped(), before);
}

TEST(Process, DrawsRandomBytes) {
  std::array<std::byte, 512> first{};
  std::array<std::byte, 512> second{};
  ASSERT_OK(FillRandom(first));
  ASSERT_OK(FillRandom(second));
  EXPECT_NE(first, second);
  EXPECT_NE(*RandomNumber(), *RandomNumber());
}

int before_calls = 0;
int parent_calls = 0;
int child_calls = 0;

TEST(Process, CallsRegisteredFunctionsAtFork) {
  ASSERT_OK(OnEachFork([] { ++before_calls; }, [] { ++parent_calls; }, [] { ++child_calls; }));
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(before_calls * 10 + child_calls);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 11);
  EXPECT_EQ(parent_calls, 1);
  EXPECT_EQ(child_calls, 0);
}

TEST(Process, StartsThreadsThatNoSignalReaches) {
  sigset_t before, after;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &before), 0);
  Result<std::thread> thread = StartThread("a name that is longer than the kernel takes", [] {
    ::pthread_kill(::pthread_self(), SIGTERM);  // would end the program
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGTERM), 1);
    std::array<char, 32> name{};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    EXPECT_STREQ(name.data(), "a name that is ");
  });
  ASSERT_OK(thread);
  thread->join();
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &after), 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << "signal " << signal;
  }
}

TEST(Child, RunsAProgramAndReadsItsOutput) {
  ASSERT_OK_AND_ASSIGN(
      Child child, Child::Start({"sh", "-c", "echo \"$WORD\"; exit 3"},
                                {.output = ChildStream::kPipe, .environment = {"WORD=spoken"}}));
  EXPECT_EQ(*child.ReadOutput(100), "spoken\n");
  ASSERT_OK_AND_ASSIGN(const ChildExit exit, child.Wait());
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_FALSE(exit.ok());
  EXPECT_EQ(child.Wait()->code, 3);
  EXPECT_CODE(child.Signal(SIGTERM), kFailedPrecondition);
}

TEST(Child, ReadsWhatItsParentWritesUntilThatEnds) {
  IgnoreBrokenPipes();
  ASSERT_OK_AND_ASSIGN(Child child,
                       Child::Start({"sh", "-c", "read line; echo \"$line\""},
                                    {.input = ChildStream::kPipe, .output = ChildStream::kPipe}));
  ASSERT_OK(child.WriteInput("spo"));
  ASSERT_OK(child.WriteInput("ken\n"));
  EXPECT_EQ(*child.ReadOutput(100), "spoken\n");
  EXPECT_TRUE(child.Wait()->ok());
  EXPECT_CODE(child.WriteInput("more"), kUnavailable);
}

TEST(Child, EndsOfABrokenPipeThoughItsParentDoesNot) {
  IgnoreBrokenPipes();
  ASSERT_OK_AND_ASSIGN(Child child, Child::Start({"sh", "-c", "kill -PIPE $$; exit 0"}));
  EXPECT_EQ(child.Wait()->signal, SIGPIPE);
}

// Standard error of this process is a pipe of the test while it lives.
class ErrorPipe {
 public:
  ErrorPipe() : saved_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(ends_), 0);
    EXPECT_EQ(::dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    ::close(ends_[1]);
  }
  ~ErrorPipe() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    CloseReader();
  }
  int reader() const { return ends_[0]; }
  void CloseReader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }

 private:
  const int saved_;
  int ends_[2] = {-1, -1};
};

TEST(StandardError, TakesWhatItHasRoomForAndWaitsForNobody) {
  IgnoreBrokenPipes();
  ErrorPipe pipe;
  const std::string line(kErrorBytesMax, 'x');
  size_t taken = 0;
  while (TryWriteError(line)) ++taken;
  EXPECT_GE(taken, 1u);
  std::string read(kErrorBytesMax, ' ');
  EXPECT_EQ(::read(pipe.reader(), read.data(), read.size()), static_cast<ssize_t>(read.size()));
  EXPECT_EQ(read, line);
  EXPECT_TRUE(TryWriteError("again"));
  pipe.CloseReader();
  EXPECT_FALSE(TryWriteError("nobody"));
}

TEST(Child, BoundsTheOutputItReads) {
  ASSERT_OK_AND_ASSIGN(Child child,
                       Child::Start({"sh", "-c", "echo 12345"}, {.output = ChildStream::kPipe}));
  EXPECT_CODE(child.ReadOutput(5), kResourceExhausted);
}

TEST(Child, SaysWhenAProgramCannotBeRun) {
  const Result<Child> missing = Child::Start({"/no/such/program"});
  EXPECT_CODE(missing, kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/program"), std::string_view::npos);
  EXPECT_CODE(Child::Start({"/dev/null"}), kPermissionDenied);
}

TEST(Child, PassesDescriptorsFromThreeOn) {
  ASSERT_OK_AND_ASSIGN(const File first, File::CreateMemory("first"));
  ASSERT_OK_AND_ASSIGN(const File second, File::CreateMemory("second"));
  ASSERT_OK(second.WriteAt(AsBytes("two"), 0));
  ASSERT_OK_AND_ASSIGN(Child child, Child::Start({"sh", "-c", "cat <&4; echo -n written >&3"},
                                                 {.output = ChildStream::kPipe,
                                                  .descriptors = {first.fd(), second.fd()}}));
  EXPECT_EQ(*child.ReadOutput(100), "two");
  EXPECT_TRUE(child.Wait()->ok());
  std::array<std::byte, 7> read{};
  ASSERT_OK(first.ReadExactlyAt(read, 0));
  EXPECT_EQ(AsText(read), "written");
}

TEST(Child, StartsWithoutTheSignalMaskOfItsParent) {
  Result<std::thread> thread = StartThread("parent", [] {
    Result<Child> child = Child::Start({"sh", "-c", "kill -TERM $$; exit 0"});
    ASSERT_OK(child);
    EXPECT_EQ(child->Wait()->signal, SIGTERM);
  });
  ASSERT_OK(thread);
  thread->join();
}

TEST(Child, IsKilledAndReapedByItsDestructor) {
  std::int32_t pid = 0;
  {
    ASSERT_OK_AND_ASSIGN(Child child,
                         Child::Start({"cat", "/dev/zero"}, {.output = ChildStream::kDiscard}));
    pid = child.pid();
    EXPECT_FALSE(child.TryWait()->has_value());
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(Child, AnswersWithoutWaitingWhetherItRuns) {
  ASSERT_OK_AND_ASSIGN(Child child,
                       Child::Start({"cat", "/dev/zero"}, {.output = ChildStream::kPipe}));
  EXPECT_FALSE(child.TryWait()->has_value());
  ASSERT_OK(child.Signal(SIGKILL));
  EXPECT_EQ(child.Wait()->signal, SIGKILL);
  EXPECT_EQ((*child.TryWait())->signal, SIGKILL);
}

TEST(Process, RaisesItsDescriptorLimitAsFarAsTheHardOneAndNeverLowersIt) {
  const auto now = [] {
    rlimit limit{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
  };
  const DescriptorLimit low(64);
  EXPECT_EQ(*RaiseDescriptorLimit(32), 64u);
  EXPECT_EQ(now(), 64u);
  EXPECT_EQ(*RaiseDescriptorLimit(128), 128u);
  EXPECT_EQ(now(), 128u);
  EXPECT_EQ(*RaiseDescriptorLimit(~std::uint64_t{0}), DescriptorLimit::HardMax());
  EXPECT_EQ(now(), DescriptorLimit::HardMax());
}

TEST(Clock, GoesOn) {
  const std::int64_t first = RealClock().Now();
  EXPECT_GT(first, 0);
  EXPECT_GE(RealClock().Now(), first);
  EXPECT_GT(WallTimeNs(), std::int64_t{1'600'000'000} * kNanosPerSecond);
}

}  // namespace
}  // namespace maru::os
