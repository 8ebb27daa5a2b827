#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "os/errno_status.h"
#include "os/ofd_lock.h"
#include "os/unix_address.h"
#include "os/unix_socket.h"

namespace maru::os {
namespace {

constexpr int kBacklog = 1024;
constexpr const char* kLockSuffix = ".lock";
constexpr std::int32_t kProbeTimeoutMs = 1000;

Status InUse(const UnixAddress& address, const PeerCredentials* owner = nullptr) {
  std::string message = "socket " + address.ToString() + " is in use";
  if (owner != nullptr && owner->pid > 0) {
    message +=
        " by process " + std::to_string(owner->pid) + " of uid " + std::to_string(owner->uid);
  }
  return AlreadyExists(message + "; stop that server or choose another socket");
}

// Whoever listens there is named.
Status InUseBySomebody(const UnixAddress& address) {
  const Result<SeqpacketSocket> probe = SeqpacketSocket::Connect(address, kProbeTimeoutMs);
  if (!probe.ok()) return InUse(address);
  const Result<PeerCredentials> owner = probe->Credentials();
  return InUse(address, owner.ok() ? &*owner : nullptr);
}

Status CheckText(std::string_view text, std::string_view what) {
  if (text.empty()) return InvalidArgument(std::string(what) + " is empty");
  if (text.size() > kSocketPathBytesMax) {
    return InvalidArgument(std::string(what) + " \"" + std::string(text.substr(0, 64)) +
                           "...\" has " + std::to_string(text.size()) + " bytes; at most " +
                           std::to_string(kSocketPathBytesMax) + " are possible");
  }
  if (text.find('\0') != std::string_view::npos) {
    return InvalidArgument(std::string(what) + " holds a zero byte");
  }
  return OkStatus();
}

bool IsAt(const std::string& path, int fd) {
  struct stat there{}, here{};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &here) == 0 &&
         there.st_dev == here.st_dev && there.st_ino == here.st_ino;
}

// The file next to a socket, locked for as long as it is open. Whoever had it may have removed it
// between our two steps: then the next one there is the one to have.
Result<File> LockBeside(const UnixAddress& address, std::uint32_t mode) {
  constexpr int kTriesMax = 1000;
  const std::string path = address.text() + kLockSuffix;
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    UniqueFd fd(RetryInterrupted([&] { return ::open(path.c_str(), flags, mode & kModeOwner); }));
    if (!fd.valid()) return ErrnoStatus(errno, "open", path);
    MARU_ASSIGN_OR_RETURN(const LockAttempt attempt, TryLockByte(fd.get(), 0));
    if (attempt == LockAttempt::kHeldByAnother) return InUseBySomebody(address);
    if (IsAt(path, fd.get())) return File(std::move(fd), path);
  }
  return Unavailable(path + " is made and removed by others all the time: choose another socket");
}

// Removes the lock's file, unless a listener has come to do so. REQUIRES: dies before the lock
// goes.
struct RemovedLock {
  std::string path;
  ~RemovedLock() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

Status CheckIsSocket(const std::string& path) {
  struct stat stat{};
  if (::lstat(path.c_str(), &stat) != 0) {
    return errno == ENOENT ? OkStatus() : ErrnoStatus(errno, "inspect", path);
  }
  if (S_ISSOCK(stat.st_mode)) return OkStatus();
  return AlreadyExists(path + " exists and is no socket; remove it or choose another path");
}

// Removes the socket file of a dead server. The caller holds the lock, so nobody of ours can be
// about to listen there; somebody without a lock is found by connecting.
Status RemoveStale(const UnixAddress& address) {
  const std::string& path = address.text();
  MARU_RETURN_IF_ERROR(CheckIsSocket(path));
  MARU_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kMissing) return OkStatus();
  const Result<SeqpacketSocket> probe = SeqpacketSocket::Connect(address, kProbeTimeoutMs);
  if (probe.ok()) {
    const Result<PeerCredentials> owner = probe->Credentials();
    return InUse(address, owner.ok() ? &*owner : nullptr);
  }
  if (probe.status().code() != StatusCode::kUnavailable) return InUse(address);
  return RemoveFile(path);
}

}  // namespace

Result<UnixAddress> UnixAddress::Path(std::string_view path) {
  MARU_RETURN_IF_ERROR(CheckText(path, "socket path"));
  return UnixAddress(std::string(path), false);
}

Result<UnixAddress> UnixAddress::Abstract(std::string_view name) {
  MARU_RETURN_IF_ERROR(CheckText(name, "socket name"));
  return UnixAddress(std::string(name), true);
}

Result<UnixAddress> UnixAddress::Parse(std::string_view text) {
  return text.starts_with('@') ? Abstract(text.substr(1)) : Path(text);
}

UnixListener::UnixListener(UnixAddress address, UniqueFd fd, File lock)
    : address_(std::move(address)),
      fd_(std::move(fd)),
      lock_(std::move(lock)),
      owner_pid_(::getpid()) {}

UnixListener::~UnixListener() {
  const bool moved_from = !fd_.valid();
  if (moved_from || address_.is_abstract() || owner_pid_ != ::getpid()) return;
  // Before the lock goes: the next server must not have its new socket removed, nor its lock.
  ::unlink(address_.text().c_str());
  ::unlink((address_.text() + kLockSuffix).c_str());
}

Result<UnixListener> UnixListener::Listen(const UnixAddress& address, std::uint32_t mode) {
  MARU_ASSIGN_OR_RETURN(UnixListener listener, Bind(address, mode));
  MARU_RETURN_IF_ERROR(listener.Listen());
  return listener;
}

Status UnixListener::Listen() const {
  if (::listen(fd_.get(), kBacklog) == 0) return OkStatus();
  return ErrnoStatus(errno, "listen at", address_.ToString());
}

Result<UnixListener> UnixListener::Bind(const UnixAddress& address, std::uint32_t mode) {
  File lock;
  RemovedLock made;
  if (!address.is_abstract()) {
    // Before there is a lock beside a file that is somebody's own.
    MARU_RETURN_IF_ERROR(CheckIsSocket(address.text()));
    MARU_ASSIGN_OR_RETURN(lock, LockBeside(address, mode));
    made.path = lock.name();
    MARU_RETURN_IF_ERROR(RemoveStale(address));
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "make a socket", "");
  // The file is made with this mode less the umask, so that it is never wider than asked for.
  if (!address.is_abstract() && ::fchmod(fd.get(), mode) != 0) {
    return ErrnoStatus(errno, "set the mode of", address.ToString());
  }
  const SocketName name(address);
  if (::bind(fd.get(), name.get(), name.size()) != 0) {
    if (errno == EADDRINUSE) return InUseBySomebody(address);
    return ErrnoStatus(errno, "bind to", address.ToString());
  }
  made.path.clear();
  UnixListener listener(address, std::move(fd), std::move(lock));
  if (!address.is_abstract() && ::chmod(address.text().c_str(), mode) != 0) {
    return ErrnoStatus(errno, "set the mode of", address.ToString());
  }
  return listener;
}

Status UnixListener::SetGroup(std::uint32_t gid) const {
  if (address_.is_abstract()) return OkStatus();
  if (::lchown(address_.text().c_str(), static_cast<uid_t>(-1), gid) != 0) {
    return ErrnoStatus(errno, "set the group of", address_.text(), "be a member of that group");
  }
  return OkStatus();
}

Result<SeqpacketSocket> UnixListener::TryAccept() const {
  UniqueFd fd(
      RetryInterrupted([&] { return ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC); }));
  if (!fd.valid()) {
    // Nobody there, or gone again before it was taken.
    if (errno == EAGAIN || errno == ECONNABORTED) return SeqpacketSocket();
    return ErrnoStatus(errno, "accept at", address_.ToString());
  }
  return SeqpacketSocket(std::move(fd));
}

}  // namespace maru::os
