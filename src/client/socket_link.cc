#include "client/socket_link.h"

#include <utility>

#include "base/log.h"
#include "catalogue/endpoint_namespace.h"
#include "layout/describe.h"
#include "layout/frame.h"
#include "os/process.h"

namespace maru::client {

SocketLink::SocketLink(ServerAddress server, std::optional<uint32_t> server_user,
                       uint32_t timeout_ms)
    : server_(std::move(server)),
      server_user_(server_user),
      timeout_ms_(timeout_ms),
      outgoing_(layout::kFrameBytesMax),
      incoming_(layout::kFrameBytesMax) {}

SocketLink::~SocketLink() { Disconnect(); }

Status SocketLink::Lost(Status status) {
  Disconnect();
  return status;
}

Status SocketLink::ByTheServer(const Status& status) const {
  switch (status.code()) {
    case StatusCode::kUnavailable:
      return Unavailable("the server at " + socket_path_ +
                         " has closed the connection: it has ended, or its log says why");
    case StatusCode::kDeadlineExceeded:
      return DeadlineExceeded("the server at " + socket_path_ + " did not answer within " +
                              std::to_string(timeout_ms_) + " ms: it is stopped or busy");
    default: return status;
  }
}

void SocketLink::Disconnect() {
  connected_.store(false, std::memory_order_relaxed);
  const ForkPause pause;
  socket_.Close();
}

void SocketLink::Close() {
  pools_.clear();
  Disconnect();
}

Result<size_t> SocketLink::ReceiveWith(UnsharedFds* descriptors) {
  os::Received received{os::IoOutcome::kWouldBlock, 0};
  while (received.outcome == os::IoOutcome::kWouldBlock) {
    // Waited for first, so that no fork waits for the server.
    MARU_RETURN_IF_ERROR(socket_.AwaitMessage());
    MARU_ASSIGN_OR_RETURN(received, descriptors->FillBy([this](std::vector<os::UniqueFd>* fds) {
      return socket_.TryReceive(incoming_, fds);
    }));
  }
  if (received.outcome == os::IoOutcome::kClosed) {
    return Unavailable("the server has closed the connection");
  }
  return received.size_bytes;
}

Status SocketLink::RoundTrip(const wire::Request& request, UnsharedFds* descriptors,
                             Status* server_status, wire::Reply* reply, Sent* sent) {
  *sent = Sent::kNo;
  const RequestNumber number(next_request_++);
  MARU_ASSIGN_OR_RETURN(const size_t bytes,
                        wire::EncodeRequest(request, number, Epoch(epoch_), outgoing_));
  Status written = socket_.Send({outgoing_.data(), bytes});
  if (!written.ok()) return Lost(ByTheServer(written));
  *sent = Sent::kMaybe;
  const Result<size_t> size =
      descriptors == nullptr ? socket_.Receive(incoming_) : ReceiveWith(descriptors);
  if (!size.ok()) return Lost(ByTheServer(size.status()));
  layout::FrameHeader header;
  Status decoded = decoder_.DecodeReply({incoming_.data(), *size}, &header, server_status, reply);
  if (!decoded.ok()) return Lost(std::move(decoded));
  if (header.request_number != number.value()) {
    return Lost(DataLoss("the server answers request " + std::to_string(header.request_number) +
                         " to request " + std::to_string(number.value())));
  }
  epoch_ = header.epoch;
  last_request_.store(number.value(), std::memory_order_relaxed);
  return OkStatus();
}

Status SocketLink::Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
                        Sent* sent) {
  *sent = Sent::kNo;
  if (!connected()) return Unavailable("not connected to " + socket_path_);
  return RoundTrip(request, nullptr, server_status, reply, sent);
}

void SocketLink::Probe() {
  if (!connected()) return;
  // Between two calls nothing can have come: whatever is there, an end or a frame, ends it.
  const auto received = socket_.TryReceive(incoming_);
  if (!received.ok() || received->outcome != os::IoOutcome::kWouldBlock) Disconnect();
}

Result<std::string> SocketLink::Find(std::string_view own) {
  MARU_ASSIGN_OR_RETURN(road_, FindRoad(server_, timeout_ms_));
  // A socket is the whole server: there a namespace is what it is called.
  if (!server_.socket.empty()) return std::string(own);
  return catalogue::NamespaceBelow(road_.name_space, own);
}

Status SocketLink::Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                           std::vector<std::shared_ptr<handler::MappedPool>>* pools) {
  Disconnect();
  Status passed_over = Internal("no server was found");
  std::string reasons;
  for (const std::string& socket : road_.sockets) {
    socket_path_ = socket;
    passed_over = Reach();
    if (passed_over.ok()) {
      UnsharedFds descriptors;
      // What a server answers is the answer, whichever socket leads to it.
      MARU_RETURN_IF_ERROR(Attach(request, reply, &descriptors));
      passed_over = CheckPool(*reply);
      if (passed_over.ok()) {
        Status adopted = Adopt(*reply, &descriptors);
        if (!adopted.ok()) return Lost(std::move(adopted));
        connected_.store(true, std::memory_order_relaxed);
        TellRoad(reasons);
        *pools = pools_;
        return OkStatus();
      }
    }
    Disconnect();
    reasons += (reasons.empty() ? "" : "; ") + std::string(passed_over.message());
  }
  return NoSocket(passed_over, reasons);
}

Status SocketLink::Reach() {
  MARU_ASSIGN_OR_RETURN(const os::UnixAddress address, os::UnixAddress::Parse(socket_path_));
  {
    const ForkPause pause;
    MARU_ASSIGN_OR_RETURN(socket_, os::SeqpacketSocket::Make());
  }
  Status reached = socket_.ConnectTo(address, static_cast<int32_t>(timeout_ms_));
  if (!reached.ok()) {
    if (reached.code() != StatusCode::kUnavailable) return reached;
    const bool named = !server_.socket.empty();
    return Unavailable("no server listens on " + socket_path_ +
                       (named ? ": start one with `maru serve`, or name its socket" : ""));
  }
  MARU_RETURN_IF_ERROR(CheckServer());
  return socket_.SetBufferBytes(2 * layout::kFrameBytesMax);
}

Status SocketLink::Attach(const wire::AttachRequest& request, wire::AttachReply* reply,
                          UnsharedFds* descriptors) {
  epoch_ = 0;
  Status refused;
  wire::Reply answer;
  Sent sent = Sent::kNo;
  MARU_RETURN_IF_ERROR(RoundTrip(request, descriptors, &refused, &answer, &sent));
  if (!refused.ok()) return Lost(std::move(refused));
  auto* attached = std::get_if<wire::AttachReply>(&answer);
  if (attached == nullptr) return Lost(DataLoss("the answer to attach is of another kind"));
  *reply = *attached;
  return OkStatus();
}

Status SocketLink::CheckPool(const wire::AttachReply& reply) const {
  if (road_.pool.empty()) return OkStatus();
  const std::string pool = reply.pools.empty() ? "none" : layout::UuidText(reply.pools[0].uuid);
  if (pool == road_.pool) return OkStatus();
  return FailedPrecondition("the server at " + socket_path_ + " has the pool " + pool + ", not " +
                            road_.pool);
}

Status SocketLink::NoSocket(const Status& last, const std::string& reasons) const {
  if (!server_.socket.empty()) return last;
  return Status(last.code(),
                "the server at " + server_.text +
                    " is on this host, but its unix socket is not reached: " + reasons +
                    "; let this process see the server's socket, or share its network "
                    "(containers), or start `maru serve` where it does");
}

void SocketLink::TellRoad(const std::string& reasons) {
  if (!server_.socket.empty()) return;
  std::string road = server_.text + " is on this host: using its socket " + socket_path_ +
                     " and the pool " + road_.pool + " in place";
  if (!road_.name_space.empty()) road += ", namespace " + road_.name_space;
  if (!reasons.empty()) road += " (" + reasons + ")";
  if (road == told_) return;
  LogInfo(road);
  told_ = std::move(road);
}

Status SocketLink::CheckServer() const {
  MARU_ASSIGN_OR_RETURN(const os::PeerCredentials server, socket_.Credentials());
  const uint32_t own = os::UserId();
  if (server.uid == 0 || server.uid == own || server.uid == server_user_) return OkStatus();
  return PermissionDenied(
      "the server at " + socket_path_ + " runs as uid " + std::to_string(server.uid) +
      ", this process as uid " + std::to_string(own) +
      ": a server of the own user or root is trusted, and one that --server-user, " +
      "MARU_SERVER_USER or ClientOptions::server_user names");
}

Status SocketLink::Adopt(const wire::AttachReply& reply, UnsharedFds* descriptors) {
  if (reply.same_client) {
    // Whether they are what the answer names is for the handler to judge, who has the client.
    if (descriptors->size() == 0) return OkStatus();
    return DataLoss("the answer to attach has " + std::to_string(descriptors->size()) +
                    " descriptors for a client that has them");
  }
  if (descriptors->size() != reply.pools.size() * OsPool::kDescriptors) {
    return DataLoss("the answer to attach has " + std::to_string(descriptors->size()) +
                    " descriptors for " + std::to_string(reply.pools.size()) + " pools");
  }
  std::vector<std::shared_ptr<handler::MappedPool>> mapped;
  for (size_t i = 0; i < reply.pools.size(); ++i) {
    MARU_ASSIGN_OR_RETURN(std::shared_ptr<OsPool> pool,
                          OsPool::Map(reply.pools[i], descriptors, i * OsPool::kDescriptors));
    mapped.push_back(std::move(pool));
  }
  pools_ = std::move(mapped);
  return OkStatus();
}

void SocketLink::InForkedChild() {
  connected_.store(false, std::memory_order_relaxed);
  socket_.Close();
}

}  // namespace maru::client
