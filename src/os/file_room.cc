#include "os/file_room.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <utility>

#include "os/errno_status.h"

namespace maru::os {

Result<std::uint64_t> BackedBytes(const File& file) {
  struct stat facts{};
  if (::fstat(file.fd(), &facts) != 0) return ErrnoStatus(errno, "look at", file.name());
  constexpr std::uint64_t kBlockBytes = 512;  // whatever the file system's own are
  return static_cast<std::uint64_t>(facts.st_blocks) * kBlockBytes;
}

Status Discard(const File& file, std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const auto offset = static_cast<off_t>(offset_bytes);
  const auto length = static_cast<off_t>(length_bytes);
  if (RetryInterrupted([&] { return ::fallocate(file.fd(), kMode, offset, length); }) == 0) {
    return OkStatus();
  }
  return ErrnoStatus(errno, "give back " + std::to_string(length_bytes) + " bytes of", file.name());
}

Result<File> CreateUnnamed(const std::string& folder) {
  const int flags = O_RDWR | O_CLOEXEC | O_TMPFILE | O_EXCL;  // nobody gives it a name later
  UniqueFd fd(RetryInterrupted([&] { return ::open(folder.c_str(), flags, kModeOwner); }));
  if (!fd.valid()) return ErrnoStatus(errno, "create a file without a name in", folder);
  return File(std::move(fd), "a file without a name in " + folder);
}

}  // namespace maru::os
