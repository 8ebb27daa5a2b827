#include "server/endpoint_keeper.h"

#include <array>
#include <utility>

#include "base/log.h"
#include "os/resolve.h"
#include "wire/compat/resource_manager_codec.h"

namespace maru::server {

namespace compat = wire::compat;

namespace {

constexpr uint32_t kConnectMs = 2'000;  // looking up the host's name included
constexpr uint64_t kAnswerNs = 10'000'000'000;

}  // namespace

Status EndpointKeeper::Connect() { return Named(TryConnect()); }

Status EndpointKeeper::Named(const Status& status) const {
  if (status.ok()) return status;
  return Status(status.code(), "the resource manager at " + options_.rm_address + ": " +
                                   std::string(status.message()));
}

Result<os::TcpSocket> EndpointKeeper::ConnectToAny() const {
  MARU_ASSIGN_OR_RETURN(const os::HostPort where, os::HostPort::Parse(options_.rm_address));
  const os::Deadline deadline = os::Deadline::After(kConnectMs);
  // Anew each time: a container that was started again may have another address.
  MARU_ASSIGN_OR_RETURN(const auto addresses, os::Resolve(where, deadline));
  Status failed;
  for (size_t i = 0; i < addresses.size(); ++i) {
    auto socket = os::TcpSocket::Connect(addresses[i], deadline.FirstOf(addresses.size() - i));
    if (socket.ok()) return socket;
    failed = socket.status();
  }
  return failed;
}

Status EndpointKeeper::TryConnect() {
  in_.clear();
  MARU_ASSIGN_OR_RETURN(
      out_, compat::EncodeRmOpenRequest({.client_id = options_.client_id,
                                         .address = options_.address,
                                         .paths = {options_.paths.begin(), options_.paths.end()},
                                         .lease_ms = options_.lease_ms}));
  MARU_ASSIGN_OR_RETURN(socket_, ConnectToAny());
  MARU_RETURN_IF_ERROR(loop_->Watch(socket_.fd(), os::Interest::kReadWrite,
                                    [this](const os::ReadyEvent& event) { OnReady(event); }));
  loop_->CallAt(static_cast<uint64_t>(clock_->Now()) + kAnswerNs, [this] {
    if (!open_)
      Lost(DeadlineExceeded("it has not answered: it is stopped or busy, or no Maru server"));
  });
  return OkStatus();
}

void EndpointKeeper::Disconnect() {
  if (socket_.valid()) loop_->Unwatch(socket_.fd());
  socket_.Close();
  open_ = false;
}

void EndpointKeeper::OnReady(const os::ReadyEvent& event) {
  Status status;
  if (event.writable) status = Send();
  if (status.ok() && event.readable) status = Receive();
  if (!status.ok()) Lost(status);
}

Status EndpointKeeper::Send() {
  while (!out_.empty()) {
    MARU_ASSIGN_OR_RETURN(const os::Received sent, socket_.TryWrite(out_));
    if (sent.outcome == os::IoOutcome::kWouldBlock) return OkStatus();
    if (sent.outcome == os::IoOutcome::kClosed) return Unavailable("the connection was closed");
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(sent.size_bytes));
  }
  return loop_->Change(socket_.fd(), os::Interest::kRead);
}

Status EndpointKeeper::Receive() {
  std::array<std::byte, compat::kRmHeaderBytes + compat::kRmPayloadBytesMax> buffer;
  MARU_ASSIGN_OR_RETURN(const os::Received received, socket_.TryRead(buffer));
  if (received.outcome == os::IoOutcome::kWouldBlock) return OkStatus();
  if (received.outcome == os::IoOutcome::kClosed) return Unavailable("the connection was closed");
  in_.insert(in_.end(), buffer.begin(),
             buffer.begin() + static_cast<ptrdiff_t>(received.size_bytes));
  if (open_) return DataLoss("more than one answer came");
  if (in_.size() < compat::kRmHeaderBytes) return OkStatus();
  compat::RmHeader header;
  const std::span<const std::byte> bytes(in_);
  MARU_RETURN_IF_ERROR(compat::DecodeRmHeader(bytes.first(compat::kRmHeaderBytes), &header));
  if (bytes.size() - compat::kRmHeaderBytes < header.payload_bytes) return OkStatus();
  compat::RmOpenReply reply;
  MARU_RETURN_IF_ERROR(compat::DecodeRmOpenReply(
      header.type, bytes.subspan(compat::kRmHeaderBytes, header.payload_bytes), &reply));
  in_.clear();
  // Ours says so in its own reply.
  if (static_cast<compat::RmType>(header.type) == compat::RmType::kErrorReply) {
    return FailedPrecondition("it is none of ours (\"" + reply.message +
                              "\"): stop upstream's maru-resource-manager, and start ours, or "
                              "`maru serve`, in its place");
  }
  return Take(reply);
}

Status EndpointKeeper::Take(const compat::RmOpenReply& reply) {
  switch (reply.status) {
    case compat::RmStatus::kOk: break;
    case compat::RmStatus::kInUse: return AlreadyExists(reply.message);
    case compat::RmStatus::kNoEntry: return NotFound(reply.message);
    case compat::RmStatus::kAccess: return PermissionDenied(reply.message);
    case compat::RmStatus::kNoMemory:
    case compat::RmStatus::kNoDescriptors: return ResourceExhausted(reply.message);
    default: return InvalidArgument(reply.message);
  }
  open_ = true;
  // The port that was chosen, from now on.
  options_.address = reply.address;
  if (std::exchange(was_open_, true)) {
    LogInfo("the endpoint is open again at " + reply.address);
  } else {
    on_open(reply.address);
  }
  said_lost_ = false;
  return OkStatus();
}

void EndpointKeeper::Lost(const Status& why) {
  Disconnect();
  const Status named = Named(why);
  if (!was_open_) {
    failure_ = named;
    return loop_->Stop();
  }
  if (!std::exchange(said_lost_, true)) {
    LogWarning(std::string(named.message()) + "; " + options_.address +
               " is opened again as soon as it can be");
  }
  loop_->CallAt(static_cast<uint64_t>(clock_->Now()) + kPauseNs, [this] { TryAgain(); });
}

void EndpointKeeper::TryAgain() {
  const Status connecting = TryConnect();
  if (!connecting.ok()) Lost(connecting);
}

}  // namespace maru::server
