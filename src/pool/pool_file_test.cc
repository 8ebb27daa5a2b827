#include "pool/pool_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/sequence_point.h"
#include "base/test_crash.h"
#include "base/units.h"
#include "layout/page_record.h"
#include "layout/region.h"
#include "os/temp_folder.h"
#include "pool/carver.h"
#include "pool/new_pool.h"
#include "pool/pool.h"

namespace maru::pool {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = layout::kPoolBytesMin;

class PoolFileTest : public testing::Test {
 protected:
  PoolFileTest() {
    // Memory, as most pools are in.
    auto folder = os::TempFolder::Create("/dev/shm");
    MARU_CHECK_OK(folder.status());
    folder_ = std::make_unique<os::TempFolder>(std::move(folder).value());
    path_ = folder_->File("pool");
  }

  layout::Superblock Init(const InitOptions& options = {}) {
    Result<layout::Superblock> block = InitPool(path_, kBytes, options);
    EXPECT_TRUE(block.ok()) << block.status().ToString();
    return block.ok() ? *block : layout::Superblock{};
  }
  // Opens, writes and closes, so that the next open meets the bytes.
  void Write(uint64_t offset_bytes, const void* bytes, size_t size) {
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(pwrite(fd, bytes, size, static_cast<off_t>(offset_bytes)),
              static_cast<ssize_t>(size));
    close(fd);
  }
  void WriteSuperblock(layout::Superblock block) {
    block.checksum = HashBytes64(
        std::as_bytes(std::span(&block, 1)).first(offsetof(layout::Superblock, checksum)));
    Write(0, &block, sizeof(block));
  }

  struct Print {
    std::vector<char> bytes;
    timespec changed;
    mode_t mode;
    ino_t inode;
    bool operator==(const Print& other) const {
      return bytes == other.bytes && changed.tv_sec == other.changed.tv_sec &&
             changed.tv_nsec == other.changed.tv_nsec && mode == other.mode && inode == other.inode;
    }
  };
  Print Take() {
    struct stat facts{};
    EXPECT_EQ(stat(path_.c_str(), &facts), 0);
    Print print{std::vector<char>(static_cast<size_t>(facts.st_size)), facts.st_mtim, facts.st_mode,
                facts.st_ino};
    const int fd = open(path_.c_str(), O_RDONLY);
    EXPECT_EQ(pread(fd, print.bytes.data(), print.bytes.size(), 0), facts.st_size);
    close(fd);
    return print;
  }

  // Neither serving nor a new init touches what lies there.
  void ExpectServingRefused(StatusCode code, const std::string& text) {
    const Print before = Take();
    const auto opened = FileBacking::OpenForServing(path_);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), code) << opened.status().ToString();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(text));
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(path_));
    const Result<layout::Superblock> renumbered = Renumber(path_, {});
    EXPECT_EQ(renumbered.status().code(), code);
    EXPECT_TRUE(Take() == before);
  }
  void ExpectInitRefused(Existing existing, StatusCode code, const std::string& text) {
    const Print before = Take();
    const Result<layout::Superblock> made = InitPool(path_, kBytes, {.existing = existing});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), code) << made.status().ToString();
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(text));
    EXPECT_TRUE(Take() == before);
  }

  std::unique_ptr<os::TempFolder> folder_;
  std::string path_;
};

TEST_F(PoolFileTest, ANewPoolIsOnlyTheOwnersAndItsHeadIsReserved) {
  const mode_t before = umask(0);
  const layout::Superblock block = Init({.flags = layout::kFlagChecksums});
  umask(before);
  struct stat facts{};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_size), kBytes);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_blocks) * 512, layout::kHeadBytes);
  EXPECT_EQ(block.flags, layout::kFlagChecksums);
  EXPECT_GE(block.region_id_base, layout::kRegionIdsPerPool);
  const auto backing = FileBacking::OpenForServing(path_);
  ASSERT_TRUE(backing.ok()) << backing.status().ToString();
  EXPECT_EQ((*backing)->bytes(), kBytes);
  EXPECT_EQ(std::memcmp((*backing)->base(), &block, sizeof(block)), 0);
  EXPECT_TRUE(Carver::Open(backing->get()).ok());
}

TEST_F(PoolFileTest, ReserveBacksTheRange) {
  Init();
  const auto backing = FileBacking::OpenForServing(path_);
  ASSERT_TRUE(backing.ok());
  ASSERT_TRUE((*backing)
                  ->Reserve(4 * layout::kUnitBytes, 2 * layout::kUnitBytes, os::PageHint::kHuge)
                  .ok());
  struct stat facts{};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(static_cast<uint64_t>(facts.st_blocks) * 512,
            layout::kHeadBytes + 2 * layout::kUnitBytes);
}

TEST_F(PoolFileTest, SizesThatNoPoolCanHaveAreRefused) {
  for (const uint64_t bytes :
       {uint64_t{0}, kBytes - layout::kUnitBytes, kBytes + 4096, 2 * layout::kPoolBytesMax}) {
    EXPECT_EQ(InitPool(path_, bytes, {}).status().code(), StatusCode::kInvalidArgument) << bytes;
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(PoolFileTest, APoolLargerThanItsFileSystemIsRefusedAndLeavesNothing) {
  const Result<layout::Superblock> made = InitPool(path_, layout::kPoolBytesMax, {});
  EXPECT_EQ(made.status().code(), StatusCode::kResourceExhausted) << made.status().ToString();
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("64 TiB wanted"));
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(PoolFileTest, APoolWithoutANameIsServedByItsDescriptor) {
  const std::string folder = folder_->path();
  const Result<os::File> made = InitUnnamedPool(folder, kBytes, {});
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_TRUE(os::ListDirectory(folder, 10)->empty());
  const auto backing = FileBacking::OpenForServing("/proc/" + std::to_string(getpid()) + "/fd/" +
                                                   std::to_string(made->fd()));
  ASSERT_TRUE(backing.ok()) << backing.status().ToString();
  EXPECT_EQ((*backing)->bytes(), kBytes);
  const Status refused =
      InitUnnamedPool(folder, layout::kPoolBytesMax, {.size_option = "--this"}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ask for less by --this"));
}

TEST_F(PoolFileTest, APoolIsNotDroppedForOneThatHasNoRoom) {
  const layout::Superblock first = Init();
  const Result<layout::Superblock> made =
      InitPool(path_, layout::kPoolBytesMax, {.existing = Existing::kReplace});
  EXPECT_EQ(made.status().code(), StatusCode::kResourceExhausted);
  const auto backing = FileBacking::OpenForServing(path_);
  ASSERT_TRUE(backing.ok()) << backing.status().ToString();
  EXPECT_EQ(std::memcmp((*backing)->base(), &first, sizeof(first)), 0);
}

TEST_F(PoolFileTest, APoolIsReplacedOnlyWhenAsked) {
  const layout::Superblock first = Init();
  ExpectInitRefused(Existing::kRefuse, StatusCode::kAlreadyExists, "is a pool already; --force");
  const layout::Superblock second = Init({.existing = Existing::kReplace});
  EXPECT_NE(first.device.uuid, second.device.uuid);
}

TEST_F(PoolFileTest, AReplacedPoolStaysWithThoseWhoHaveItMapped) {
  Init();
  const int fd = open(path_.c_str(), O_RDONLY);
  char before[512], after[512];
  ASSERT_EQ(pread(fd, before, sizeof(before), 0), 512);
  Init({.existing = Existing::kReplace});
  ASSERT_EQ(pread(fd, after, sizeof(after), 0), 512);
  EXPECT_EQ(std::memcmp(before, after, sizeof(before)), 0);
  close(fd);
}

TEST_F(PoolFileTest, ForeignContentIsNeverReplaced) {
  const std::string text = "somebody's letter, which no option of ours may overwrite\n";
  Write(0, text.data(), text.size());
  ExpectInitRefused(Existing::kRefuse, StatusCode::kFailedPrecondition, "something else");
  ExpectInitRefused(Existing::kReplace, StatusCode::kFailedPrecondition, "something else");
  ExpectServingRefused(StatusCode::kFailedPrecondition, "no pool");
}

TEST_F(PoolFileTest, WhatIsNoFileIsRefused) {
  const Result<layout::Superblock> made = InitPool(folder_->path(), kBytes, {});
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(FileBacking::OpenForServing(folder_->path()).ok());
  EXPECT_EQ(FileBacking::OpenForServing(path_).status().code(), StatusCode::kNotFound);
}

// Dies at one point of making a pool, as a process does that is killed.
void DieAt(const std::string& path, const char* point, Existing existing) {
  const pid_t child = fork();
  if (child == 0) {
    const ScopedHook hook(point, [] { _exit(0); });
    (void)InitPool(path, kBytes, {.existing = existing});
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0) << point;
}

TEST_F(PoolFileTest, ADeathWhileAPoolIsMadeLeavesWhatWasThereAndTheNextOneClearsUp) {
  const std::string beside = path_ + NewPool::kSuffix;
  for (const char* const point : {"init:reserved", "init:superblock"}) {
    ASSERT_NO_FATAL_FAILURE(DieAt(path_, point, Existing::kRefuse));
    EXPECT_NE(access(path_.c_str(), F_OK), 0);
    EXPECT_EQ(access(beside.c_str(), F_OK), 0);
    Init();
    const Print before = Take();
    ASSERT_NO_FATAL_FAILURE(DieAt(path_, point, Existing::kReplace));
    EXPECT_TRUE(Take() == before);
    EXPECT_EQ(access(beside.c_str(), F_OK), 0);
    Init({.existing = Existing::kReplace});
    EXPECT_FALSE(Take() == before);
    EXPECT_NE(access(beside.c_str(), F_OK), 0);
    unlink(path_.c_str());
  }
  ASSERT_NO_FATAL_FAILURE(DieAt(path_, "init:published", Existing::kRefuse));
  EXPECT_TRUE(FileBacking::OpenForServing(path_).ok());
}

TEST_F(PoolFileTest, APoolOfZeroesIsReplacedByForceOnly) {
  Write(kBytes - 1, "", 1);
  ExpectServingRefused(StatusCode::kFailedPrecondition, "no pool");
  ExpectInitRefused(Existing::kRefuse, StatusCode::kAlreadyExists, "zeroes");
  Init({.existing = Existing::kReplace});
  EXPECT_TRUE(FileBacking::OpenForServing(path_).ok());
}

TEST_F(PoolFileTest, UntilANewPoolIsPublishedTheOldOneIsThereAndNobodyElsesToReplace) {
  Init();
  const Print before = Take();
  {
    auto made = NewPool::Make(path_, kBytes, {.existing = Existing::kReplace});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    const auto backing = made->TakeBacking();
    ASSERT_TRUE(backing.ok()) << backing.status().ToString();
    ExpectServingRefused(StatusCode::kFailedPrecondition, "in use");
    ExpectInitRefused(Existing::kReplace, StatusCode::kFailedPrecondition, "in use");
  }
  EXPECT_TRUE(Take() == before);
  EXPECT_NE(access((path_ + NewPool::kSuffix).c_str(), F_OK), 0);
  auto made = NewPool::Make(path_, kBytes, {.existing = Existing::kReplace});
  ASSERT_TRUE(made.ok());
  auto backing = made->TakeBacking();
  ASSERT_TRUE(backing.ok());
  ASSERT_TRUE(made->Publish().ok());
  EXPECT_FALSE(Take() == before);
  ExpectServingRefused(StatusCode::kFailedPrecondition, "another server has it");
  backing->reset();
  EXPECT_TRUE(FileBacking::OpenForServing(path_).ok());
}

TEST_F(PoolFileTest, ANewPoolTakesNobodysPlaceThatCameMeanwhile) {
  auto made = NewPool::Make(path_, kBytes, {});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(NewPool::Make(path_, kBytes, {}).status().code(), StatusCode::kFailedPrecondition);
  const std::string text = "somebody's letter";
  Write(0, text.data(), text.size());
  const Print before = Take();
  EXPECT_EQ(made->Publish().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(Take() == before);
}

TEST_F(PoolFileTest, TwoServersOnOnePoolAreToldApart) {
  Init();
  auto first = FileBacking::OpenForServing(path_);
  ASSERT_TRUE(first.ok());
  ExpectServingRefused(StatusCode::kFailedPrecondition, "another server has it");
  ExpectInitRefused(Existing::kReplace, StatusCode::kFailedPrecondition, "another server has it");
  first->reset();
  EXPECT_TRUE(FileBacking::OpenForServing(path_).ok());
}

TEST_F(PoolFileTest, TornResizedAndNewerPoolsAreRefusedUntouched) {
  layout::Superblock block = Init();
  const layout::Superblock good = block;
  block.created_unix_ns ^= 1;
  Write(0, &block, sizeof(block));
  ExpectServingRefused(StatusCode::kDataLoss, "torn");
  ExpectInitRefused(Existing::kRefuse, StatusCode::kAlreadyExists, "cannot be opened");

  block = good;
  block.layout_version = layout::kLayoutVersion + 1;
  WriteSuperblock(block);
  ExpectServingRefused(StatusCode::kFailedPrecondition, "version");

  WriteSuperblock(good);
  ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(kBytes + 2 * layout::kUnitBytes)), 0);
  ExpectServingRefused(StatusCode::kFailedPrecondition, "resized");
  ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(kBytes - layout::kUnitBytes)), 0);
  ExpectServingRefused(StatusCode::kFailedPrecondition, "resized");
  ASSERT_EQ(truncate(path_.c_str(), 100), 0);
  ExpectServingRefused(StatusCode::kDataLoss, "no pool");  // but what is left of one
}

TEST_F(PoolFileTest, APoolThatEverybodyMayReadIsRefused) {
  Init();
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  ExpectServingRefused(StatusCode::kPermissionDenied, "every user");
  ASSERT_EQ(chmod(path_.c_str(), 0660), 0);
  EXPECT_TRUE(FileBacking::OpenForServing(path_).ok());
}

TEST_F(PoolFileTest, APoolOfAnotherUserIsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  constexpr uid_t kOwner = 65001, kServer = 65002;
  constexpr gid_t kGroup = 65003;
  Init();
  ASSERT_EQ(chmod(folder_->path().c_str(), 0755), 0);
  ASSERT_EQ(chown(path_.c_str(), kOwner, kGroup), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0660), 0);
  EXPECT_TRUE(FileBacking::OpenForServing(path_).ok()) << "root serves anybody's";
  const pid_t child = fork();
  if (child == 0) {
    if (setegid(kGroup) != 0 || seteuid(kServer) != 0) _exit(2);
    const auto opened = FileBacking::OpenForServing(path_);
    const bool refused =
        opened.status().code() == StatusCode::kPermissionDenied &&
        opened.status().message().find("belongs to user 65001") != std::string_view::npos;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PoolFileTest, BasesInUseAreNotDrawn) {
  std::vector<uint32_t> in_use;
  for (uint32_t i = 0; i < 2048; ++i) {
    if (i != 777) in_use.push_back(i * layout::kRegionIdsPerPool);
  }
  EXPECT_EQ(Init({.bases_in_use = in_use}).region_id_base, 777 * layout::kRegionIdsPerPool);
  in_use.push_back(777 * layout::kRegionIdsPerPool);
  EXPECT_EQ(InitPool(path_, kBytes, {.bases_in_use = in_use}).status().code(),
            StatusCode::kResourceExhausted);
}

// A pool whose regions have ids, to be renumbered.
class RenumberTest : public PoolFileTest {
 protected:
  void MakeRegions() {
    Init();
    auto backing = FileBacking::OpenForServing(path_);
    ASSERT_TRUE(backing.ok());
    auto carver = Carver::Open(backing->get());
    ASSERT_TRUE(carver.ok());
    auto& root = *reinterpret_cast<layout::Root*>((*backing)->base() + layout::kRootOffset);
    const Result<Region> chunk = (*carver)->Carve(layout::RegionKind::kRecords, layout::kUnitBytes);
    ASSERT_TRUE(chunk.ok());
    auto& directory = *reinterpret_cast<layout::RecordDirectory*>((*backing)->base() +
                                                                  layout::kRecordDirectoryOffset);
    directory.units[0] = static_cast<uint32_t>(chunk->offset_bytes / layout::kUnitBytes);
    root.record_high = 10;
    root.next_region_ordinal = 1000;
    for (uint32_t i = 1; i <= 3; ++i) {
      const Result<Carver::Hold> hold = (*carver)->HoldUnits(1);
      ASSERT_TRUE(hold.ok());
      Region region;
      region.kind = layout::RegionKind::kPages;
      region.page_bytes = layout::kUnitBytes;
      region.page_count = 1;
      region.first_record = RecordNumber(i);
      (*carver)->Publish(*hold, region);
    }
  }
  // The ids of a pool that opens, in slot order.
  std::vector<uint32_t> Ids(uint32_t* base) {
    auto backing = FileBacking::OpenForServing(path_);
    EXPECT_TRUE(backing.ok()) << backing.status().ToString();
    auto carver = Carver::Open(backing->get());
    EXPECT_TRUE(carver.ok()) << carver.status().ToString();
    EXPECT_TRUE((*carver)->Mend().ok());
    *base = (*carver)->table().id_base();
    std::vector<uint32_t> ids;
    for (const auto& [slot, region] : (*carver)->table().regions()) {
      if (region.has_id()) ids.push_back(region.id.value());
    }
    return ids;
  }
};

TEST_F(RenumberTest, RegionsGetIdsOfTheNewBaseFromTheStart) {
  MakeRegions();
  uint32_t before = 0, after = 0;
  const std::vector<uint32_t> ids = Ids(&before);
  EXPECT_EQ(ids, (std::vector<uint32_t>{before + 1000, before + 1001, before + 1002}));
  const Result<layout::Superblock> block = Renumber(path_, {});
  ASSERT_TRUE(block.ok()) << block.status().ToString();
  EXPECT_NE(block->region_id_base, before);
  const std::vector<uint32_t> new_ids = Ids(&after);
  EXPECT_EQ(new_ids, (std::vector<uint32_t>{after, after + 1, after + 2}));
  EXPECT_EQ(after, block->region_id_base);
}

TEST_F(RenumberTest, ACopyBecomesAPoolOfItsOwn) {
  const layout::Superblock original = Init();
  const Result<layout::Superblock> copy = Renumber(path_, {});
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  EXPECT_NE(copy->device.uuid, original.device.uuid);
  const auto opened = OpenPoolFile(path_, os::Access::kRead);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->superblock.device.uuid, copy->device.uuid);
  const Pool::Identity one{"one", original.device.uuid, original.region_id_base};
  const Pool::Identity other{"other", copy->device.uuid, copy->region_id_base};
  EXPECT_TRUE(Pool::CheckPools(std::vector{one, other}).ok());
}

TEST_F(RenumberTest, ACrashInTheMiddleIsMendedByTheNextOpen) {
  CrashAtEachPoint([this](CrashPoint& point) {
    unlink(path_.c_str());
    MakeRegions();
    point.Run([this] { ASSERT_TRUE(Renumber(path_, {}).ok()); });
    uint32_t base = 0;
    const std::vector<uint32_t> ids = Ids(&base);
    EXPECT_EQ(std::set<uint32_t>(ids.begin(), ids.end()).size(), 3u);
    for (const uint32_t id : ids) {
      EXPECT_GE(id, base);
      EXPECT_LT(id, base + layout::kRegionIdsPerPool);
    }
    if (!point.crashed()) {
      EXPECT_GT(point.passed(), 5);
    }
  });
}

constexpr int kNoMounts = 77, kWrong = 1;

// On a file system of its own, so that it can be full: somebody else takes all but 8 MiB of the
// room that the pool was to have. For a child with its own mounts; 0, or its exit code.
int FillFileSystem(const std::string& folder, std::unique_ptr<FileBacking>* backing) {
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("maru", folder.c_str(), "tmpfs", 0, "size=34m") != 0) {
    return kNoMounts;
  }
  const std::string path = folder + "/pool";
  if (!InitPool(path, kBytes, {}).ok()) return kWrong;
  auto opened = FileBacking::OpenForServing(path);
  if (!opened.ok()) return kWrong + 1;
  *backing = *std::move(opened);
  const int fd = open((folder + "/other").c_str(), O_RDWR | O_CREAT, 0600);
  return fallocate(fd, 0, 0, 24 << 20) == 0 ? 0 : kWrong + 2;
}

int ReserveOnAFullFileSystem(const std::string& folder) {
  std::unique_ptr<FileBacking> full;
  if (const int wrong = FillFileSystem(folder, &full); wrong != 0) return wrong;
  std::unique_ptr<FileBacking>* const backing = &full;
  const Status status = (*backing)->Reserve(layout::kUnitBytes, 16 << 20, os::PageHint::kHuge);
  if (status.code() != StatusCode::kResourceExhausted) return kWrong + 3;
  const std::string text(status.message());
  const bool names = text.find("16 MiB wanted, 8 MiB free") != std::string::npos;
  return names && (*backing)->Reserve(layout::kUnitBytes, 4 << 20, os::PageHint::kHuge).ok()
             ? 0
             : kWrong + 4;
}

// A region whose memory ends in the middle gives back what it got, and no more than that.
int CutOnAFullFileSystem(const std::string& folder) {
  std::unique_ptr<FileBacking> full;
  if (const int wrong = FillFileSystem(folder, &full); wrong != 0) return wrong;
  auto pool = Pool::Open(std::move(full), {.boot_id = {1, 2}, .epoch = 1});
  if (!pool.ok()) return kWrong + 5;
  const auto free_bytes = [&folder] { return os::FreeSpaceBytes(folder).value_or(0); };
  // Units that have memory before.
  const auto small = (*pool)->CutForClient(2 * layout::kUnitBytes, {});
  if (!small.ok()) return kWrong + 6;
  (*pool)->FreeForClient(small->slot);
  const uint64_t before = free_bytes();
  if (before == 0) return kWrong + 7;
  const Status refused = (*pool)->CutForClient(7 * layout::kUnitBytes, {}).status();
  if (refused.message().find("2 MiB wanted") == std::string_view::npos) return kWrong + 8;
  if (free_bytes() != before) return kWrong + 9;
  return (*pool)->CutForClient(3 * layout::kUnitBytes, {}).ok() ? 0 : kWrong + 10;
}

void ExpectZero(int (*in_child)(const std::string& folder), const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) _exit(in_child(folder));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoMounts) GTEST_SKIP() << "no mounts of its own allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(PoolFileTest, AFullFileSystemIsAnErrorThatNamesTheBytes) {
  ExpectZero(ReserveOnAFullFileSystem, folder_->path());
}

TEST_F(PoolFileTest, ARegionThatAFullFileSystemRefusesGoesBackToIt) {
  ExpectZero(CutOnAFullFileSystem, folder_->path());
}

}  // namespace
}  // namespace maru::pool
