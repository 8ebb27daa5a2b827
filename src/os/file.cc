#include "os/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "os/errno_status.h"
#include "os/open_at_once.h"

namespace maru::os {
namespace {

constexpr long kTmpfsMagic = 0x01021994;
constexpr std::size_t kSysfsNumberMax = 32;
// The kernel reads and writes at most this much a call.
constexpr std::size_t kTransferMax = 0x7ffff000;

int OpenFlags(Access access) {
  return (access == Access::kRead ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW;
}

PathKind KindFromMode(mode_t mode, bool on_tmpfs) {
  if (S_ISREG(mode)) return on_tmpfs ? PathKind::kTmpfs : PathKind::kRegular;
  if (S_ISCHR(mode)) return PathKind::kCharDevice;
  if (S_ISDIR(mode)) return PathKind::kDirectory;
  if (S_ISSOCK(mode)) return PathKind::kSocket;
  return PathKind::kOther;
}

// The size of a DAX device; 0 for a device that has none.
std::uint64_t DeviceSize(dev_t device) {
  const std::string path = "/sys/dev/char/" + std::to_string(major(device)) + ":" +
                           std::to_string(minor(device)) + "/size";
  const Result<std::string> text = ReadTextFile(path, kSysfsNumberMax);
  std::uint64_t size = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), size);
  return size;
}

bool OffsetFits(std::uint64_t offset, std::uint64_t length) {
  return RangeFits(offset, length, std::numeric_limits<off_t>::max());
}

// /proc/PID/fd/N, which nobody else can make: the link there is the kernel's own.
bool NamesDescriptor(const std::string& path) {
  unsigned process = 0, number = 0;
  int end = 0;
  return std::sscanf(path.c_str(), "/proc/%9u/fd/%9u%n", &process, &number, &end) == 2 &&
         static_cast<std::size_t>(end) == path.size();
}

}  // namespace

Result<File> File::Open(const std::string& path, Access access) {
  const int flags = OpenFlags(access) & (NamesDescriptor(path) ? ~O_NOFOLLOW : ~0);
  MARU_ASSIGN_OR_RETURN(
      UniqueFd fd,
      OpenAtOnce(path, flags, "a symbolic link is not followed: name what it leads to"));
  return File(std::move(fd), path);
}

Result<File> File::Create(const std::string& path, std::uint32_t mode) {
  const int flags = OpenFlags(Access::kReadWrite) | O_CREAT | O_EXCL;
  // Created closed to all others; the mode follows, since the umask would narrow it.
  UniqueFd fd(RetryInterrupted([&] { return ::open(path.c_str(), flags, kModeOwner & mode); }));
  if (!fd.valid()) return ErrnoStatus(errno, "create", path);
  File file(std::move(fd), path);
  if (mode != kModeOwner) MARU_RETURN_IF_ERROR(file.SetMode(mode));
  return file;
}

Result<File> File::CreateMemory(const std::string& name) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "create memory file", name);
  return File(std::move(fd), "memory:" + name);
}

Result<File> File::Reopen(Access access) const {
  const std::string path = "/proc/self/fd/" + std::to_string(fd());
  // The entry is a link to follow, whatever the file's own path has become.
  const int flags = OpenFlags(access) & ~O_NOFOLLOW;
  UniqueFd opened(RetryInterrupted([&] { return ::open(path.c_str(), flags); }));
  if (!opened.valid()) return ErrnoStatus(errno, "reopen", name_);
  return File(std::move(opened), name_);
}

Result<FileFacts> File::Facts() const {
  struct stat stat{};
  if (::fstat(fd(), &stat) != 0) return ErrnoStatus(errno, "inspect", name_);
  struct statfs file_system{};
  const bool on_tmpfs =
      ::fstatfs(fd(), &file_system) == 0 && static_cast<long>(file_system.f_type) == kTmpfsMagic;
  FileFacts facts;
  facts.kind = KindFromMode(stat.st_mode, on_tmpfs);
  facts.size_bytes =
      S_ISCHR(stat.st_mode) ? DeviceSize(stat.st_rdev) : static_cast<std::uint64_t>(stat.st_size);
  facts.reserved_bytes =
      S_ISCHR(stat.st_mode) ? facts.size_bytes : static_cast<std::uint64_t>(stat.st_blocks) * 512;
  facts.device = stat.st_dev;
  facts.inode = stat.st_ino;
  facts.mode = stat.st_mode & 07777;
  facts.uid = stat.st_uid;
  facts.gid = stat.st_gid;
  return facts;
}

Result<std::uint64_t> File::SizeBytes() const {
  MARU_ASSIGN_OR_RETURN(const FileFacts facts, Facts());
  return facts.size_bytes;
}

Status File::GrowTo(std::uint64_t size_bytes) const {
  MARU_ASSIGN_OR_RETURN(const std::uint64_t now, SizeBytes());
  if (now == size_bytes) return OkStatus();
  if (now > size_bytes || !OffsetFits(size_bytes, 0)) {
    return FailedPrecondition("cannot change " + name_ + " from " + std::to_string(now) + " to " +
                              std::to_string(size_bytes) + " bytes; files only grow");
  }
  const auto size = static_cast<off_t>(size_bytes);
  if (RetryInterrupted([&] { return ::ftruncate(fd(), size); }) != 0) {
    return ErrnoStatus(errno, "grow", name_);
  }
  return OkStatus();
}

Status File::Reserve(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  if (length_bytes == 0) return OkStatus();
  MARU_ASSIGN_OR_RETURN(const FileFacts facts, Facts());
  MARU_CHECK(RangeFits(offset_bytes, length_bytes, facts.size_bytes))
      << name_ << ": " << offset_bytes << " + " << length_bytes << " of " << facts.size_bytes;
  if (facts.kind == PathKind::kCharDevice) return OkStatus();
  const auto offset = static_cast<off_t>(offset_bytes);
  const auto length = static_cast<off_t>(length_bytes);
  if (RetryInterrupted([&] { return ::fallocate(fd(), FALLOC_FL_KEEP_SIZE, offset, length); })) {
    const std::string action = "reserve " + std::to_string(length_bytes) + " bytes of";
    const bool unsupported = errno == EOPNOTSUPP;
    return ErrnoStatus(errno, action, name_,
                       unsupported ? "put the pool on tmpfs, ext4 or xfs" : "");
  }
  return OkStatus();
}

Result<std::size_t> File::ReadAt(std::span<std::byte> to, std::uint64_t offset_bytes) const {
  if (!OffsetFits(offset_bytes, to.size())) return InvalidArgument("offset beyond any file");
  std::size_t done = 0;
  while (done < to.size()) {
    const std::size_t want = std::min(to.size() - done, kTransferMax);
    const auto at = static_cast<off_t>(offset_bytes + done);
    const ssize_t got = RetryInterrupted([&] { return ::pread(fd(), to.data() + done, want, at); });
    if (got < 0) return ErrnoStatus(errno, "read", name_);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Status File::ReadExactlyAt(std::span<std::byte> to, std::uint64_t offset_bytes) const {
  MARU_ASSIGN_OR_RETURN(const std::size_t got, ReadAt(to, offset_bytes));
  if (got == to.size()) return OkStatus();
  return DataLoss(name_ + " ends at byte " + std::to_string(offset_bytes + got) + ", " +
                  std::to_string(to.size() - got) + " bytes too early");
}

Status File::WriteAt(std::span<const std::byte> from, std::uint64_t offset_bytes) const {
  if (!OffsetFits(offset_bytes, from.size())) return InvalidArgument("offset beyond any file");
  std::size_t done = 0;
  while (done < from.size()) {
    const std::size_t want = std::min(from.size() - done, kTransferMax);
    const auto at = static_cast<off_t>(offset_bytes + done);
    const ssize_t put =
        RetryInterrupted([&] { return ::pwrite(fd(), from.data() + done, want, at); });
    if (put < 0) return ErrnoStatus(errno, "write", name_);
    done += static_cast<std::size_t>(put);
  }
  return OkStatus();
}

Status File::Sync() const {
  if (RetryInterrupted([&] { return ::fsync(fd()); }) != 0) {
    return ErrnoStatus(errno, "sync", name_);
  }
  return OkStatus();
}

Status File::SetMode(std::uint32_t mode) const {
  if (::fchmod(fd(), mode) != 0) return ErrnoStatus(errno, "set the mode of", name_);
  return OkStatus();
}

Status File::SetGroup(std::uint32_t gid) const {
  if (::fchown(fd(), static_cast<uid_t>(-1), gid) != 0) {
    return ErrnoStatus(errno, "set the group of", name_, "be a member of that group");
  }
  return OkStatus();
}

Result<PathKind> KindOf(const std::string& path) {
  struct stat stat{};
  if (::stat(path.c_str(), &stat) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return PathKind::kMissing;
    return ErrnoStatus(errno, "inspect", path);
  }
  struct statfs file_system{};
  const bool on_tmpfs = ::statfs(path.c_str(), &file_system) == 0 &&
                        static_cast<long>(file_system.f_type) == kTmpfsMagic;
  return KindFromMode(stat.st_mode, on_tmpfs);
}

}  // namespace maru::os
