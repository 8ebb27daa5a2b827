#include "os/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/testing.h"
#include "base/units.h"
#include "os/errno_status.h"
#include "os/file_room.h"
#include "os/process.h"
#include "os/temp_folder.h"

namespace maru::os {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(folder_.ok()) << folder_.status().ToString(); }

  std::string Path(const std::string& name) const { return folder_->File(name); }

  Result<TempFolder> folder_ = TempFolder::Create();
};

TEST_F(FileTest, CreatesWithTheModeAskedForWhateverTheUmask) {
  const mode_t former = ::umask(0077);
  const Result<File> group = File::Create(Path("group"), kModeGroup);
  const Result<File> owner = File::Create(Path("owner"));
  ::umask(former);
  ASSERT_OK(group);
  ASSERT_OK(owner);
  EXPECT_EQ(group->Facts()->mode, 0660u);
  EXPECT_EQ(owner->Facts()->mode, 0600u);
  EXPECT_EQ(::fcntl(owner->fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(FileTest, CreateLeavesAnExistingFileAlone) {
  ASSERT_OK(WriteTextFile(Path("pool"), "precious"));
  const Result<File> again = File::Create(Path("pool"));
  EXPECT_CODE(again, kAlreadyExists);
  EXPECT_NE(again.status().message().find(Path("pool")), std::string_view::npos);
  EXPECT_EQ(*ReadTextFile(Path("pool"), 100), "precious");
}

TEST_F(FileTest, OpenNamesPathAndRemedyWhenItIsMissing) {
  const Result<File> missing = File::Open(Path("missing"), Access::kRead);
  EXPECT_CODE(missing, kNotFound);
  EXPECT_NE(missing.status().message().find(Path("missing")), std::string_view::npos);
  EXPECT_NE(missing.status().message().find("check the path"), std::string_view::npos);
}

TEST_F(FileTest, WaitsForNobodyAtAFifoAndNamesIt) {
  ASSERT_EQ(::mkfifo(Path("fifo").c_str(), 0600), 0);
  const Status read = File::Open(Path("fifo"), Access::kRead).status();
  const Status both = File::Open(Path("fifo"), Access::kReadWrite).status();
  const Status text = ReadTextFile(Path("fifo"), 100).status();
  for (const Status& status : {read, both, text}) {
    EXPECT_CODE(status, kFailedPrecondition);
    EXPECT_NE(status.message().find(Path("fifo") + " is a FIFO"), std::string_view::npos);
  }
}

TEST_F(FileTest, NamesASocket) {
  ASSERT_EQ(::mknod(Path("socket").c_str(), S_IFSOCK | 0600, 0), 0);
  const Status opened = File::Open(Path("socket"), Access::kRead).status();
  EXPECT_CODE(opened, kFailedPrecondition);
  EXPECT_NE(opened.message().find(Path("socket") + " is a socket"), std::string_view::npos);
}

TEST_F(FileTest, ReadsTheTextOfAPipeToItsEnd) {
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe(ends.data()), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  ASSERT_EQ(::write(to.get(), "text", 4), 4);
  to.Reset();
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadTextFile("/dev/fd/" + std::to_string(from.get()), 100));
  EXPECT_EQ(text, "text");
}

TEST_F(FileTest, WhatIsOpenIsWaitedForAsAnyFile) {
  ASSERT_OK(WriteTextFile(Path("file"), "x"));
  ASSERT_OK_AND_ASSIGN(const File file, File::Open(Path("file"), Access::kRead));
  EXPECT_EQ(::fcntl(file.fd(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_EQ(::fcntl(file.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(FileTest, OpenFollowsNoLink) {
  ASSERT_OK(WriteTextFile(Path("target"), "x"));
  ASSERT_EQ(::symlink(Path("target").c_str(), Path("link").c_str()), 0);
  EXPECT_CODE(File::Open(Path("link"), Access::kReadWrite), kInvalidArgument);
}

TEST_F(FileTest, GrowsButNeverShrinks) {
  ASSERT_OK_AND_ASSIGN(const File file, File::Create(Path("pool")));
  ASSERT_OK(file.GrowTo(1 * kMiB));
  ASSERT_OK(file.GrowTo(1 * kMiB));
  EXPECT_EQ(*file.SizeBytes(), 1 * kMiB);
  EXPECT_CODE(file.GrowTo(1 * kMiB - 1), kFailedPrecondition);
  EXPECT_CODE(file.GrowTo(~std::uint64_t{0}), kFailedPrecondition);
  EXPECT_EQ(*file.SizeBytes(), 1 * kMiB);
}

TEST_F(FileTest, ReserveBacksTheRangeAndKeepsWhatItHeld) {
  for (const std::string parent : {"", "/dev/shm"}) {
    ASSERT_OK_AND_ASSIGN(const TempFolder folder, TempFolder::Create(parent));
    ASSERT_OK_AND_ASSIGN(const File file, File::Create(folder.File("pool")));
    ASSERT_OK(file.GrowTo(4 * kMiB));
    EXPECT_EQ(file.Facts()->reserved_bytes, 0u);
    ASSERT_OK(file.WriteAt(AsBytes("kept"), 1 * kMiB));
    ASSERT_OK(file.Reserve(1 * kMiB, 2 * kMiB));
    EXPECT_GE(file.Facts()->reserved_bytes, 2 * kMiB);
    EXPECT_LT(file.Facts()->reserved_bytes, 4 * kMiB);
    EXPECT_EQ(*file.SizeBytes(), 4 * kMiB);
    std::array<std::byte, 4> read{};
    ASSERT_OK(file.ReadExactlyAt(read, 1 * kMiB));
    EXPECT_EQ(AsText(read), "kept");
  }
}

// On tmpfs, which sees at once that a range is larger than all of it, and takes nothing.
TEST_F(FileTest, ReserveBeyondTheFileSystemIsAnErrorThatSaysSo) {
  ASSERT_OK_AND_ASSIGN(const TempFolder folder, TempFolder::Create("/dev/shm"));
  ASSERT_OK_AND_ASSIGN(const File file, File::Create(folder.File("pool")));
  const std::uint64_t too_much = 1024 * kTiB;
  ASSERT_OK(file.GrowTo(too_much));
  const Status status = file.Reserve(0, too_much);
  EXPECT_CODE(status, kResourceExhausted);
  EXPECT_NE(status.message().find("ask for less"), std::string_view::npos);
  EXPECT_EQ(file.Facts()->reserved_bytes, 0u);
  EXPECT_GT(*FreeSpaceBytes("/dev/shm"), 0u);
}

TEST_F(FileTest, ReadsUpToTheEnd) {
  ASSERT_OK_AND_ASSIGN(const File file, File::Create(Path("file")));
  ASSERT_OK(file.WriteAt(AsBytes("abc"), 0));
  std::array<std::byte, 5> room{};
  EXPECT_EQ(*file.ReadAt(room, 1), 2u);
  EXPECT_EQ(AsText(std::span(room).first(2)), "bc");
  EXPECT_EQ(*file.ReadAt(room, 3), 0u);
  const Status status = file.ReadExactlyAt(room, 1);
  EXPECT_CODE(status, kDataLoss);
  EXPECT_NE(status.message().find("3 bytes too early"), std::string_view::npos);
  EXPECT_CODE(file.ReadAt(room, ~std::uint64_t{0}), kInvalidArgument);
}

TEST_F(FileTest, ReadOnlyFilesRefuseWrites) {
  ASSERT_OK(WriteTextFile(Path("file"), "abc"));
  ASSERT_OK_AND_ASSIGN(const File file, File::Open(Path("file"), Access::kRead));
  EXPECT_FALSE(file.WriteAt(AsBytes("x"), 0).ok());
}

TEST_F(FileTest, ReopenReachesTheSameFileAlsoWithoutAPath) {
  ASSERT_OK_AND_ASSIGN(const File file, File::Create(Path("pool")));
  ASSERT_OK(file.WriteAt(AsBytes("same"), 0));
  ASSERT_OK(RemoveFile(Path("pool")));
  ASSERT_OK_AND_ASSIGN(const File again, file.Reopen(Access::kRead));
  EXPECT_EQ(again.Facts()->inode, file.Facts()->inode);
  std::array<std::byte, 4> read{};
  ASSERT_OK(again.ReadExactlyAt(read, 0));
  EXPECT_EQ(AsText(read), "same");

  ASSERT_OK_AND_ASSIGN(const File memory, File::CreateMemory("test"));
  ASSERT_OK(memory.GrowTo(kMiB));
  ASSERT_OK_AND_ASSIGN(const File other, memory.Reopen(Access::kReadWrite));
  EXPECT_EQ(*other.SizeBytes(), kMiB);
}

TEST_F(FileTest, AFileWithoutANameIsFoundByItsDescriptorAlone) {
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const File file, CreateUnnamed(folder_->path()));
    ASSERT_OK(file.GrowTo(kMiB));
    EXPECT_EQ(*ListDirectory(folder_->path(), 10), std::vector<std::string>());
    path = "/proc/" + std::to_string(ProcessId()) + "/fd/" + std::to_string(file.fd());
    ASSERT_OK_AND_ASSIGN(const File same, File::Open(path, Access::kReadWrite));
    EXPECT_EQ(*same.SizeBytes(), kMiB);
    EXPECT_EQ(file.Facts()->mode, kModeOwner);
  }
  EXPECT_CODE(File::Open(path, Access::kReadWrite), kNotFound);
  EXPECT_CODE(CreateUnnamed(Path("none")), kNotFound);
}

TEST_F(FileTest, AnAbsolutePathIsWithinTheWorkingDirectory) {
  EXPECT_EQ(*AbsolutePath("/a/../b"), "/a/../b");
  std::array<char, 4096> folder{};
  ASSERT_NE(::getcwd(folder.data(), folder.size()), nullptr);
  EXPECT_EQ(*AbsolutePath("a/b"), std::string(folder.data()) + "/a/b");
}

TEST_F(FileTest, TellsKindsOfPaths) {
  ASSERT_OK(WriteTextFile(Path("file"), "x"));
  const PathKind file = *KindOf(Path("file"));
  EXPECT_TRUE(file == PathKind::kRegular || file == PathKind::kTmpfs);
  EXPECT_EQ(*KindOf(folder_->path()), PathKind::kDirectory);
  EXPECT_EQ(*KindOf(Path("missing")), PathKind::kMissing);
  EXPECT_EQ(*KindOf("/dev/null"), PathKind::kCharDevice);
  ASSERT_OK_AND_ASSIGN(const File device, File::Open("/dev/zero", Access::kRead));
  EXPECT_EQ(device.Facts()->kind, PathKind::kCharDevice);
  EXPECT_EQ(*device.SizeBytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const File memory, File::CreateMemory("kind"));
  EXPECT_EQ(memory.Facts()->kind, PathKind::kTmpfs);
}

TEST_F(FileTest, TextFilesAreReplacedWholeAndReadWithinBounds) {
  ASSERT_OK(WriteTextFile(Path("text"), "first"));
  ASSERT_OK(WriteTextFile(Path("text"), "second"));
  EXPECT_EQ(*ReadTextFile(Path("text"), 6), "second");
  EXPECT_CODE(ReadTextFile(Path("text"), 5), kResourceExhausted);
  EXPECT_CODE(ReadTextFile(Path("none"), 5), kNotFound);
  EXPECT_EQ(*ListDirectory(folder_->path(), 10), std::vector<std::string>{"text"});
  EXPECT_CODE(ListDirectory(folder_->path(), 0), kResourceExhausted);
}

TEST_F(FileTest, MakesAndListsFolders) {
  ASSERT_OK(MakeDirectory(Path("b")));
  ASSERT_OK(MakeDirectory(Path("b")));
  ASSERT_OK(WriteTextFile(Path("a"), ""));
  EXPECT_CODE(MakeDirectory(Path("a")), kAlreadyExists);
  EXPECT_EQ(*ListDirectory(folder_->path(), 2), (std::vector<std::string>{"a", "b"}));
}

TEST_F(FileTest, TempFoldersGoWithAllTheyHold) {
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const TempFolder inner, TempFolder::Create(folder_->path()));
    path = inner.path();
    ASSERT_OK(MakeDirectory(inner.File("deep")));
    ASSERT_OK(WriteTextFile(inner.File("deep/file"), "x"));
  }
  EXPECT_EQ(*KindOf(path), PathKind::kMissing);
}

TEST(ErrnoStatus, ExplainsItself) {
  const Status full = ErrnoStatus(ENOSPC, "reserve 8 bytes of", "/dev/shm/x");
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(),
            "cannot reserve 8 bytes of /dev/shm/x: No space left on device; "
            "free room there or ask for less");
  EXPECT_CODE(ErrnoStatus(EACCES, "open", "x"), kPermissionDenied);
  EXPECT_CODE(ErrnoStatus(EBADF, "read", "x"), kFailedPrecondition);
  EXPECT_CODE(ErrnoStatus(EFAULT, "read", "x"), kInternal);
  EXPECT_EQ(ErrnoStatus(EACCES, "open", "x", "do this").message(),
            "cannot open x: Permission denied; do this");
}

}  // namespace
}  // namespace maru::os
