#include "net/compat/metadata_endpoint.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/log.h"
#include "os/errno_status.h"
#include "os/process.h"
#include "os/tcp_socket.h"
#include "wire/compat/metadata_codec.h"

namespace maru::net::compat {

namespace upstream = wire::compat;

namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr int kBacklog = 1024;

Status ZmqStatus(std::string_view action, std::string_view subject) {
  return os::ErrnoStatus(zmq_errno(), action, subject);
}

template <typename T>
Status SetOption(void* socket, int option, T value) {
  if (zmq_setsockopt(socket, option, &value, sizeof(value)) == 0) return OkStatus();
  return ZmqStatus("set an option of", "a ZeroMQ socket");
}

Status SetOptions(void* socket) {
  MARU_RETURN_IF_ERROR(SetOption<int>(socket, ZMQ_LINGER, 0));
  MARU_RETURN_IF_ERROR(SetOption<int>(socket, ZMQ_BACKLOG, kBacklog));
  MARU_RETURN_IF_ERROR(
      SetOption<int64_t>(socket, ZMQ_MAXMSGSIZE, upstream::kMetadataMessageBytesMax));
  MARU_RETURN_IF_ERROR(SetOption<int>(socket, ZMQ_RCVHWM, MetadataEndpoint::kRequestsWaitingMax));
  MARU_RETURN_IF_ERROR(SetOption<int>(socket, ZMQ_SNDHWM, MetadataEndpoint::kRepliesWaitingMax));
  MARU_RETURN_IF_ERROR(SetOption<int>(socket, ZMQ_TCP_KEEPALIVE, 1));
  // A reply that cannot be sent is an error here instead of silence, so that it is counted.
  return SetOption<int>(socket, ZMQ_ROUTER_MANDATORY, 1);
}

}  // namespace

// One frame of a message. Made by receiving, given away by sending.
class MetadataEndpoint::Part {
 public:
  Part() { zmq_msg_init(&message_); }
  Part(Part&& other) noexcept : Part() { zmq_msg_move(&message_, &other.message_); }
  Part& operator=(Part&&) = delete;
  ~Part() { zmq_msg_close(&message_); }

  zmq_msg_t* get() { return &message_; }
  bool more() const { return zmq_msg_more(&message_) != 0; }
  std::span<const std::byte> bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }

 private:
  zmq_msg_t message_;
};

// A reply that ZeroMQ holds; deleted in its thread when it has been sent or given up.
struct MetadataEndpoint::Outgoing {
  std::vector<std::byte> bytes;
  std::shared_ptr<Peer> peer;

  static void Free(void*, void* hint) {
    const std::unique_ptr<Outgoing> outgoing(static_cast<Outgoing*>(hint));
    outgoing->peer->reply_bytes_waiting.fetch_sub(outgoing->bytes.size(),
                                                  std::memory_order_relaxed);
  }
};

Result<std::unique_ptr<MetadataEndpoint>> MetadataEndpoint::Create(EventLoop* loop,
                                                                   MetadataService* service,
                                                                   std::string_view address,
                                                                   PeerLimit* limit) {
  MARU_ASSIGN_OR_RETURN(os::WakeFd more, os::WakeFd::Create());
  std::unique_ptr<MetadataEndpoint> endpoint(new MetadataEndpoint(loop, service, std::move(more)));
  MARU_RETURN_IF_ERROR(endpoint->Open(address, limit));
  MARU_RETURN_IF_ERROR(endpoint->Watch());
  return endpoint;
}

MetadataEndpoint::~MetadataEndpoint() {
  if (fd_ >= 0) loop_->Unwatch(fd_);
  loop_->Unwatch(more_.fd());
  // Its thread may wait for room for an event.
  if (context_ != nullptr) zmq_ctx_shutdown(context_);
  connections_.reset();
  if (socket_ != nullptr) zmq_close(socket_);
  if (context_ != nullptr) zmq_ctx_term(context_);  // linger is 0: it waits for nobody
}

Status MetadataEndpoint::Open(std::string_view address, PeerLimit* limit) {
  if (!address.starts_with(kScheme)) {
    return InvalidArgument("\"" + std::string(address.substr(0, 64)) +
                           "\" is no ZeroMQ address; write tcp://127.0.0.1:5555");
  }
  MARU_ASSIGN_OR_RETURN(const os::TcpAddress tcp,
                        os::TcpAddress::Parse(address.substr(kScheme.size())));
  MARU_RETURN_IF_ERROR(os::CheckFreeDescriptors(kFreeDescriptorsMin));
  context_ = zmq_ctx_new();
  if (context_ == nullptr) return ZmqStatus("make", "a ZeroMQ context");
  socket_ = zmq_socket(context_, ZMQ_ROUTER);
  if (socket_ == nullptr) return ZmqStatus("make", "a ZeroMQ socket");
  MARU_RETURN_IF_ERROR(SetOptions(socket_));
  MARU_ASSIGN_OR_RETURN(connections_, ZmqPeers::Create(loop_, limit, context_, socket_));
  // Not for IPv4: its addresses would be told in the form of IPv6.
  if (tcp.host().find(':') != std::string::npos) {
    MARU_RETURN_IF_ERROR(SetOption<int>(socket_, ZMQ_IPV6, 1));
  }
  std::string name = std::string(kScheme) + tcp.ToString();
  if (tcp.port() == 0) name.back() = '*';  // ZeroMQ's word for any free port
  if (zmq_bind(socket_, name.c_str()) != 0) return ZmqStatus("listen at", name);
  std::array<char, 128> bound{};
  size_t size = bound.size();
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, bound.data(), &size) != 0) {
    return ZmqStatus("read the address of", name);
  }
  address_ = bound.data();
  MARU_ASSIGN_OR_RETURN(const os::TcpAddress chosen,
                        os::TcpAddress::Parse(std::string_view(address_).substr(kScheme.size())));
  connections_->set_port(chosen.port());
  return OkStatus();
}

Status MetadataEndpoint::Watch() {
  int fd = -1;
  size_t size = sizeof(fd);
  if (zmq_getsockopt(socket_, ZMQ_FD, &fd, &size) != 0) {
    return ZmqStatus("read the descriptor of", address_);
  }
  MARU_RETURN_IF_ERROR(
      loop_->Watch(fd, os::Interest::kRead, [this](const os::ReadyEvent&) { Drain(); }));
  fd_ = fd;
  return loop_->Watch(more_.fd(), os::Interest::kRead, [this](const os::ReadyEvent&) {
    more_.Drain();
    Drain();
  });
}

// ZeroMQ's descriptor tells that something changed, once, and any call on the socket may take that
// in. So messages are received until there is none, or the next turn is asked for.
void MetadataEndpoint::Drain() {
  for (uint32_t i = 0; i < kRequestsPerTurnMax; ++i) {
    if (!ReceiveOne()) return;
  }
  more_.Notify();
}

bool MetadataEndpoint::ReceiveOne() {
  std::vector<Part> parts;  // the envelope, identity first, and the message
  bool fits = true;
  for (bool more = true; more;) {
    Part part;
    if (zmq_msg_recv(part.get(), socket_, ZMQ_DONTWAIT) < 0) {
      const int error = zmq_errno();
      // The parts of a message come together, so a message never ends here in its middle.
      if (error != EAGAIN && error != EINTR) {
        LogError("receive at " + address_ + ": " + zmq_strerror(error));
      }
      return false;
    }
    more = part.more();
    fits = fits && parts.size() <= kEnvelopePartsMax &&
           (!more || part.bytes().size() <= kEnvelopePartBytesMax);
    if (fits) parts.push_back(std::move(part));
  }
  if (!parts.empty()) connections_->Asked(zmq_msg_get(parts.front().get(), ZMQ_SRCFD));
  if (!fits || parts.size() < 2) {
    ++counters_.malformed;  // nothing says where an answer would have to go
    return true;
  }
  std::vector<std::byte> reply = Answer(parts.back().bytes());
  parts.pop_back();
  if (!reply.empty()) Reply(std::move(parts), std::move(reply));
  return true;
}

std::vector<std::byte> MetadataEndpoint::Answer(std::span<const std::byte> message) {
  upstream::MetadataHeader header;
  upstream::MetadataRequest request;
  const Status status = upstream::DecodeMetadataRequest(message, &header, &request);
  std::vector<std::byte> reply;
  if (status.ok()) {
    reply = service_->Answer(header, request);
  } else {
    ++counters_.malformed;
    reply =
        upstream::EncodeMetadataReply(header, upstream::ErrorReply{std::string(status.message())});
  }
  if ((header.flags & upstream::kFlagNoReply) != 0) reply.clear();
  return reply;
}

std::shared_ptr<MetadataEndpoint::Peer> MetadataEndpoint::PeerOf(std::string identity) {
  if (peers_.size() >= sweep_at_) {
    // Only here are new holders of a peer made, so a count of one stays one.
    std::erase_if(peers_, [](const auto& entry) { return entry.second.use_count() == 1; });
    sweep_at_ = std::max<size_t>(1024, 2 * peers_.size());
  }
  std::shared_ptr<Peer>& peer = peers_[std::move(identity)];
  if (peer == nullptr) peer = std::make_shared<Peer>();
  return peer;
}

void MetadataEndpoint::Reply(std::vector<Part> envelope, std::vector<std::byte> message) {
  const std::span<const std::byte> identity = envelope.front().bytes();
  std::shared_ptr<Peer> peer = PeerOf(std::string(AsText(identity)));
  const size_t size = message.size();
  if (peer->reply_bytes_waiting.load(std::memory_order_relaxed) + size > kReplyBytesWaitingMax) {
    ++counters_.replies_dropped;
    return;
  }
  for (Part& part : envelope) {
    // Only the identity can fail: its peer is gone or has too many replies waiting. After it,
    // ZeroMQ takes the whole message.
    if (zmq_msg_send(part.get(), socket_, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
      ++counters_.replies_dropped;
      return;
    }
  }
  peer->reply_bytes_waiting.fetch_add(size, std::memory_order_relaxed);
  // ZeroMQ's from zmq_msg_init_data on: it calls Free.
  auto* const outgoing = new Outgoing{std::move(message), std::move(peer)};
  zmq_msg_t last;
  MARU_CHECK_EQ(zmq_msg_init_data(&last, outgoing->bytes.data(), size, Outgoing::Free, outgoing),
                0);
  if (zmq_msg_send(&last, socket_, ZMQ_DONTWAIT) < 0) {
    zmq_msg_close(&last);
    ++counters_.replies_dropped;
    return;
  }
  ++counters_.answered;
}

}  // namespace maru::net::compat
