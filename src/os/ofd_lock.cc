#include "os/ofd_lock.h"

#include <fcntl.h>

#include <limits>
#include <string>

#include "base/check.h"
#include "os/errno_status.h"

namespace maru::os {
namespace {

struct flock WriteLock(std::uint64_t offset_bytes) {
  MARU_CHECK_LT(offset_bytes, static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()));
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset_bytes);
  lock.l_len = 1;
  return lock;  // l_pid must be 0 for locks of a description
}

Status Failed(int error, std::string_view action, std::uint64_t offset_bytes) {
  return ErrnoStatus(error, action, "byte " + std::to_string(offset_bytes));
}

}  // namespace

Result<LockAttempt> TryLockByte(int fd, std::uint64_t offset_bytes) {
  struct flock lock = WriteLock(offset_bytes);
  if (RetryInterrupted([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); }) == 0) {
    return LockAttempt::kTaken;
  }
  if (errno == EAGAIN || errno == EACCES) return LockAttempt::kHeldByAnother;
  return Failed(errno, "lock", offset_bytes);
}

Result<LockState> TestByte(int fd, std::uint64_t offset_bytes) {
  struct flock lock = WriteLock(offset_bytes);
  if (RetryInterrupted([&] { return ::fcntl(fd, F_OFD_GETLK, &lock); }) != 0) {
    return Failed(errno, "test the lock of", offset_bytes);
  }
  return lock.l_type == F_UNLCK ? LockState::kFree : LockState::kHeld;
}

}  // namespace maru::os
