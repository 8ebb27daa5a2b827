#include "os/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "os/errno_status.h"

namespace maru::os {
namespace {

constexpr int kBacklog = 1024;

// The form of an address that system calls take.
struct SocketName {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

bool ParsePort(std::string_view text, uint16_t* port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *port);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsV6(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsV4(const std::string& host) {
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

SocketName NameOf(const std::string& host, bool is_v6, uint16_t port) {
  SocketName name;
  if (is_v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    ::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr);
    std::memcpy(&name.storage, &v6, name.size = sizeof(v6));
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &v4.sin_addr);
    std::memcpy(&name.storage, &v4, name.size = sizeof(v4));
  }
  return name;
}

Result<uint16_t> BoundPort(int fd) {
  SocketName name;
  name.size = sizeof(name.storage);
  if (::getsockname(fd, name.get(), &name.size) != 0) {
    return ErrnoStatus(errno, "read the address of", "a socket");
  }
  if (name.storage.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &name.storage, sizeof(v6));
    return ntohs(v6.sin6_port);
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &name.storage, sizeof(v4));
  return ntohs(v4.sin_port);
}

bool PeerIsGone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ETIMEDOUT || error == EHOSTUNREACH;
}

// The network's word that nobody can be reached there is as good as the host's.
bool NobodyIsThere(int error) {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == EADDRNOTAVAIL || error == ENETDOWN || error == EHOSTDOWN || PeerIsGone(error);
}

Status AwaitReady(int fd, short events, const Deadline& deadline, const char* action) {
  while (true) {
    pollfd waited{fd, events, 0};
    const std::int32_t left_ms = deadline.left_ms();
    const int ready = ::poll(&waited, 1, left_ms);
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, action, "");
    if (left_ms == 0) return ErrnoStatus(ETIMEDOUT, action, "");
  }
}

Status SendSmallMessagesAtOnce(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0) return OkStatus();
  return ErrnoStatus(errno, "set an option of", "a socket");
}

Result<Received> Outcome(ssize_t size, const char* action) {
  if (size > 0) return Received{IoOutcome::kDone, static_cast<size_t>(size)};
  if (size == 0 || PeerIsGone(errno)) return Received{IoOutcome::kClosed, 0};
  if (errno == EAGAIN) return Received{IoOutcome::kWouldBlock, 0};
  return ErrnoStatus(errno, action, "");
}

}  // namespace

Result<TcpAddress> TcpAddress::Parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  if (colon != std::string_view::npos && ParsePort(text.substr(colon + 1), &port)) {
    std::string host(text.substr(0, colon));
    if (host == "localhost") host = "127.0.0.1";
    if (host == "*") host = "0.0.0.0";
    if (IsV4(host)) return TcpAddress(std::move(host), false, port);
    const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (in_brackets && IsV6(host.substr(1, host.size() - 2))) {
      return TcpAddress(host.substr(1, host.size() - 2), true, port);
    }
  }
  return InvalidArgument("\"" + std::string(text.substr(0, 64)) +
                         "\" is no address to listen at; write 127.0.0.1:9850 or [::1]:9850");
}

bool TcpAddress::is_loopback() const { return is_v6_ ? host_ == "::1" : host_.starts_with("127."); }

std::string TcpAddress::ToString() const {
  return (is_v6_ ? "[" + host_ + "]" : host_) + ":" + std::to_string(port_);
}

Result<Received> TcpSocket::TryRead(std::span<std::byte> buffer) {
  return Outcome(
      RetryInterrupted([&] { return ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT); }),
      "receive from the peer");
}

Result<Received> TcpSocket::TryWrite(std::span<const std::byte> bytes) {
  return Outcome(RetryInterrupted([&] {
                   return ::send(fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
                 }),
                 "send to the peer");
}

Result<TcpSocket> TcpSocket::Connect(const TcpAddress& address, const Deadline& deadline) {
  MARU_ASSIGN_OR_RETURN(TcpSocket socket, Make(address));
  MARU_RETURN_IF_ERROR(socket.ConnectTo(address, deadline));
  return socket;
}

Result<TcpSocket> TcpSocket::Make(const TcpAddress& address) {
  const int family = address.is_v6_ ? AF_INET6 : AF_INET;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    if (errno == EAFNOSUPPORT) return Unavailable("this host has no such network");
    return ErrnoStatus(errno, "make a socket", "");
  }
  return TcpSocket(std::move(fd));
}

Status TcpSocket::ConnectTo(const TcpAddress& address, const Deadline& deadline) {
  const SocketName name = NameOf(address.host_, address.is_v6_, address.port_);
  int error = ::connect(fd(), name.get(), name.size) == 0 ? 0 : errno;
  // Interrupted or not, it goes on until the socket can be written to.
  if (error == EINPROGRESS || error == EINTR) {
    MARU_RETURN_IF_ERROR(AwaitReady(fd(), POLLOUT, deadline, "connect"));
    socklen_t size = sizeof(error);
    if (::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  }
  if (error != 0) {
    const Status status = ErrnoStatus(error, "connect to", address.ToString());
    return NobodyIsThere(error) ? Unavailable(status.message()) : status;
  }
  return SendSmallMessagesAtOnce(fd());
}

Result<size_t> TcpSocket::Read(std::span<std::byte> buffer, const Deadline& deadline) {
  while (true) {
    MARU_ASSIGN_OR_RETURN(const Received received, TryRead(buffer));
    if (received.outcome == IoOutcome::kDone) return received.size_bytes;
    if (received.outcome == IoOutcome::kClosed) {
      return Unavailable("the peer has closed the connection");
    }
    MARU_RETURN_IF_ERROR(AwaitReady(fd(), POLLIN, deadline, "wait for the peer"));
  }
}

Status TcpSocket::Write(std::span<const std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    MARU_ASSIGN_OR_RETURN(const Received sent, TryWrite(bytes));
    if (sent.outcome == IoOutcome::kClosed) {
      return Unavailable("the peer has closed the connection");
    }
    bytes = bytes.subspan(sent.size_bytes);
    if (sent.outcome == IoOutcome::kDone) continue;
    MARU_RETURN_IF_ERROR(AwaitReady(fd(), POLLOUT, deadline, "wait for the peer"));
  }
  return OkStatus();
}

Result<TcpListener> TcpListener::Listen(const TcpAddress& address) {
  const int family = address.is_v6_ ? AF_INET6 : AF_INET;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "make a socket", "");
  // A server that starts again must not wait for connections of the last one to time out.
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
    return ErrnoStatus(errno, "set an option of", "a socket");
  }
  const SocketName name = NameOf(address.host_, address.is_v6_, address.port_);
  if (::bind(fd.get(), name.get(), name.size) != 0) {
    return ErrnoStatus(errno, "bind to", address.ToString());
  }
  if (::listen(fd.get(), kBacklog) != 0) {
    return ErrnoStatus(errno, "listen at", address.ToString());
  }
  TcpAddress bound = address;
  MARU_ASSIGN_OR_RETURN(bound.port_, BoundPort(fd.get()));
  return TcpListener(std::move(bound), std::move(fd));
}

Result<TcpSocket> TcpListener::TryAccept() const {
  UniqueFd fd(
      RetryInterrupted([&] { return ::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC); }));
  if (!fd.valid()) {
    // Nobody there, or gone again before it was taken.
    if (errno == EAGAIN || errno == ECONNABORTED) return TcpSocket();
    return ErrnoStatus(errno, "accept at", address_.ToString());
  }
  MARU_RETURN_IF_ERROR(SendSmallMessagesAtOnce(fd.get()));
  return TcpSocket(std::move(fd));
}

Result<ForeignConnections> ForeignConnections::Create() {
  UniqueFd idle(::eventfd(0, EFD_CLOEXEC));
  if (!idle.valid()) return ErrnoStatus(errno, "make an event descriptor", "");
  UniqueFd spare(::fcntl(idle.get(), F_DUPFD_CLOEXEC, 0));
  if (!spare.valid()) return ErrnoStatus(errno, "duplicate an event descriptor", "");
  return ForeignConnections(std::move(idle), std::move(spare));
}

bool ForeignConnections::ShutDown(int fd, uint16_t local_port) const {
  // What is looked at stays what it is, also when its owner closes the number and it comes again.
  if (::dup3(fd, spare_.get(), O_CLOEXEC) < 0) return false;
  SocketName peer;
  peer.size = sizeof(peer.storage);
  bool ended = false;
  if (::getpeername(spare_.get(), peer.get(), &peer.size) == 0 &&
      (peer.storage.ss_family == AF_INET || peer.storage.ss_family == AF_INET6)) {
    const Result<uint16_t> port = BoundPort(spare_.get());
    ended = port.ok() && *port == local_port && ::shutdown(spare_.get(), SHUT_RDWR) == 0;
  }
  MARU_CHECK_GE(::dup3(idle_.get(), spare_.get(), O_CLOEXEC), 0);
  return ended;
}

}  // namespace maru::os
