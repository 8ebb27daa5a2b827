#include "client/socket_link.h"

#include <utility>

#include "layout/frame.h"
#include "os/process.h"

namespace maru::client {

namespace {
constexpr size_t kDescriptorsPerPool = 3;
}  // namespace

SocketLink::SocketLink(std::string socket_path, std::optional<uint32_t> server_user,
                       uint32_t timeout_ms)
    : socket_path_(std::move(socket_path)),
      server_user_(server_user),
      timeout_ms_(timeout_ms),
      outgoing_(layout::kFrameBytesMax),
      incoming_(layout::kFrameBytesMax) {}

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
  socket_.Close();
}

void SocketLink::Close() {
  pools_.clear();
  Disconnect();
}

Status SocketLink::RoundTrip(const wire::Request& request, std::vector<os::UniqueFd>* descriptors,
                             Status* server_status, wire::Reply* reply, Sent* sent) {
  *sent = Sent::kNo;
  const RequestNumber number(next_request_++);
  MARU_ASSIGN_OR_RETURN(const size_t bytes,
                        wire::EncodeRequest(request, number, Epoch(epoch_), outgoing_));
  Status written = socket_.Send({outgoing_.data(), bytes});
  if (!written.ok()) return Lost(ByTheServer(written));
  *sent = Sent::kMaybe;
  const Result<size_t> size = socket_.Receive(incoming_, descriptors);
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

Status SocketLink::Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                           std::vector<std::shared_ptr<handler::MappedPool>>* pools) {
  Disconnect();
  MARU_ASSIGN_OR_RETURN(const os::UnixAddress address, os::UnixAddress::Parse(socket_path_));
  Result<os::SeqpacketSocket> socket =
      os::SeqpacketSocket::Connect(address, static_cast<int32_t>(timeout_ms_));
  if (!socket.ok()) {
    if (socket.status().code() != StatusCode::kUnavailable) return socket.status();
    return Unavailable("no server listens on " + socket_path_ +
                       ": start one with `maru serve`, or name its socket");
  }
  socket_ = std::move(*socket);
  Status trusted = CheckServer();
  if (!trusted.ok()) return Lost(std::move(trusted));
  MARU_RETURN_IF_ERROR(socket_.SetTimeout(static_cast<int32_t>(timeout_ms_)));
  MARU_RETURN_IF_ERROR(socket_.SetBufferBytes(2 * layout::kFrameBytesMax));
  epoch_ = 0;
  std::vector<os::UniqueFd> descriptors;
  Status refused;
  wire::Reply answer;
  Sent sent = Sent::kNo;
  MARU_RETURN_IF_ERROR(RoundTrip(request, &descriptors, &refused, &answer, &sent));
  if (!refused.ok()) return Lost(std::move(refused));
  auto* attached = std::get_if<wire::AttachReply>(&answer);
  if (attached == nullptr) return Lost(DataLoss("the answer to attach is of another kind"));
  Status adopted = Adopt(*attached, std::move(descriptors));
  if (!adopted.ok()) return Lost(std::move(adopted));
  connected_.store(true, std::memory_order_relaxed);
  *reply = *attached;
  *pools = pools_;
  return OkStatus();
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

Status SocketLink::Adopt(const wire::AttachReply& reply, std::vector<os::UniqueFd> descriptors) {
  if (reply.same_client) {
    if (pools_.size() == reply.pools.size() && descriptors.empty()) return OkStatus();
    return DataLoss("the server goes on with this client, but with other pools");
  }
  if (descriptors.size() != reply.pools.size() * kDescriptorsPerPool) {
    return DataLoss("the answer to attach has " + std::to_string(descriptors.size()) +
                    " descriptors for " + std::to_string(reply.pools.size()) + " pools");
  }
  std::vector<std::shared_ptr<handler::MappedPool>> mapped;
  for (size_t i = 0; i < reply.pools.size(); ++i) {
    OsPool::Descriptors three;
    three.read_only = std::move(descriptors[i * kDescriptorsPerPool]);
    three.read_write = std::move(descriptors[i * kDescriptorsPerPool + 1]);
    three.lock = std::move(descriptors[i * kDescriptorsPerPool + 2]);
    MARU_ASSIGN_OR_RETURN(std::shared_ptr<OsPool> pool,
                          OsPool::Map(reply.pools[i], std::move(three)));
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
