#include "net/compat/resource_manager_endpoint.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/log.h"
#include "wire/compat/resource_manager_codec.h"

namespace maru::net::compat {

namespace compat = wire::compat;

namespace {

// Room for one request of the largest size: one that is whole always fits.
constexpr size_t kInBytesMax = compat::kRmHeaderBytes + compat::kRmPayloadBytesMax;

std::vector<std::byte> ErrorReply(compat::RmStatus status, std::string_view message) {
  return compat::EncodeRmReply(compat::RmErrorReply{status, std::string(message)});
}

bool MakesRegion(const compat::RmRequest& request) {
  return std::holds_alternative<compat::RmAllocRequest>(request);
}

// In requests that only tell or take away: what makes something takes milliseconds.
size_t CostOf(const compat::RmRequest& request) {
  const bool makes = MakesRegion(request) || std::holds_alternative<compat::RmOpenRequest>(request);
  return makes ? ResourceManagerEndpoint::kRequestsPerTurnMax : 1;
}

}  // namespace

std::optional<std::vector<std::byte>> ResourceManagerService::GoOn(uint64_t number) {
  MARU_CHECK(false) << "nothing of number " << number << " is under way";
  return std::nullopt;
}

size_t ResourceManagerEndpoint::ConnectionsFor(uint64_t descriptors) {
  return std::clamp<size_t>(descriptors / 3, kConnectionsMin, kConnectionsMax);
}

Result<std::unique_ptr<ResourceManagerEndpoint>> ResourceManagerEndpoint::Create(
    EventLoop* loop, ResourceManagerService* service, const os::TcpAddress& address,
    size_t connections_max) {
  MARU_ASSIGN_OR_RETURN(os::TcpListener listener, os::TcpListener::Listen(address));
  MARU_ASSIGN_OR_RETURN(os::WakeFd again, os::WakeFd::Create());
  std::unique_ptr<ResourceManagerEndpoint> endpoint(new ResourceManagerEndpoint(
      loop, service, std::move(listener), std::move(again), connections_max));
  ResourceManagerEndpoint* const self = endpoint.get();
  MARU_ASSIGN_OR_RETURN(
      self->pause_, AcceptPause::Create(loop, [self] { self->SetAccepting(os::Interest::kRead); }));
  MARU_RETURN_IF_ERROR(loop->Watch(self->listener_.fd(), os::Interest::kRead,
                                   [self](const os::ReadyEvent&) { self->Accept(); }));
  MARU_RETURN_IF_ERROR(loop->Watch(self->again_.fd(), os::Interest::kRead,
                                   [self](const os::ReadyEvent&) { self->TakeTurn(); }));
  return endpoint;
}

ResourceManagerEndpoint::~ResourceManagerEndpoint() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  loop_->Unwatch(listener_.fd());
  loop_->Unwatch(again_.fd());
  if (step_turn_ != 0) loop_->ForgetTurn(step_turn_);
}

void ResourceManagerEndpoint::Accept() {
  Result<os::TcpSocket> accepted = listener_.TryAccept();
  if (!accepted.ok()) {
    if (CloseSilent()) return;
    SetAccepting(os::Interest::kNone);
    return pause_->Begin(accepted.status().message());
  }
  if (!accepted->valid()) return;
  pause_->Accepted();
  if (connections_.size() >= connections_max_ && !CloseSilent()) {
    LogWarning("connection to " + address().ToString() +
               " refused: " + std::to_string(connections_max_) + " are open");
    return;
  }
  const uint64_t id = next_id_++;
  auto connection = std::make_unique<Connection>();
  connection->socket = std::move(*accepted);
  connection->last_read = ++reads_;
  const Status watched =
      loop_->Watch(connection->socket.fd(), os::Interest::kRead,
                   [this, id](const os::ReadyEvent& event) { OnReady(id, event); });
  if (!watched.ok()) return LogWarning(watched.message());
  connections_[id] = std::move(connection);
}

void ResourceManagerEndpoint::SetAccepting(os::Interest interest) {
  MARU_CHECK_OK(loop_->Change(listener_.fd(), interest));
  accepting_ = interest != os::Interest::kNone;
}

uint64_t ResourceManagerEndpoint::LongestSilent() const {
  std::map<std::string_view, size_t> kept;  // connections of each client
  const auto stays = [&](uint64_t id, const Connection& connection) {
    // It is not the one that is silent.
    if (connection.in_line) return true;
    const std::string& client = connection.client_id;
    if (client.empty()) return false;
    const RmHolds holds = service_->HoldsOf({id, client});
    if (holds.endpoints > 0) return true;
    return holds.regions > 0 && ++kept[client] <= holds.regions;
  };
  uint64_t silent = 0;
  uint64_t last_read = ~uint64_t{0};
  for (const auto& [id, connection] : connections_) {
    if (stays(id, *connection) || connection->last_read >= last_read) continue;
    silent = id;
    last_read = connection->last_read;
  }
  return silent;
}

bool ResourceManagerEndpoint::CloseSilent() {
  const uint64_t silent = LongestSilent();
  if (silent == 0) return false;
  LogInfo("connection " + std::to_string(silent) + " closed: silent, and its place is needed");
  Close(silent);
  return true;
}

void ResourceManagerEndpoint::OnReady(uint64_t id, const os::ReadyEvent& event) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  Connection& connection = *at->second;
  if (connection.interest == os::Interest::kNone) {
    // The kernel tells of an error or a hang-up alone; room to send is from before, in the same
    // turn.
    if (event.readable) Close(id);
    return;
  }
  const bool reads = connection.interest != os::Interest::kWrite;
  if (event.readable && reads && !Read(connection)) return Close(id);
  Serve(id, connection);
}

void ResourceManagerEndpoint::Serve(uint64_t id, Connection& connection) {
  if (!Write(connection)) return Close(id);
  const bool has_work = connection.HasWork();
  if (has_work && !connection.in_line) {
    connection.in_line = true;
    line_.push_back(id);
    again_.Notify();
  }
  if (connection.ending && connection.waiting() == 0 && !has_work) return Close(id);

  const bool may_read = !connection.ending && connection.waiting() < kReplyBytesWaitingMax &&
                        connection.in.size() < kInBytesMax;
  os::Interest interest = may_read ? os::Interest::kRead : os::Interest::kNone;
  if (connection.waiting() > 0) {
    interest = may_read ? os::Interest::kReadWrite : os::Interest::kWrite;
  }
  if (interest == connection.interest) return;
  connection.interest = interest;
  MARU_CHECK_OK(loop_->Change(connection.socket.fd(), interest));
}

bool ResourceManagerEndpoint::Read(Connection& connection) {
  std::array<std::byte, kInBytesMax> buffer;
  const size_t room = kInBytesMax - connection.in.size();
  if (room == 0) return true;  // whole requests wait for room for their replies
  const Result<os::Received> received = connection.socket.TryRead(std::span(buffer).first(room));
  if (!received.ok()) {
    LogWarning(received.status().message());
    return false;
  }
  if (received->outcome == os::IoOutcome::kWouldBlock) return true;
  connection.last_read = ++reads_;
  // The peer may have closed its sending side only, and read on. But a region is made for nobody
  // who is gone: it would be taken from those who are there, for as long as a client may be gone.
  if (received->outcome == os::IoOutcome::kClosed) {
    if (connection.under_way != 0) return false;
    connection.ending = true;
  }
  const auto from = std::span(buffer).first(received->size_bytes);
  connection.in.insert(connection.in.end(), from.begin(), from.end());
  return true;
}

bool ResourceManagerEndpoint::Write(Connection& connection) {
  while (connection.waiting() > 0) {
    const Result<os::Received> sent = connection.socket.TryWrite(
        std::span<const std::byte>(connection.out).subspan(connection.out_sent));
    if (!sent.ok() || sent->outcome == os::IoOutcome::kClosed) return false;
    if (sent->outcome == os::IoOutcome::kWouldBlock) return true;
    connection.out_sent += sent->size_bytes;
  }
  connection.out.clear();
  connection.out_sent = 0;
  return true;
}

bool ResourceManagerEndpoint::Connection::Asks() const {
  if (in.size() < compat::kRmHeaderBytes) return false;
  compat::RmHeader header;
  const std::span<const std::byte> bytes(in);
  if (!compat::DecodeRmHeader(bytes.first(compat::kRmHeaderBytes), &header).ok()) return true;
  return in.size() - compat::kRmHeaderBytes >= header.payload_bytes;
}

void ResourceManagerEndpoint::TakeTurn() {
  again_.Drain();
  size_t left = kRequestsPerTurnMax;
  while (left > 0 && !line_.empty()) {
    const uint64_t id = line_.front();
    if (const auto at = connections_.find(id); at != connections_.end()) {
      Connection& connection = *at->second;
      const Outcome outcome = AnswerSome(id, connection, &left);
      if (outcome == Outcome::kCostsMore) break;  // the first of the next turn
      line_.pop_front();
      connection.in_line = outcome == Outcome::kIsStep;
      if (connection.in_line) step_line_.push_back(id);
      Serve(id, connection);
    } else {
      line_.pop_front();
    }
  }
  AskForStep();
  if (!line_.empty()) again_.Notify();
}

void ResourceManagerEndpoint::AskForStep() {
  if (step_turn_ == 0 && !step_line_.empty()) {
    step_turn_ = loop_->CallInTurn([this] { TakeStep(); });
  }
}

void ResourceManagerEndpoint::TakeStep() {
  step_turn_ = 0;
  const uint64_t id = step_line_.front();
  step_line_.pop_front();
  if (const auto at = connections_.find(id); at != connections_.end()) {
    Connection& connection = *at->second;
    if (connection.under_way == 0) {
      AnswerNext(id, connection, nullptr);
    } else if (const auto reply = service_->GoOn(connection.under_way)) {
      connection.under_way = 0;
      connection.out.insert(connection.out.end(), reply->begin(), reply->end());
    }
    connection.in_line = connection.under_way != 0;
    if (connection.in_line) step_line_.push_back(id);
    Serve(id, connection);
  }
  AskForStep();
}

ResourceManagerEndpoint::Outcome ResourceManagerEndpoint::AnswerSome(uint64_t id,
                                                                     Connection& connection,
                                                                     size_t* left) {
  bool answered = false;
  while (connection.HasWork()) {
    const Outcome outcome = AnswerNext(id, connection, left);
    if (outcome == Outcome::kCostsMore) return answered ? Outcome::kAnswered : outcome;
    if (outcome == Outcome::kIsStep) return outcome;
    answered = true;
  }
  return Outcome::kAnswered;
}

// Without a count of what is left it is a step.
ResourceManagerEndpoint::Outcome ResourceManagerEndpoint::AnswerNext(uint64_t id,
                                                                     Connection& connection,
                                                                     size_t* left) {
  const std::span<const std::byte> in(connection.in);
  compat::RmHeader header;
  const Status framed = compat::DecodeRmHeader(in.first(compat::kRmHeaderBytes), &header);
  size_t used = in.size();
  std::vector<std::byte> reply;
  if (!framed.ok()) {
    LogWarning("connection " + std::to_string(id) + " dropped: " + std::string(framed.message()));
    reply = ErrorReply(compat::RmStatus::kInvalid, framed.message());
    connection.ending = true;
  } else {
    compat::RmRequest request;
    const Status status = compat::DecodeRmRequest(
        header.type, in.subspan(compat::kRmHeaderBytes, header.payload_bytes), &request);
    const bool makes_region = status.ok() && MakesRegion(request);
    if (left != nullptr) {
      if (makes_region && !connection.ending) return Outcome::kIsStep;
      const size_t cost = status.ok() ? CostOf(request) : 1;
      if (cost > *left) return Outcome::kCostsMore;
      *left -= cost;
    }
    // Its peer is gone, as it would be for one that is under way: nothing of it is left to answer.
    if (!connection.ending || !makes_region) {
      used = compat::kRmHeaderBytes + header.payload_bytes;
      reply = status.ok() ? Answer(id, connection, request)
                          : ErrorReply(compat::RmStatus::kInvalid, status.message());
    }
  }
  connection.out.insert(connection.out.end(), reply.begin(), reply.end());
  connection.in.erase(connection.in.begin(), connection.in.begin() + static_cast<ptrdiff_t>(used));
  return Outcome::kAnswered;
}

std::vector<std::byte> ResourceManagerEndpoint::Answer(uint64_t id, Connection& connection,
                                                       const compat::RmRequest& request) {
  const std::string_view client = compat::ClientIdOf(request);
  if (connection.client_id.empty()) connection.client_id = client;
  if (!client.empty() && client != connection.client_id) {
    return ErrorReply(compat::RmStatus::kAccess, "this connection is another client's");
  }
  std::vector<std::byte> reply;
  connection.under_way = service_->Begin({id, connection.client_id}, request, &reply);
  return reply;
}

void ResourceManagerEndpoint::Close(uint64_t id) {
  const auto at = connections_.find(id);
  MARU_CHECK(at != connections_.end());
  const std::unique_ptr<Connection> connection = std::move(at->second);
  connections_.erase(at);
  loop_->Unwatch(connection->socket.fd());
  connection->socket.Close();
  if (!accepting_) SetAccepting(os::Interest::kRead);
  if (!connection->client_id.empty()) service_->OnClosed({id, connection->client_id});
}

}  // namespace maru::net::compat
