#include "server/frame_server.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "layout/frame.h"

namespace maru::server {

namespace {
constexpr int64_t kStrangerLineEveryNs = 10 * kNanosPerSecond;
}  // namespace

// Every attach reply can be sent, whatever the number of pools.
static_assert(layout::kFrameDescriptorsMax >= 3 * layout::kPoolsMax);
static_assert(os::kDescriptorsMax >= layout::kFrameDescriptorsMax);

Status Admission::Check(const os::PeerCredentials& peer,
                        const std::vector<uint32_t>& groups) const {
  if (peer.uid == uid || peer.uid == 0) return OkStatus();
  if (has_group &&
      (peer.gid == gid || std::find(groups.begin(), groups.end(), gid) != groups.end())) {
    return OkStatus();
  }
  if (has_group) {
    return PermissionDenied("uid " + std::to_string(peer.uid) + " is not admitted: it is not in " +
                            "the group " + group_name + " of --socket-group");
  }
  return PermissionDenied("uid " + std::to_string(peer.uid) + " is not admitted: the server runs " +
                          "as uid " + std::to_string(uid) +
                          "; --socket-group NAME admits the members of a group");
}

FrameServer::FrameServer(engine::Engine* engine, OsLiveness* liveness,
                         std::vector<const os::File*> pools, Admission admission,
                         const Clock* clock)
    : engine_(engine),
      liveness_(liveness),
      pools_(std::move(pools)),
      admission_(std::move(admission)),
      clock_(clock),
      scratch_(layout::kFrameBytesMax) {}

Status FrameServer::OpenShared() {
  for (const os::File* pool : pools_) {
    MARU_ASSIGN_OR_RETURN(os::File readable, pool->Reopen(os::Access::kRead));
    MARU_ASSIGN_OR_RETURN(os::File writable, pool->Reopen(os::Access::kReadWrite));
    read_only_.push_back(std::move(readable));
    read_write_.push_back(std::move(writable));
  }
  return OkStatus();
}

void FrameServer::LogStranger(const Status& refusal) {
  ++strangers_unsaid_;
  const int64_t now = clock_->Now();
  if (now < next_stranger_line_ns_) return;
  std::string line(refusal.message());
  if (strangers_unsaid_ > 1) {
    line += " (with it, " + std::to_string(strangers_unsaid_) + " connections since the last line)";
  }
  LogWarning(line);
  strangers_unsaid_ = 0;
  next_stranger_line_ns_ = now + kStrangerLineEveryNs;
}

net::Admittance FrameServer::OnOpened(net::ConnectionId connection,
                                      const os::SeqpacketSocket& socket) {
  Peer peer;
  const auto credentials = socket.Credentials();
  if (credentials.ok()) {
    const auto groups = socket.PeerGroups();
    peer.identity = {static_cast<uint32_t>(credentials->pid), credentials->uid};
    peer.admitted = admission_.Check(*credentials, groups.value_or(std::vector<uint32_t>()));
  } else {
    peer.admitted = credentials.status();
  }
  const bool admitted = peer.admitted.ok();
  if (!admitted) LogStranger(peer.admitted);
  peers_[connection] = std::move(peer);
  return admitted ? net::Admittance::kAdmitted : net::Admittance::kStranger;
}

void FrameServer::Refuse(const Status& status, uint16_t type, uint64_t request_number,
                         net::OutgoingFrame* out) {
  const auto bytes =
      wire::EncodeReply(static_cast<wire::MessageType>(type), status, wire::Reply(),
                        RequestNumber(request_number), Epoch(engine_->epoch()), scratch_);
  out->bytes.assign(scratch_.data(), scratch_.data() + bytes.value_or(0));
}

void FrameServer::OnFrame(net::ConnectionId connection, std::span<const std::byte> frame,
                          net::OutgoingFrame* out) {
  const auto at = peers_.find(connection);
  MARU_CHECK(at != peers_.end()) << "connection " << connection;
  const Peer& peer = at->second;
  layout::FrameHeader header;
  Status broken = wire::DecodeHeader(frame, &header);
  if (!broken.ok()) {
    // Without a header there is nobody to answer.
    if (peer.admitted.ok()) {
      LogWarning("connection " + std::to_string(connection) +
                 " dropped: " + std::string(broken.message()));
    }
    out->drop = true;
    return;
  }
  if (!peer.admitted.ok()) {
    Refuse(peer.admitted, header.type, header.request_number, out);
    out->drop = true;
    return;
  }
  wire::Request request;
  broken = decoder_.DecodeRequest(frame, &header, &request);
  if (!broken.ok()) {
    LogWarning("connection " + std::to_string(connection) +
               " dropped: " + std::string(broken.message()));
    Refuse(broken, header.type, header.request_number, out);
    out->drop = true;
    return;
  }
  reply_ = wire::Reply();
  const Status status =
      engine_->Handle(connection, peer.identity, request, static_cast<uint64_t>(clock_->Now()),
                      &reply_, header.request_number);
  const auto bytes =
      wire::EncodeReply(static_cast<wire::MessageType>(header.type), status, reply_,
                        RequestNumber(header.request_number), Epoch(engine_->epoch()), scratch_);
  const bool attaching = std::holds_alternative<wire::AttachRequest>(request);
  if (!bytes.ok()) {
    if (attaching) liveness_->DropTaken();
    LogError("reply to message " + std::to_string(header.type) + ": " +
             std::string(bytes.status().message()));
    return Refuse(Internal(bytes.status().message()), header.type, header.request_number, out);
  }
  out->bytes.assign(scratch_.data(), scratch_.data() + *bytes);
  if (const auto* attached = std::get_if<wire::AttachReply>(&reply_); status.ok() && attached) {
    AddDescriptors(*attached, out);
  }
  // Locks that were taken for a client that was refused after all end here.
  if (attaching) liveness_->DropTaken();
  on_activity();
}

void FrameServer::AddDescriptors(const wire::AttachReply& attached, net::OutgoingFrame* out) {
  // A client that goes on has its mappings and its lock.
  if (attached.same_client) return;
  std::vector<os::UniqueFd> locks = liveness_->TakenDescriptors(attached.slot);
  MARU_CHECK_EQ(locks.size(), pools_.size());
  for (size_t i = 0; i < pools_.size(); ++i) {
    out->descriptors.push_back(read_only_[i].fd());
    out->descriptors.push_back(read_write_[i].fd());
    out->descriptors.push_back(locks[i].get());
  }
  out->owned = std::move(locks);
}

void FrameServer::OnClosed(net::ConnectionId connection) {
  peers_.erase(connection);
  engine_->Disconnected(connection, static_cast<uint64_t>(clock_->Now()));
  on_activity();
}

}  // namespace maru::server
