#include "os/open_at_once.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "os/errno_status.h"

namespace maru::os {
namespace {

Status NoFile(const std::string& path, std::string_view kind) {
  return FailedPrecondition(path + " is " + std::string(kind) +
                            ", not a file: remove it or name another path");
}

bool IsSocket(const std::string& path) {
  struct stat stat{};
  return ::lstat(path.c_str(), &stat) == 0 && S_ISSOCK(stat.st_mode);
}

bool HasNoName(int fd) {
  struct statfs file_system{};
  return ::fstatfs(fd, &file_system) == 0 && file_system.f_type == PIPEFS_MAGIC;
}

}  // namespace

Result<UniqueFd> OpenAtOnce(const std::string& path, int flags, std::string_view link_remedy) {
  const int at_once = flags | O_CLOEXEC | O_NONBLOCK;
  UniqueFd fd(RetryInterrupted([&] { return ::open(path.c_str(), at_once); }));
  if (!fd.valid()) {
    const int error = errno;
    if (error == ENXIO && IsSocket(path)) return NoFile(path, "a socket");
    return ErrnoStatus(error, "open", path, error == ELOOP ? link_remedy : "");
  }
  struct stat stat{};
  if (::fstat(fd.get(), &stat) != 0) return ErrnoStatus(errno, "inspect", path);
  if (S_ISFIFO(stat.st_mode) && !HasNoName(fd.get())) return NoFile(path, "a FIFO");
  // What is read and written from now on is waited for, as of any file.
  const int now = ::fcntl(fd.get(), F_GETFL);
  if (now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, "open", path);
  }
  return fd;
}

}  // namespace maru::os
