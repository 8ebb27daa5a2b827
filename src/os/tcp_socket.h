#pragma once

// TCP, for endpoints of an event loop (what is named Try does not wait) and for callers that wait
// until a deadline. No message kills the process by SIGPIPE. Thread safety: as of a plain object.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "maru/result.h"
#include "os/deadline.h"
#include "os/unique_fd.h"
#include "os/unix_socket.h"

namespace maru::os {

// Where to listen or to connect: a numeric address or "localhost", and a port.
class TcpAddress {
 public:
  // "127.0.0.1:9850", "[::1]:9850", "localhost:0" (port 0: any free one), "*:9850" (all of IPv4).
  // InvalidArgument for anything else; names are not looked up.
  static Result<TcpAddress> Parse(std::string_view text);

  bool is_loopback() const;
  const std::string& host() const { return host_; }
  uint16_t port() const { return port_; }
  std::string ToString() const;  // as Parse reads it

 private:
  TcpAddress(std::string host, bool is_v6, uint16_t port)
      : host_(std::move(host)), is_v6_(is_v6), port_(port) {}
  friend class TcpListener;
  friend class TcpSocket;

  std::string host_;  // numeric
  bool is_v6_;
  uint16_t port_;
};

class TcpSocket {
 public:
  TcpSocket() = default;  // not connected
  explicit TcpSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // Unavailable when nobody listens there or the network does not lead there.
  static Result<TcpSocket> Connect(const TcpAddress& address, const Deadline& deadline);
  // The same in two steps: the first does not wait, and makes the descriptor.
  static Result<TcpSocket> Make(const TcpAddress& address);
  Status ConnectTo(const TcpAddress& address, const Deadline& deadline);

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  void Close() { fd_.Reset(); }

  // Reads or writes a part of the bytes; size_bytes says how many, never 0 with kDone.
  // REQUIRES: not empty.
  Result<Received> TryRead(std::span<std::byte> buffer);
  Result<Received> TryWrite(std::span<const std::byte> bytes);

  // Waits for some bytes; their number. Unavailable: the peer has closed the connection.
  // REQUIRES: not empty.
  Result<std::size_t> Read(std::span<std::byte> buffer, const Deadline& deadline);
  // Waits until all are on their way.
  Status Write(std::span<const std::byte> bytes, const Deadline& deadline);

 private:
  UniqueFd fd_;
};

// Ends connections whose descriptors another thread owns, and may have closed meanwhile. Needs no
// free descriptor.
class ForeignConnections {
 public:
  static Result<ForeignConnections> Create();

  // Both directions. Nothing happens, and false comes back, when FD is no connection to that port
  // of this host any more.
  bool ShutDown(int fd, uint16_t local_port) const;

 private:
  ForeignConnections(UniqueFd idle, UniqueFd spare)
      : idle_(std::move(idle)), spare_(std::move(spare)) {}

  UniqueFd idle_;   // what spare_ is between two calls
  UniqueFd spare_;  // a number to look through at a connection
};

class TcpListener {
 public:
  // AlreadyExists when somebody listens there.
  static Result<TcpListener> Listen(const TcpAddress& address);

  int fd() const { return fd_.get(); }
  // With the port that was chosen.
  const TcpAddress& address() const { return address_; }
  // Not valid when nobody is there. The socket sends small messages at once.
  Result<TcpSocket> TryAccept() const;

 private:
  TcpListener(TcpAddress address, UniqueFd fd) : address_(std::move(address)), fd_(std::move(fd)) {}

  TcpAddress address_;
  UniqueFd fd_;
};

}  // namespace maru::os
