#include "net/unix_endpoint.h"

#include "base/check.h"
#include "base/log.h"
#include "layout/frame.h"

namespace maru::net {

UnixEndpoint::~UnixEndpoint() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  for (auto& listener : listeners_) loop_->Unwatch(listener->fd());
}

Status UnixEndpoint::Serve(os::UnixListener listener) {
  buffer_.resize(layout::kFrameBytesMax);
  if (pause_ == nullptr) {
    MARU_ASSIGN_OR_RETURN(
        pause_, AcceptPause::Create(loop_, [this] { SetAccepting(os::Interest::kRead); }));
  }
  listeners_.push_back(std::make_unique<os::UnixListener>(std::move(listener)));
  const os::UnixListener* const kept = listeners_.back().get();
  return loop_->Watch(kept->fd(), os::Interest::kRead,
                      [this, kept](const os::ReadyEvent&) { Accept(*kept); });
}

void UnixEndpoint::Accept(const os::UnixListener& listener) {
  Result<os::SeqpacketSocket> accepted = listener.TryAccept();
  if (!accepted.ok()) {
    SetAccepting(os::Interest::kNone);
    return pause_->Begin("accept on " + listener.address().ToString() + ": " +
                         std::string(accepted.status().message()));
  }
  if (!accepted->valid()) return;
  pause_->Accepted();
  const ConnectionId id = next_id_++;
  auto connection = std::make_unique<Connection>();
  connection->socket = std::move(*accepted);
  const Status sized = connection->socket.SetBufferBytes(2 * layout::kFrameBytesMax);
  if (!sized.ok()) LogWarning(std::string(sized.message()));
  const int fd = connection->socket.fd();
  const Status watched = loop_->Watch(
      fd, os::Interest::kRead, [this, id](const os::ReadyEvent& event) { OnReady(id, event); });
  if (!watched.ok()) {
    LogWarning(std::string(watched.message()));
    return;
  }
  const Admittance admittance = service_->OnOpened(id, connection->socket);
  connections_[id] = std::move(connection);
  if (admittance == Admittance::kStranger) {
    strangers_.insert(id);
    if (strangers_.size() > kStrangersMax) Close(*strangers_.begin());
  } else if (connections_.size() - strangers_.size() > kConnectionsMax) {
    LogWarning("connection refused: " + std::to_string(kConnectionsMax) + " are open");
    Close(id);
  }
}

void UnixEndpoint::SetAccepting(os::Interest interest) {
  for (const auto& listener : listeners_) MARU_CHECK_OK(loop_->Change(listener->fd(), interest));
  accepting_ = interest != os::Interest::kNone;
}

void UnixEndpoint::OnReady(ConnectionId id, const os::ReadyEvent& event) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Connection& connection = *at->second;
  if (connection.sending) {
    if (event.writable || event.readable) Send(id, connection);
    return;
  }
  if (event.readable) ReadOne(id, connection);
}

void UnixEndpoint::ReadOne(ConnectionId id, Connection& connection) {
  const Result<os::Received> received = connection.socket.TryReceive(buffer_);
  if (!received.ok()) {
    // Strangers' lines are the service's, which tells of all of them together.
    if (!strangers_.contains(id)) {
      LogWarning("connection " + std::to_string(id) +
                 " dropped: " + std::string(received.status().message()));
    }
    return Close(id);
  }
  if (received->outcome == os::IoOutcome::kWouldBlock) return;
  if (received->outcome == os::IoOutcome::kClosed) return Close(id);
  OutgoingFrame out;
  service_->OnFrame(id, std::span<const std::byte>(buffer_.data(), received->size_bytes), &out);
  if (out.bytes.empty()) {
    if (out.drop) Close(id);
    return;
  }
  connection.waiting = std::move(out);
  Send(id, connection);
}

void UnixEndpoint::Send(ConnectionId id, Connection& connection) {
  OutgoingFrame& frame = connection.waiting;
  const Result<os::IoOutcome> sent = connection.socket.TrySend(frame.bytes, frame.descriptors);
  if (!sent.ok() || *sent == os::IoOutcome::kClosed) return Close(id);
  if (*sent == os::IoOutcome::kWouldBlock) {
    if (!connection.sending) {
      connection.sending = true;
      MARU_CHECK_OK(loop_->Change(connection.socket.fd(), os::Interest::kWrite));
    }
    return;
  }
  const bool drop = frame.drop;
  frame = OutgoingFrame();
  if (drop) return Close(id);
  if (!connection.sending) return;
  connection.sending = false;
  MARU_CHECK_OK(loop_->Change(connection.socket.fd(), os::Interest::kRead));
}

void UnixEndpoint::Close(ConnectionId id) {
  const auto at = connections_.find(id);
  MARU_CHECK(at != connections_.end());
  const std::unique_ptr<Connection> connection = std::move(at->second);
  connections_.erase(at);
  strangers_.erase(id);
  loop_->Unwatch(connection->socket.fd());
  // Closed before the service is told: it may look at locks that the peer's descriptors held.
  connection->socket.Close();
  if (!accepting_) SetAccepting(os::Interest::kRead);
  service_->OnClosed(id);
}

}  // namespace maru::net
