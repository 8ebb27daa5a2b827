#pragma once

// Files, devices and memory files. Every descriptor is close-on-exec; a new file has the mode that
// is asked for, whatever the umask. Thread safety: reads and writes at offsets from any thread, the
// rest as of a plain object.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"
#include "os/unique_fd.h"

namespace maru::os {

enum class Access { kRead, kReadWrite };

enum class PathKind { kMissing, kTmpfs, kRegular, kCharDevice, kDirectory, kSocket, kOther };

inline constexpr std::uint32_t kModeOwner = 0600;
inline constexpr std::uint32_t kModeGroup = 0660;

struct FileFacts {
  PathKind kind = PathKind::kOther;
  std::uint64_t size_bytes = 0;  // of a character device: what sysfs says, 0 when it says nothing
  std::uint64_t reserved_bytes = 0;  // backed by memory or disk
  std::uint64_t device = 0;          // with inode: the same for two names of one file
  std::uint64_t inode = 0;
  std::uint32_t mode = 0;  // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

class File {
 public:
  File() = default;  // holds nothing
  // NAME is for messages.
  File(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  // Follows no symbolic link in the last component.
  static Result<File> Open(const std::string& path, Access access);
  // AlreadyExists when there is such a file; it is left alone.
  static Result<File> Create(const std::string& path, std::uint32_t mode = kModeOwner);
  // Shared memory without a path, gone with its last descriptor and mapping.
  static Result<File> CreateMemory(const std::string& name);

  // The same file through a new open file description: its OFD locks are its own. Works when the
  // path is gone; needs /proc.
  Result<File> Reopen(Access access) const;

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  UniqueFd Release() { return std::move(fd_); }

  Result<FileFacts> Facts() const;
  Result<std::uint64_t> SizeBytes() const;

  // Makes the file SIZE_BYTES long, with a hole. FailedPrecondition when it is longer already:
  // readers may have it mapped, so no file is ever cut.
  Status GrowTo(std::uint64_t size_bytes) const;
  // Backs the range, so that no later access to it can fail for want of room. What the range held
  // stays. REQUIRES: the range lies within the file. A character device is backed always.
  Status Reserve(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

  // The number of bytes read: less than asked for at the end of the file only.
  Result<std::size_t> ReadAt(std::span<std::byte> to, std::uint64_t offset_bytes) const;
  // DataLoss when the file ends before TO is full.
  Status ReadExactlyAt(std::span<std::byte> to, std::uint64_t offset_bytes) const;
  Status WriteAt(std::span<const std::byte> from, std::uint64_t offset_bytes) const;
  Status Sync() const;
  Status SetMode(std::uint32_t mode) const;
  // Gives the file to a group (of this process, unless root).
  Status SetGroup(std::uint32_t gid) const;

 private:
  UniqueFd fd_;
  std::string name_;
};

// kMissing is an answer, not an error. Follows symbolic links.
Result<PathKind> KindOf(const std::string& path);
// PATH as another process can open it, whatever its working directory. Nothing is resolved, nothing
// has to exist.
Result<std::string> AbsolutePath(const std::string& path);
// What an unprivileged process can still write to the file system that holds PATH.
Result<std::uint64_t> FreeSpaceBytes(const std::string& path);
// NotFound when there is none.
Status RemoveFile(const std::string& path);
// FROM takes the place of TO at once, on one file system. AlreadyExists: there is a TO, which is
// not to be replaced.
enum class WhenThere : std::uint8_t { kReplace, kRefuse };
Status RenameFile(const std::string& from, const std::string& to, WhenThere when_there);
// OK when it exists already. The parent must exist.
Status MakeDirectory(const std::string& path, std::uint32_t mode = 0700);
// Names without "." and "..", sorted. ResourceExhausted beyond NAMES_MAX.
Result<std::vector<std::string>> ListDirectory(const std::string& path, std::size_t names_max);
// For configuration and for /proc and /sys. ResourceExhausted beyond BYTES_MAX.
Result<std::string> ReadTextFile(const std::string& path, std::size_t bytes_max);
// Replaces the file as a whole: a reader sees the old text or the new one.
Status WriteTextFile(const std::string& path, std::string_view text,
                     std::uint32_t mode = kModeOwner);

}  // namespace maru::os
