#include "pool/new_pool.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/sequence_point.h"
#include "base/units.h"
#include "layout/text.h"
#include "os/clock.h"
#include "os/file_room.h"
#include "os/process.h"
#include "pool/pool_file_impl.h"

namespace maru::pool {

using layout::Concat;

Status CheckPoolBytes(uint64_t pool_bytes) {
  const uint64_t fits =
      std::max(layout::kPoolBytesMin,
               AlignUp(std::min(pool_bytes, layout::kPoolBytesMax), layout::kUnitBytes));
  if (pool_bytes == fits) return OkStatus();
  return InvalidArgument(Concat("a pool has a multiple of ", FormatSizeExact(layout::kUnitBytes),
                                ", from ", FormatSizeExact(layout::kPoolBytesMin), " to ",
                                FormatSizeExact(layout::kPoolBytesMax), ": the next to ",
                                FormatSizeExact(pool_bytes), " is ", FormatSizeExact(fits)));
}

namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// OK: the file system has room for a pool of that size, when the former file there has gone. Asked
// before that goes, so that a pool is not dropped for one that cannot be made.
Status CheckRoom(const std::string& name, const std::string& folder, uint64_t pool_bytes,
                 const os::File& former, const char* size_option) {
  MARU_ASSIGN_OR_RETURN(const uint64_t free_now, os::FreeSpaceBytes(folder));
  uint64_t free_then = free_now;
  if (former.valid()) {
    MARU_ASSIGN_OR_RETURN(const os::FileFacts facts, former.Facts());
    free_then += facts.reserved_bytes;
  }
  if (pool_bytes <= free_then && layout::kHeadBytes <= free_now) return OkStatus();
  return ResourceExhausted(Concat(name, ": ", FormatSize(pool_bytes), " wanted, ",
                                  FormatSize(free_then), " free there",
                                  former.valid() ? " without the pool that it replaces" : "",
                                  "; free some, or ask for less by ", size_option));
}

// Of a pool with those options, which is made now.
Result<layout::Superblock> NewSuperblock(uint64_t pool_bytes, const InitOptions& options) {
  MARU_RETURN_IF_ERROR(CheckPoolBytes(pool_bytes));
  if ((options.flags & ~layout::kFlagsKnown) != 0) {
    return InvalidArgument(Concat("unknown pool flags ", layout::Hex{options.flags}));
  }
  layout::Uuid uuid;
  MARU_RETURN_IF_ERROR(os::FillRandom(std::as_writable_bytes(std::span(uuid))));
  MARU_ASSIGN_OR_RETURN(const uint32_t base, DrawBase(options.bases_in_use));
  return layout::MakeSuperblock(uuid, pool_bytes, options.flags, base,
                                static_cast<uint64_t>(os::WallTimeNs()));
}

// REQUIRES: `file` is new and empty.
Status Fill(const os::File& file, const layout::Superblock& block) {
  MARU_RETURN_IF_ERROR(file.GrowTo(block.pool_bytes));
  MARU_RETURN_IF_ERROR(file.Reserve(0, layout::kHeadBytes));
  MARU_RETURN_IF_ERROR(file.WriteAt(std::as_bytes(std::span(&kTableWordAtInit, 1)),
                                    layout::kRootOffset + offsetof(layout::Root, table_word)));
  MARU_RETURN_IF_ERROR(file.Sync());
  MARU_PUBLICATION_POINT("init:reserved");
  MARU_RETURN_IF_ERROR(
      file.WriteAt(std::as_bytes(std::span(&block, 1)), layout::kSuperblockOffset));
  MARU_PUBLICATION_POINT("init:superblock");
  return file.Sync();
}

// OK: what lies there may go. Holds the server's lock while `file` lives.
Status CheckReplaceable(const std::string& path, const os::File& file, Existing existing) {
  MARU_ASSIGN_OR_RETURN(const os::FileFacts facts, file.Facts());
  MARU_RETURN_IF_ERROR(CheckKind(path, facts.kind));
  MARU_ASSIGN_OR_RETURN(const std::vector<std::byte> head, ReadHead(file));
  const Seen seen = Look(head, facts.size_bytes);
  if (seen.content == Content::kForeign) {
    return FailedPrecondition(Concat(path, " is left alone, it holds something else than a pool (",
                                     seen.why.message(), "); remove it or choose another path"));
  }
  if (seen.content != Content::kNothing && existing == Existing::kRefuse) {
    const std::string_view what = seen.content == Content::kPool ? " is a pool already"
                                  : seen.content == Content::kZeroes
                                      ? " holds zeroes, as a pool that was never finished"
                                      : " is a pool that cannot be opened";
    return AlreadyExists(
        Concat(path, what, "; --force makes a new pool in its place and drops what it holds"));
  }
  return TakeServerLock(path, file);
}

// The file beside PATH, new and locked. One that a death has left is replaced.
Result<os::File> MakeBeside(const std::string& path) {
  const std::string beside = path + NewPool::kSuffix;
  MARU_ASSIGN_OR_RETURN(const os::PathKind kind, os::KindOf(beside));
  if (kind != os::PathKind::kMissing) {
    MARU_RETURN_IF_ERROR(CheckKind(beside, kind));
    MARU_ASSIGN_OR_RETURN(const os::File left, os::File::Open(beside, os::Access::kReadWrite));
    MARU_RETURN_IF_ERROR(CheckReplaceable(beside, left, Existing::kReplace));
    MARU_RETURN_IF_ERROR(os::RemoveFile(beside));
  }
  MARU_ASSIGN_OR_RETURN(os::File file, os::File::Create(beside, os::kModeOwner));
  MARU_RETURN_IF_ERROR(TakeServerLock(path, file));
  // Errors of what is done to it name the path that it will have.
  return os::File(file.Release(), path);
}

}  // namespace

NewPool::NewPool(std::string path, const layout::Superblock& block, os::File former, os::File file)
    : path_(std::move(path)),
      superblock_(block),
      former_(std::move(former)),
      file_(std::move(file)) {}

NewPool::NewPool(NewPool&& other) noexcept
    : path_(std::move(other.path_)),
      superblock_(other.superblock_),
      former_(std::move(other.former_)),
      file_(std::move(other.file_)),
      beside_(std::exchange(other.beside_, Beside::kNothing)) {}

NewPool::~NewPool() {
  // That it could not be removed hurts nobody: the next one does.
  if (beside_ == Beside::kFile) (void)os::RemoveFile(path_ + kSuffix);
}

Result<NewPool> NewPool::Make(const std::string& path, uint64_t pool_bytes,
                              const InitOptions& options) {
  MARU_ASSIGN_OR_RETURN(const layout::Superblock block, NewSuperblock(pool_bytes, options));
  MARU_ASSIGN_OR_RETURN(const os::PathKind kind, os::KindOf(path));
  os::File former;
  if (kind != os::PathKind::kMissing) {
    MARU_RETURN_IF_ERROR(CheckKind(path, kind));
    MARU_ASSIGN_OR_RETURN(former, os::File::Open(path, os::Access::kReadWrite));
    MARU_RETURN_IF_ERROR(CheckReplaceable(path, former, options.existing));
  }
  MARU_RETURN_IF_ERROR(
      CheckRoom("pool " + path, FolderOf(path), pool_bytes, former, options.size_option));
  MARU_ASSIGN_OR_RETURN(os::File file, MakeBeside(path));
  NewPool made(path, block, std::move(former), std::move(file));
  MARU_RETURN_IF_ERROR(Fill(made.file_, block));
  return made;
}

Result<std::unique_ptr<FileBacking>> NewPool::TakeBacking() {
  return FileBacking::Map(path_, std::move(file_), superblock_);
}

Status NewPool::Publish() {
  const auto when_there = former_.valid() ? os::WhenThere::kReplace : os::WhenThere::kRefuse;
  MARU_RETURN_IF_ERROR(os::RenameFile(path_ + kSuffix, path_, when_there));
  beside_ = Beside::kNothing;
  MARU_PUBLICATION_POINT("init:published");
  return OkStatus();
}

Result<layout::Superblock> InitPool(const std::string& path, uint64_t pool_bytes,
                                    const InitOptions& options) {
  MARU_ASSIGN_OR_RETURN(NewPool made, NewPool::Make(path, pool_bytes, options));
  MARU_RETURN_IF_ERROR(made.Publish());
  return made.superblock();
}

Result<os::File> InitUnnamedPool(const std::string& folder, uint64_t pool_bytes,
                                 const InitOptions& options) {
  MARU_ASSIGN_OR_RETURN(const layout::Superblock block, NewSuperblock(pool_bytes, options));
  MARU_RETURN_IF_ERROR(
      CheckRoom("a pool in " + folder, folder, pool_bytes, os::File(), options.size_option));
  MARU_ASSIGN_OR_RETURN(os::File file, os::CreateUnnamed(folder));
  MARU_RETURN_IF_ERROR(Fill(file, block));
  return file;
}

}  // namespace maru::pool
