#include "os/ofd_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/testing.h"
#include "os/file.h"
#include "os/mapping.h"
#include "os/temp_folder.h"
#include "os/unix_socket.h"

namespace maru::os {
namespace {

// The kinds of files that pools lie on, as far as every machine has them.
enum class Backing { kFolder, kShm, kMemory, kDevice };

class OfdLockTest : public testing::TestWithParam<Backing> {
 protected:
  void SetUp() override {
    switch (GetParam()) {
      case Backing::kFolder:
      case Backing::kShm: {
        folder_.emplace(TempFolder::Create(GetParam() == Backing::kShm ? "/dev/shm" : ""));
        ASSERT_OK(*folder_);
        file_ = File::Create((*folder_)->File("pool"));
        break;
      }
      case Backing::kMemory: file_ = File::CreateMemory("locks"); break;
      case Backing::kDevice: file_ = File::Open("/dev/zero", Access::kReadWrite); break;
    }
    ASSERT_OK(file_);
  }

  LockState Test(std::uint64_t offset) { return *TestByte(file_->fd(), offset); }

  std::optional<Result<TempFolder>> folder_;
  Result<File> file_ = NotFound("not opened");
};

TEST_P(OfdLockTest, OneDescriptionHoldsAByte) {
  ASSERT_OK_AND_ASSIGN(const File first, file_->Reopen(Access::kReadWrite));
  ASSERT_OK_AND_ASSIGN(const File second, file_->Reopen(Access::kReadWrite));
  EXPECT_EQ(*TryLockByte(first.fd(), 100), LockAttempt::kTaken);
  EXPECT_EQ(*TryLockByte(first.fd(), 100), LockAttempt::kTaken);
  EXPECT_EQ(*TryLockByte(second.fd(), 100), LockAttempt::kHeldByAnother);
  EXPECT_EQ(*TryLockByte(second.fd(), 101), LockAttempt::kTaken);
  EXPECT_EQ(Test(100), LockState::kHeld);
  EXPECT_EQ(Test(99), LockState::kFree);
  EXPECT_EQ(*TestByte(first.fd(), 100), LockState::kFree) << "the own lock does not count";
}

TEST_P(OfdLockTest, LockEndsWithTheLastDescriptorOfItsDescription) {
  ASSERT_OK_AND_ASSIGN(File holder, file_->Reopen(Access::kReadWrite));
  ASSERT_EQ(*TryLockByte(holder.fd(), 0), LockAttempt::kTaken);
  UniqueFd copy(::dup(holder.fd()));
  holder.Release().Reset();
  EXPECT_EQ(Test(0), LockState::kHeld);
  copy.Reset();
  EXPECT_EQ(Test(0), LockState::kFree);
}

// As at attach: the server locks through a description that it has just made, passes it on and
// closes its own.
TEST_P(OfdLockTest, PassedLockOutlivesItsMakerAndStopsAndEndsWithItsHolder) {
  constexpr std::uint64_t kByte = 4096 + 17;
  ASSERT_OK_AND_ASSIGN(auto ends, SeqpacketSocket::Pair());
  const pid_t holder = ::fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    ends.first.Close();
    std::byte room[8];
    std::vector<UniqueFd> descriptors;
    const bool received = ends.second.Receive(room, &descriptors).ok();
    const bool answered = ends.second.Send(AsBytes(received ? "held" : "lost")).ok();
    while (answered) ::pause();
    ::_exit(1);
  }
  {
    ASSERT_OK_AND_ASSIGN(const File maker, file_->Reopen(Access::kReadWrite));
    ASSERT_EQ(*TryLockByte(maker.fd(), kByte), LockAttempt::kTaken);
    const int passed[] = {maker.fd()};
    ASSERT_OK(ends.first.Send(AsBytes("lock"), passed));
  }
  // From here on only the message in flight, then the holder has it.
  EXPECT_EQ(Test(kByte), LockState::kHeld);
  std::byte room[8];
  ASSERT_OK_AND_ASSIGN(const std::size_t size, ends.first.Receive(room));
  EXPECT_EQ(AsText(std::span(room).first(size)), "held");
  EXPECT_EQ(Test(kByte), LockState::kHeld);

  int status = 0;
  ASSERT_EQ(::kill(holder, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(holder, &status, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(Test(kByte), LockState::kHeld);

  ASSERT_EQ(::kill(holder, SIGKILL), 0);
  ASSERT_EQ(::waitpid(holder, &status, 0), holder);
  EXPECT_EQ(Test(kByte), LockState::kFree);
}

// Not on /dev/zero: its shared mappings are of another file.
class OfdLockMappingTest : public OfdLockTest {};

TEST_P(OfdLockMappingTest, MappingThroughAnotherDescriptionKeepsNothing) {
  ASSERT_OK(file_->GrowTo(4096));
  ASSERT_OK_AND_ASSIGN(File holder, file_->Reopen(Access::kReadWrite));
  ASSERT_EQ(*TryLockByte(holder.fd(), 0), LockAttempt::kTaken);
  ASSERT_OK_AND_ASSIGN(const Mapping other, Mapping::MapWhole(*file_, {}));
  ASSERT_OK_AND_ASSIGN(Mapping own, Mapping::MapWhole(holder, {}));
  holder.Release().Reset();
  EXPECT_EQ(Test(0), LockState::kHeld) << "a mapping keeps its own description alive";
  own.Reset();
  EXPECT_EQ(Test(0), LockState::kFree);
}

TEST_P(OfdLockTest, NeedsADescriptorForWriting) {
  ASSERT_OK_AND_ASSIGN(const File reader, file_->Reopen(Access::kRead));
  EXPECT_CODE(TryLockByte(reader.fd(), 0), kFailedPrecondition);
}

std::string NameOf(const testing::TestParamInfo<Backing>& backing) {
  static const char* const kNames[] = {"Folder", "Shm", "Memory", "Device"};
  return kNames[static_cast<int>(backing.param)];
}

INSTANTIATE_TEST_SUITE_P(Backings, OfdLockTest,
                         testing::Values(Backing::kFolder, Backing::kShm, Backing::kMemory,
                                         Backing::kDevice),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Backings, OfdLockMappingTest,
                         testing::Values(Backing::kFolder, Backing::kShm, Backing::kMemory),
                         NameOf);

}  // namespace
}  // namespace maru::os
