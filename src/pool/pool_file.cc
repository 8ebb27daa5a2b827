#include "pool/pool_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/sequence_point.h"
#include "base/units.h"
#include "layout/text.h"
#include "os/file_room.h"
#include "os/ofd_lock.h"
#include "os/process.h"
#include "pool/carver.h"
#include "pool/pool_file_impl.h"

namespace maru::pool {
namespace {

using layout::Concat;

// Enough for the superblock of any version.
constexpr uint64_t kHeadReadBytes = layout::kRootOffset;
constexpr uint32_t kBases = (layout::kRegionIdMax / layout::kRegionIdsPerPool) + 1;

}  // namespace

Result<std::vector<std::byte>> ReadHead(const os::File& file) {
  std::vector<std::byte> head(kHeadReadBytes);
  MARU_ASSIGN_OR_RETURN(const size_t size, file.ReadAt(head, 0));
  head.resize(size);
  return head;
}

namespace {

// Any of our marks, also of a pool that cannot be opened.
bool HasOurMark(std::span<const std::byte> head) {
  const layout::Superblock sample =
      layout::MakeSuperblock({}, layout::kPoolBytesMin, 0, layout::kRegionIdsPerPool, 0);
  const auto has = [&](size_t offset, const void* mark, size_t size) {
    return RangeFits(offset, size, head.size()) &&
           std::memcmp(head.data() + offset, mark, size) == 0;
  };
  return has(offsetof(layout::Superblock, magic), sample.magic, sizeof(sample.magic)) ||
         has(0, sample.device.magic, sizeof(sample.device.magic));
}

}  // namespace

Seen Look(std::span<const std::byte> head, uint64_t file_bytes) {
  if (file_bytes == 0) return {Content::kNothing, OkStatus()};
  layout::Superblock block;
  Status status = layout::ValidateSuperblock(head, file_bytes, &block);
  if (status.ok()) return {Content::kPool, OkStatus()};
  if (HasOurMark(head)) return {Content::kBrokenPool, std::move(status)};
  const bool zero = std::ranges::all_of(head, [](std::byte b) { return b == std::byte{0}; });
  return {zero ? Content::kZeroes : Content::kForeign, std::move(status)};
}

Status CheckKind(const std::string& path, os::PathKind kind) {
  if (kind == os::PathKind::kTmpfs || kind == os::PathKind::kRegular) return OkStatus();
  return InvalidArgument(Concat("pool ", path, " is no regular file"));
}

Status TakeServerLock(const std::string& path, const os::File& file) {
  MARU_ASSIGN_OR_RETURN(const os::LockAttempt attempt,
                        os::TryLockByte(file.fd(), layout::kServerLivenessOffset));
  if (attempt == os::LockAttempt::kTaken) return OkStatus();
  return FailedPrecondition(
      Concat("pool ", path, " is in use: another server has it; stop that one first"));
}

// Base 0 is left out, so that no region has the id 0.
Result<uint32_t> DrawBase(std::span<const uint32_t> in_use) {
  std::vector<uint32_t> choices;
  for (uint32_t i = 1; i < kBases; ++i) {
    const uint32_t base = i * layout::kRegionIdsPerPool;
    if (std::ranges::find(in_use, base) == in_use.end()) choices.push_back(base);
  }
  if (choices.empty()) return ResourceExhausted("all ranges of region ids are in use");
  MARU_ASSIGN_OR_RETURN(const uint64_t drawn, os::RandomNumber());
  return choices[drawn % choices.size()];
}

Result<PoolFile> OpenPoolFile(const std::string& path, os::Access access) {
  MARU_ASSIGN_OR_RETURN(os::File file, os::File::Open(path, access));
  MARU_ASSIGN_OR_RETURN(const os::FileFacts facts, file.Facts());
  MARU_RETURN_IF_ERROR(CheckKind(path, facts.kind));
  MARU_ASSIGN_OR_RETURN(const std::vector<std::byte> head, ReadHead(file));
  PoolFile opened;
  const Status status = layout::ValidateSuperblock(head, facts.size_bytes, &opened.superblock);
  if (!status.ok()) {
    // Without any mark of ours it is the path that is wrong and not a pool.
    const StatusCode code = HasOurMark(head) ? status.code() : StatusCode::kFailedPrecondition;
    return Status(code, Concat("pool ", path, ": ", status.message()));
  }
  opened.file = std::move(file);
  return opened;
}

Result<std::unique_ptr<FileBacking>> FileBacking::OpenForServing(const std::string& path) {
  MARU_ASSIGN_OR_RETURN(PoolFile opened, OpenPoolFile(path, os::Access::kReadWrite));
  MARU_ASSIGN_OR_RETURN(const os::FileFacts facts, opened.file.Facts());
  constexpr uint32_t kModeOthers = 07, kRootUid = 0;
  if ((facts.mode & kModeOthers) != 0) {
    return PermissionDenied(
        Concat("pool ", path, " is open to every user of this machine: chmod ", "o= ", path));
  }
  if (facts.uid != os::UserId() && os::UserId() != kRootUid) {
    return PermissionDenied(Concat("pool ", path, " belongs to user ", facts.uid,
                                   ", who may cut it short while it is served; this server runs "
                                   "as user ",
                                   os::UserId()));
  }
  MARU_RETURN_IF_ERROR(TakeServerLock(path, opened.file));
  return Map(path, std::move(opened.file), opened.superblock);
}

Result<std::unique_ptr<FileBacking>> FileBacking::Map(const std::string& path, os::File file,
                                                      const layout::Superblock& superblock) {
  MARU_ASSIGN_OR_RETURN(os::Mapping mapping, os::Mapping::Map(file, 0, superblock.pool_bytes,
                                                              {.access = os::Access::kReadWrite,
                                                               .pages = os::PageHint::kHuge}));
  return std::unique_ptr<FileBacking>(new FileBacking(path, std::move(file), std::move(mapping)));
}

FileBacking::FileBacking(std::string path, os::File file, os::Mapping mapping)
    : path_(std::move(path)), file_(std::move(file)), mapping_(std::move(mapping)) {}

Status FileBacking::Reserve(uint64_t offset_bytes, uint64_t length_bytes, os::PageHint pages) {
  Status status = file_.Reserve(offset_bytes, length_bytes);
  // Afterwards, since a reservation that is refused must keep nothing. A file in /dev/shm gets huge
  // pages in this way only, whatever the machine is set to.
  if (status.ok() && pages == os::PageHint::kHuge) mapping_.MakeHuge(offset_bytes, length_bytes);
  if (status.code() != StatusCode::kResourceExhausted) return status;
  const Result<uint64_t> free_bytes = os::FreeSpaceBytes(path_);
  return ResourceExhausted(
      Concat("pool ", path_, ": ", FormatSize(length_bytes), " wanted, ",
             free_bytes.ok() ? FormatSize(*free_bytes) : "an unknown number of bytes",
             " free there (", status.message(), ")"));
}

Result<bool> FileBacking::ReserveNew(uint64_t offset_bytes, uint64_t length_bytes) {
  MARU_ASSIGN_OR_RETURN(const uint64_t before, os::BackedBytes(file_));
  MARU_RETURN_IF_ERROR(Reserve(offset_bytes, length_bytes, os::PageHint::kDefault));
  MARU_ASSIGN_OR_RETURN(const uint64_t after, os::BackedBytes(file_));
  return after > before;
}

Status FileBacking::Discard(uint64_t offset_bytes, uint64_t length_bytes) {
  return os::Discard(file_, offset_bytes, length_bytes);
}

Result<layout::Superblock> Renumber(const std::string& path,
                                    std::span<const uint32_t> bases_in_use) {
  MARU_ASSIGN_OR_RETURN(const std::unique_ptr<FileBacking> backing,
                        FileBacking::OpenForServing(path));
  // Refuses a damaged region table before anything is changed.
  MARU_RETURN_IF_ERROR(Carver::Open(backing.get()).status());
  layout::Superblock former;
  std::memcpy(&former, backing->base() + layout::kSuperblockOffset, sizeof(former));
  std::vector<uint32_t> in_use(bases_in_use.begin(), bases_in_use.end());
  in_use.push_back(former.region_id_base);
  MARU_ASSIGN_OR_RETURN(const uint32_t base, DrawBase(in_use));
  // Clients know their pools by it: of a copy it must be another than the original's.
  layout::Uuid uuid;
  MARU_RETURN_IF_ERROR(os::FillRandom(std::as_writable_bytes(std::span(uuid))));
  const layout::Superblock block =
      layout::MakeSuperblock(uuid, former.pool_bytes, former.flags, base, former.created_unix_ns);
  // One small write and not stores through the mapping, which a crash could cut in two. From here
  // on the regions have ids of another base, and whoever opens the pool gives them new ones.
  MARU_RETURN_IF_ERROR(
      backing->file().WriteAt(std::as_bytes(std::span(&block, 1)), layout::kSuperblockOffset));
  MARU_PUBLICATION_POINT("renumber:superblock");
  auto& root = *reinterpret_cast<layout::Root*>(backing->base() + layout::kRootOffset);
  // Release, before the first new id: no region has an id of the new base yet, so they start anew.
  root.next_region_ordinal.store(0, std::memory_order_release);
  MARU_PUBLICATION_POINT("renumber:ordinal");
  MARU_ASSIGN_OR_RETURN(const std::unique_ptr<Carver> carver, Carver::Open(backing.get()));
  MARU_RETURN_IF_ERROR(carver->Mend());
  MARU_RETURN_IF_ERROR(backing->Flush());
  return block;
}

}  // namespace maru::pool
