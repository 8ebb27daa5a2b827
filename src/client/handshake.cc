#include "client/handshake.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "client/fork_guard.h"
#include "os/deadline.h"
#include "os/resolve.h"
#include "os/tcp_socket.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/zmtp.h"

namespace maru::client {

namespace {

using wire::compat::HandshakeReply;
using wire::compat::ZmtpExchange;

constexpr uint32_t kSequence = 1;
constexpr size_t kReadBytes = 4096;

// A connection that a forked child lets go of, so that it ends when this process ends it.
class Connection final : private ForkAware {
 public:
  Connection() = default;
  ~Connection() { Close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status Connect(const os::TcpAddress& address, const os::Deadline& deadline) {
    Close();
    {
      const ForkPause pause;
      MARU_ASSIGN_OR_RETURN(socket_, os::TcpSocket::Make(address));
    }
    return socket_.ConnectTo(address, deadline);
  }
  os::TcpSocket& socket() { return socket_; }

 private:
  void Close() {
    const ForkPause pause;
    socket_.Close();
  }
  void InForkedChild() override { socket_.Close(); }

  os::TcpSocket socket_;
  const ForkRegistration fork_registration_{this};
};

Status NotInTime(const ServerAddress& server, uint32_t timeout_ms, std::string_view what) {
  return DeadlineExceeded(server.text + " did not " + std::string(what) + " within " +
                          std::to_string(timeout_ms) +
                          " ms: what listens there is stopped or busy, or no Maru server");
}

Status ConnectTo(const ServerAddress& server, const os::Deadline& deadline, uint32_t timeout_ms,
                 Connection* connection) {
  MARU_ASSIGN_OR_RETURN(const std::vector<os::TcpAddress> addresses,
                        os::Resolve(server.metadata, deadline));
  Status failed;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Status connected =
        connection->Connect(addresses[i], deadline.FirstOf(addresses.size() - i));
    if (connected.ok()) return connected;
    // The first tells most: later ones often fail for want of their kind of network.
    if (failed.ok()) failed = connected;
  }
  switch (failed.code()) {
    case StatusCode::kUnavailable:
      return Unavailable("no server listens at " + server.text + " (" +
                         std::string(failed.message()) +
                         "): start one with `maru serve`, or name its address");
    case StatusCode::kDeadlineExceeded: return NotInTime(server, timeout_ms, "take the connection");
    default: return failed;
  }
}

Status NotOurs(const ServerAddress& server, const Status& why) {
  return FailedPrecondition("what listens at " + server.text +
                            " is not a Maru server: " + std::string(why.message()) +
                            "; name the address of `maru serve --listen`");
}

// The socket's status, told of the server.
Status Lost(const ServerAddress& server, const Status& status, uint32_t timeout_ms) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
      return Unavailable("what listens at " + server.text +
                         " has closed the connection before it answered: it is ending, or no Maru "
                         "server");
    case StatusCode::kDeadlineExceeded: return NotInTime(server, timeout_ms, "answer");
    default: return status;
  }
}

}  // namespace

Result<std::vector<std::byte>> AskEndpoint(const ServerAddress& server,
                                           std::span<const std::byte> request,
                                           uint32_t timeout_ms) {
  const os::Deadline deadline = os::Deadline::After(timeout_ms);
  Connection connection;
  MARU_RETURN_IF_ERROR(ConnectTo(server, deadline, timeout_ms, &connection));
  os::TcpSocket& socket = connection.socket();
  ZmtpExchange exchange(request);
  std::array<std::byte, kReadBytes> buffer;
  // The deadline ends it: a peer that breaks no rule sends a bounded number of bytes, but may send
  // them as slowly as it likes.
  while (!exchange.done()) {
    const Status sent = socket.Write(exchange.TakeOutgoing(), deadline);
    if (!sent.ok()) return Lost(server, sent, timeout_ms);
    const Result<size_t> size = socket.Read(buffer, deadline);
    if (!size.ok()) return Lost(server, size.status(), timeout_ms);
    const Status fed = exchange.Feed(std::span(buffer).first(*size));
    if (!fed.ok()) return NotOurs(server, fed);
  }
  return std::vector<std::byte>(exchange.reply().begin(), exchange.reply().end());
}

Result<HandshakeReply> AskHandshake(const ServerAddress& server, uint32_t timeout_ms) {
  MARU_ASSIGN_OR_RETURN(
      const std::vector<std::byte> message,
      AskEndpoint(server, wire::compat::EncodeHandshakeRequest(kSequence, {}), timeout_ms));
  HandshakeReply reply;
  const Status decoded = wire::compat::DecodeHandshakeReply(message, kSequence, &reply);
  if (!decoded.ok()) return NotOurs(server, decoded);
  return reply;
}

}  // namespace maru::client
