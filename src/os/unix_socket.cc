#include "os/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "os/errno_status.h"
#include "os/unix_address.h"

namespace maru::os {
namespace {

using SteadyTime = std::chrono::steady_clock;

constexpr std::size_t kControlBytes = CMSG_SPACE(kDescriptorsMax * sizeof(int));

struct ControlBuffer {
  alignas(cmsghdr) std::array<char, kControlBytes> bytes;
};

bool PeerIsGone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN || error == ECONNREFUSED;
}

Status PeerGone() { return Unavailable("the peer has closed the connection"); }

// One sendmsg; -1 with errno.
ssize_t SendOnce(int fd, std::span<const std::byte> message, std::span<const int> descriptors,
                 int flags) {
  MARU_CHECK(!message.empty());
  MARU_CHECK_LE(descriptors.size(), kDescriptorsMax);
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control;
  if (!descriptors.empty()) {
    control.bytes.fill(0);
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(fd, &header, flags | MSG_NOSIGNAL);
}

// Takes over the descriptors that came with a message.
void TakeDescriptors(msghdr& header, std::vector<UniqueFd>& out) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      out.emplace_back(fd);
    }
  }
}

// One recvmsg. A failure of the call itself is left in *ERROR.
Result<Received> ReceiveOnce(int fd, std::span<std::byte> buffer,
                             std::vector<UniqueFd>* descriptors, int flags, int* error) {
  *error = 0;
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control;
  if (descriptors != nullptr) {
    descriptors->clear();
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
  }
  const ssize_t got = ::recvmsg(fd, &header, flags | MSG_CMSG_CLOEXEC);
  if (got < 0) {
    *error = errno;
    return Received{};
  }
  if (descriptors != nullptr) TakeDescriptors(header, *descriptors);
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    // Cut though there was room for more: this process can have no more of them.
    const bool at_limit = descriptors != nullptr && descriptors->size() < kDescriptorsMax &&
                          (header.msg_flags & MSG_TRUNC) == 0;
    if (descriptors != nullptr) descriptors->clear();
    if (at_limit) return ErrnoStatus(EMFILE, "take the descriptors of a message", "");
    if ((header.msg_flags & MSG_TRUNC) != 0) {
      return DataLoss("a message is larger than " + std::to_string(buffer.size()) + " bytes");
    }
    return DataLoss("a message carries more descriptors than it may");
  }
  // An empty message cannot be told from the end; Send never makes one.
  if (got == 0) return Received{IoOutcome::kClosed, 0};
  return Received{IoOutcome::kDone, static_cast<std::size_t>(got)};
}

// Waits until FD is ready for EVENTS or DEADLINE has passed.
Status AwaitReady(int fd, short events, std::int32_t timeout_ms, SteadyTime::time_point start) {
  while (true) {
    int left_ms = -1;
    if (timeout_ms >= 0) {
      const auto spent =
          std::chrono::duration_cast<std::chrono::milliseconds>(SteadyTime::now() - start).count();
      if (spent >= timeout_ms) return ErrnoStatus(ETIMEDOUT, "wait for the peer", "");
      left_ms = timeout_ms - static_cast<int>(spent);
    }
    pollfd waited{fd, events, 0};
    const int ready = ::poll(&waited, 1, left_ms);
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "wait for the peer", "");
  }
}

Status TooLarge(std::size_t size) {
  return InvalidArgument("a message of " + std::to_string(size) +
                         " bytes does not fit the socket's buffers");
}

}  // namespace

Result<std::pair<SeqpacketSocket, SeqpacketSocket>> SeqpacketSocket::Pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "make a pair of sockets", "");
  }
  return std::pair(SeqpacketSocket(UniqueFd(ends[0])), SeqpacketSocket(UniqueFd(ends[1])));
}

Result<SeqpacketSocket> SeqpacketSocket::Connect(const UnixAddress& address,
                                                 std::int32_t timeout_ms) {
  MARU_ASSIGN_OR_RETURN(SeqpacketSocket socket, Make());
  MARU_RETURN_IF_ERROR(socket.ConnectTo(address, timeout_ms));
  return socket;
}

Result<SeqpacketSocket> SeqpacketSocket::Make() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "make a socket", "");
  return SeqpacketSocket(std::move(fd));
}

Status SeqpacketSocket::ConnectTo(const UnixAddress& address, std::int32_t timeout_ms) {
  // The send time-out bounds connect as well.
  MARU_RETURN_IF_ERROR(SetTimeout(timeout_ms));
  const SocketName name(address);
  if (RetryInterrupted([&] { return ::connect(fd(), name.get(), name.size()); }) == 0) {
    return OkStatus();
  }
  if (errno == ENOENT || errno == ECONNREFUSED) {
    return Unavailable("nobody listens at " + address.ToString() +
                       "; start a server with: maru serve");
  }
  return ErrnoStatus(errno, "connect to", address.ToString());
}

Status SeqpacketSocket::SetTimeout(std::int32_t timeout_ms) {
  timeval time{};  // zero: for ever
  if (timeout_ms >= 0) {
    // A time-out of nothing at all is the shortest that the kernel knows.
    time.tv_sec = timeout_ms / 1000;
    time.tv_usec = timeout_ms == 0 ? 1 : timeout_ms % 1000 * 1000;
  }
  if (::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)) != 0 ||
      ::setsockopt(fd(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) != 0) {
    return ErrnoStatus(errno, "set the time-out of", "a socket");
  }
  timeout_ms_ = timeout_ms;
  return OkStatus();
}

Status SeqpacketSocket::SetBufferBytes(std::size_t bytes) {
  const int wanted = static_cast<int>(bytes);
  if (::setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &wanted, sizeof(wanted)) != 0 ||
      ::setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)) != 0) {
    return ErrnoStatus(errno, "set the buffers of", "a socket");
  }
  return OkStatus();
}

Status SeqpacketSocket::Send(std::span<const std::byte> message, std::span<const int> descriptors) {
  const SteadyTime::time_point start = SteadyTime::now();
  int flags = 0;
  while (SendOnce(fd(), message, descriptors, flags) < 0) {
    if (PeerIsGone(errno)) return PeerGone();
    if (errno == EMSGSIZE) return TooLarge(message.size());
    const bool waited_out = errno == EAGAIN && flags == 0;
    if (waited_out) return ErrnoStatus(ETIMEDOUT, "send to the peer", "");
    if (errno != EINTR && errno != EAGAIN) return ErrnoStatus(errno, "send to the peer", "");
    // Interrupted: the kernel's time-out would begin anew, so wait for what is left of it.
    MARU_RETURN_IF_ERROR(AwaitReady(fd(), POLLOUT, timeout_ms_, start));
    flags = MSG_DONTWAIT;
  }
  return OkStatus();
}

Result<std::size_t> SeqpacketSocket::Receive(std::span<std::byte> buffer,
                                             std::vector<UniqueFd>* descriptors) {
  const SteadyTime::time_point start = SteadyTime::now();
  int flags = 0;
  while (true) {
    int error = 0;
    MARU_ASSIGN_OR_RETURN(const Received received,
                          ReceiveOnce(fd(), buffer, descriptors, flags, &error));
    if (error == 0) {
      if (received.outcome == IoOutcome::kClosed) return PeerGone();
      return received.size_bytes;
    }
    if (PeerIsGone(error)) return PeerGone();
    const bool waited_out = error == EAGAIN && flags == 0;
    if (waited_out) return ErrnoStatus(ETIMEDOUT, "receive from the peer", "");
    if (error != EINTR && error != EAGAIN) return ErrnoStatus(error, "receive from the peer", "");
    MARU_RETURN_IF_ERROR(AwaitReady(fd(), POLLIN, timeout_ms_, start));
    flags = MSG_DONTWAIT;
  }
}

Status SeqpacketSocket::AwaitMessage() const {
  return AwaitReady(fd(), POLLIN, timeout_ms_, SteadyTime::now());
}

Result<IoOutcome> SeqpacketSocket::TrySend(std::span<const std::byte> message,
                                           std::span<const int> descriptors) {
  const ssize_t sent =
      RetryInterrupted([&] { return SendOnce(fd(), message, descriptors, MSG_DONTWAIT); });
  if (sent >= 0) return IoOutcome::kDone;
  if (errno == EAGAIN) return IoOutcome::kWouldBlock;
  if (PeerIsGone(errno)) return IoOutcome::kClosed;
  if (errno == EMSGSIZE) return TooLarge(message.size());
  return ErrnoStatus(errno, "send to the peer", "");
}

Result<Received> SeqpacketSocket::TryReceive(std::span<std::byte> buffer,
                                             std::vector<UniqueFd>* descriptors) {
  while (true) {
    int error = 0;
    MARU_ASSIGN_OR_RETURN(const Received received,
                          ReceiveOnce(fd(), buffer, descriptors, MSG_DONTWAIT, &error));
    if (error == 0) return received;
    if (error == EAGAIN) return Received{IoOutcome::kWouldBlock, 0};
    if (PeerIsGone(error)) return Received{IoOutcome::kClosed, 0};
    if (error != EINTR) return ErrnoStatus(error, "receive from the peer", "");
  }
}

Result<PeerCredentials> SeqpacketSocket::Credentials() const {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus(errno, "read the credentials of", "the peer");
  }
  return PeerCredentials{peer.pid, peer.uid, peer.gid};
}

Result<std::vector<std::uint32_t>> SeqpacketSocket::PeerGroups() const {
  std::vector<std::uint32_t> groups(64);
  while (true) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(std::uint32_t));
    if (::getsockopt(fd(), SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) {
      groups.resize(size / sizeof(std::uint32_t));
      return groups;
    }
    // SIZE says how much room it would have taken.
    const std::size_t wanted = size / sizeof(std::uint32_t);
    if (errno != ERANGE || wanted > kPeerGroupsMax || wanted <= groups.size()) {
      return ErrnoStatus(errno, "read the groups of", "the peer");
    }
    groups.resize(wanted);
  }
}

}  // namespace maru::os
