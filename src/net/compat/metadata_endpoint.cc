#include "net/compat/metadata_endpoint.h"

#include <zmq.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/log.h"
#include "os/process.h"
#include "os/tcp_socket.h"
#include "wire/compat/metadata_codec.h"

namespace maru::net::compat {

namespace compat = wire::compat;

namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr int kBacklog = 1024;

// Relaxed on all sides: a quantity that orders nothing. The memory is the process's, so is the
// count.
constinit std::atomic<size_t> all_reply_bytes{0};

Status SetOptions(void* socket) {
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(socket, ZMQ_LINGER, 0));
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(socket, ZMQ_BACKLOG, kBacklog));
  MARU_RETURN_IF_ERROR(
      SetZmqOption<int64_t>(socket, ZMQ_MAXMSGSIZE, compat::kMetadataMessageBytesMax));
  MARU_RETURN_IF_ERROR(
      SetZmqOption<int>(socket, ZMQ_RCVHWM, MetadataEndpoint::kRequestsWaitingMax));
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(socket, ZMQ_SNDHWM, MetadataEndpoint::kRepliesWaitingMax));
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(socket, ZMQ_TCP_KEEPALIVE, 1));
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(socket, ZMQ_TCP_MAXRT, MetadataEndpoint::kDeafPeerMs));
  // A reply that cannot be sent is an error here instead of silence, so that it is counted.
  return SetZmqOption<int>(socket, ZMQ_ROUTER_MANDATORY, 1);
}

// Of reading a message, whatever it says, in keys: a KiB takes about as long as answering a key.
size_t CostOfBytes(size_t message_bytes) {
  return std::clamp<size_t>(message_bytes / kKiB, 1, MetadataEndpoint::kKeysPerTurnMax);
}

// What reading and answering a request takes. Those that go over regions or statistics have a turn
// of their own.
size_t CostOf(const compat::MetadataRequest& request, size_t message_bytes) {
  const bool of_keys = std::holds_alternative<compat::KeysRequest>(request) ||
                       std::holds_alternative<compat::RegisterRequest>(request) ||
                       std::holds_alternative<compat::ReportStatsRequest>(request);
  const bool short_one = std::holds_alternative<compat::HandshakeRequest>(request) ||
                         std::holds_alternative<std::monostate>(request);  // malformed
  if (!of_keys && !short_one) return MetadataEndpoint::kKeysPerTurnMax;
  return std::clamp(BatchInParts::ItemsOf(request), CostOfBytes(message_bytes),
                    MetadataEndpoint::kKeysPerTurnMax);
}

compat::MetadataType TypeOf(const compat::MetadataHeader& header) {
  return static_cast<compat::MetadataType>(header.type);
}

bool MayTakeSteps(const compat::MetadataRequest& request) {
  return std::holds_alternative<compat::AllocRequest>(request) ||
         std::holds_alternative<compat::RegisterRequest>(request);
}

// A client that says that it lives: it may not have to wait for what else it has asked. A lease
// that is given back does, since what is before may be for its regions.
bool TellsLife(std::span<const std::byte> message) {
  if (message.size() > MetadataEndpoint::kBeatBytesMax) return false;
  compat::MetadataHeader header;
  if (!compat::DecodeMetadataHeader(message, &header).ok()) return false;
  if (header.type != static_cast<uint8_t>(compat::MetadataType::kHeartbeat)) return false;
  compat::MetadataRequest request;
  if (!compat::DecodeMetadataRequest(message, &header, &request).ok()) return false;
  return !std::get<compat::HeartbeatRequest>(request).lease_release;
}

}  // namespace

std::optional<compat::MetadataReply> MetadataService::GoOn(uint64_t number) {
  MARU_CHECK(false) << "nothing of number " << number << " is under way";
  return std::nullopt;
}

struct MetadataEndpoint::Peer {
  // Relaxed on both sides: a quantity that orders nothing. Added to here, taken from in ZeroMQ's
  // thread when it has sent a reply.
  std::atomic<size_t> reply_bytes_waiting{0};
};

// A reply that ZeroMQ holds; deleted in its thread when it has been sent or given up.
struct MetadataEndpoint::Outgoing {
  std::vector<std::byte> bytes;
  std::shared_ptr<Peer> peer;

  static void Free(void*, void* hint) {
    const std::unique_ptr<Outgoing> outgoing(static_cast<Outgoing*>(hint));
    outgoing->peer->reply_bytes_waiting.fetch_sub(outgoing->bytes.size(),
                                                  std::memory_order_relaxed);
    all_reply_bytes.fetch_sub(outgoing->bytes.size(), std::memory_order_relaxed);
  }
};

Result<std::unique_ptr<MetadataEndpoint>> MetadataEndpoint::Create(EventLoop* loop,
                                                                   MetadataService* service,
                                                                   std::string_view address,
                                                                   PeerLimit* limit) {
  std::unique_ptr<MetadataEndpoint> endpoint(new MetadataEndpoint(loop, service));
  MARU_RETURN_IF_ERROR(endpoint->Open(address, limit));
  MetadataEndpoint* const self = endpoint.get();
  MARU_ASSIGN_OR_RETURN(self->watch_,
                        ZmqWatch::Create(loop, self->socket_, [self] { self->Drain(); }));
  return endpoint;
}

MetadataEndpoint::MetadataEndpoint(EventLoop* loop, MetadataService* service)
    : loop_(loop), service_(service) {}

MetadataEndpoint::~MetadataEndpoint() {
  watch_.reset();
  if (step_turn_ != 0) loop_->ForgetTurn(step_turn_);
  in_hand_.ForEachUnderWay([this](const RequestsInHand::Long& request) {
    if (request.number != 0) service_->GiveUp(request.number);
  });
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
    MARU_RETURN_IF_ERROR(SetZmqOption<int>(socket_, ZMQ_IPV6, 1));
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

void MetadataEndpoint::Drain() {
  // Receiving comes last: sending takes in the socket's notification, and only a receive that finds
  // nothing tells that there is none to wait for.
  AnswerWaiting();
  bool more = true;
  size_t keys_left = kKeysPerTurnMax;
  for (uint32_t i = 0; more && i < kRequestsPerTurnMax && keys_left > 0; ++i) {
    more = ReceiveOne(&keys_left);
  }
  AskForStep();
  if (more || !in_hand_.empty()) watch_->Again();
}

void MetadataEndpoint::AnswerWaiting() {
  size_t keys_left = kKeysPerTurnMax;
  for (uint32_t i = 0; i < kRequestsPerTurnMax && keys_left > 0 && !in_hand_.empty(); ++i) {
    RequestsInHand::Peer* const peer = in_hand_.First();
    if (peer->under_way != nullptr) {
      if (keys_left < kKeysPerTurnMax) return;  // a part is a whole turn
      AnswerPart(peer);
      keys_left = 0;
    } else {
      const Begun begun = Begin(&peer->waiting.front(), &keys_left);
      if (begun == Begun::kNextTurn) return;
      if (begun == Begun::kWaitsForRoom) {
        in_hand_.FirstWaitsForRoom();
        continue;
      }
      in_hand_.EndWaiting(peer);
    }
    in_hand_.EndTurn();
  }
}

bool MetadataEndpoint::Receive(std::unique_ptr<ZmqMessage>* message, size_t* keys_left) {
  std::vector<ZmqPart> parts;  // the envelope, identity first, and the message
  for (bool more = true; more;) {
    if (*keys_left == 0) return true;  // some frames were passed over, the rest is later
    ZmqPart part;
    if (zmq_msg_recv(part.get(), socket_, ZMQ_DONTWAIT) < 0) {
      const int error = zmq_errno();
      // The parts of a message come together, so a message never ends here in its middle.
      if (error != EAGAIN && error != EINTR) {
        LogError("receive at " + address_ + ": " + zmq_strerror(error));
      }
      return false;
    }
    more = part.more();
    if (frames_ == Frames::kTaken) {
      if (parts.empty()) connections_->Asked(zmq_msg_get(part.get(), ZMQ_SRCFD));
      const bool fits = parts.size() <= kEnvelopePartsMax &&
                        (!more || part.bytes().size() <= kEnvelopePartBytesMax);
      if (!fits) frames_ = Frames::kPassedOver;
    }
    if (frames_ == Frames::kPassedOver) {
      ++counters_.frames_passed_over;
      --*keys_left;
    } else {
      parts.push_back(std::move(part));
    }
  }
  const bool whole = frames_ == Frames::kTaken && parts.size() >= 2;
  frames_ = Frames::kTaken;
  if (!whole) {
    ++counters_.malformed;  // nothing says where an answer would have to go
    return true;
  }
  *message = std::make_unique<ZmqMessage>(ZmqMessage{{}, std::move(parts.back())});
  parts.pop_back();
  (*message)->envelope = std::move(parts);
  return true;
}

bool MetadataEndpoint::ReceiveOne(size_t* keys_left) {
  std::unique_ptr<ZmqMessage> message = std::move(next_);
  if (message == nullptr && !Receive(&message, keys_left)) return false;
  if (message == nullptr) return true;
  if (in_hand_.Has(message.get())) {
    if (!TellsLife(message->last.bytes())) {
      Keep(std::move(message));
      return true;
    }
    size_t whole_turn = kKeysPerTurnMax;
    Begin(&message, &whole_turn);
    *keys_left = 0;
    return true;
  }
  switch (Begin(&message, keys_left)) {
    case Begun::kDone: break;
    case Begun::kWaitsForRoom: in_hand_.WaitForRoom(std::move(message)); break;
    case Begun::kNextTurn: next_ = std::move(message); *keys_left = 0;
  }
  return true;
}

void MetadataEndpoint::Keep(std::unique_ptr<ZmqMessage> message) {
  const std::string why = in_hand_.Refusal(message.get());
  if (why.empty()) return in_hand_.Wait(std::move(message));
  compat::MetadataHeader header;
  const Status status = compat::DecodeMetadataHeader(message->last.bytes(), &header);
  Refuse(message.get(), header, status.ok() ? why : std::string(status.message()));
}

void MetadataEndpoint::Refuse(ZmqMessage* message, const compat::MetadataHeader& header,
                              const std::string& why) {
  ++counters_.refused;
  if (std::has_single_bit(counters_.refused)) {
    LogWarning(std::to_string(counters_.refused) + " requests were refused so far at " + address_ +
               ": " + why);
  }
  ReplyTo(message, header, compat::ErrorReply{why});
}

MetadataEndpoint::Begun MetadataEndpoint::Begin(std::unique_ptr<ZmqMessage>* message,
                                                size_t* keys_left) {
  compat::MetadataHeader header;
  compat::MetadataRequest request;
  ZmqMessage* const asked = message->get();
  const std::span<const std::byte> bytes = asked->last.bytes();
  if (CostOfBytes(bytes.size()) > *keys_left) return Begun::kNextTurn;
  ++counters_.decoded;
  const Status status = compat::DecodeMetadataRequest(bytes, &header, &request);
  const size_t cost = CostOf(request, bytes.size());
  if (cost > *keys_left) return Begun::kNextTurn;
  *keys_left -= cost;
  if (!status.ok()) {
    ++counters_.malformed;
    ReplyTo(asked, header, compat::ErrorReply{std::string(status.message())});
    return Begun::kDone;
  }
  std::unique_ptr<BatchInParts> parts = BatchInParts::Cut(TypeOf(header), &request);
  if (asked->held_bytes == 0 && (parts != nullptr || MayTakeSteps(request))) {
    const std::string why = in_hand_.Refusal(asked);
    if (!why.empty()) {
      Refuse(asked, header, why);
      return Begun::kDone;
    }
  }
  if (parts != nullptr && !in_hand_.TakeRoom(asked, parts->cost_bytes())) {
    return Begun::kWaitsForRoom;
  }
  uint64_t number = 0;
  if (std::holds_alternative<compat::AllocRequest>(request)) {
    in_hand_.Begin({std::move(*message), header, nullptr, 0, std::move(request)});
    return Begun::kDone;
  }
  if (parts == nullptr) {
    compat::MetadataReply reply;
    number = service_->Begin(TypeOf(header), request, &reply);
    if (number == 0) {
      ReplyTo(asked, header, reply);
      return Begun::kDone;
    }
    *keys_left = 0;  // it was a whole step
  }
  in_hand_.Begin({std::move(*message), header, std::move(parts), number, {}});
  return Begun::kDone;
}

void MetadataEndpoint::AnswerPart(RequestsInHand::Peer* peer) {
  RequestsInHand::Long& request = *peer->under_way;
  compat::MetadataReply reply;
  request.number = service_->Begin(TypeOf(request.header), request.parts->Next(), &reply);
  if (request.number == 0) Answered(peer, std::move(reply));
}

void MetadataEndpoint::Answered(RequestsInHand::Peer* peer, compat::MetadataReply reply) {
  RequestsInHand::Long& request = *peer->under_way;
  request.number = 0;
  if (request.parts != nullptr) {
    request.parts->Take(std::move(reply));
    if (!request.parts->done()) return;
    reply = request.parts->Whole();
  }
  ReplyTo(request.message.get(), request.header, reply);
  in_hand_.EndUnderWay(peer);
}

void MetadataEndpoint::AskForStep() {
  if (step_turn_ == 0 && in_hand_.has_steps()) {
    step_turn_ = loop_->CallInTurn([this] { TakeStep(); });
  }
}

void MetadataEndpoint::TakeStep() {
  step_turn_ = 0;
  RequestsInHand::Peer* const peer = in_hand_.FirstInSteps();
  RequestsInHand::Long& request = *peer->under_way;
  std::optional<compat::MetadataReply> reply;
  if (request.number != 0) {
    reply = service_->GoOn(request.number);
  } else {
    request.number = service_->Begin(TypeOf(request.header), request.request, &reply.emplace());
    if (request.number != 0) reply.reset();
    request.request = std::monostate();
    request.message->last = ZmqPart();  // as of what is under way
  }
  if (reply.has_value()) Answered(peer, *std::move(reply));
  in_hand_.EndStep();
  AskForStep();
  // What is next in line may be no step, and sending may have taken in a notification.
  watch_->Again();
}

void MetadataEndpoint::ReplyTo(ZmqMessage* message, const compat::MetadataHeader& header,
                               const compat::MetadataReply& reply) {
  const bool wanted = (header.flags & compat::kFlagNoReply) == 0;
  if (!wanted || !Reply(std::move(message->envelope), compat::EncodeMetadataReply(header, reply))) {
    service_->OnUndelivered(reply);
  }
}

size_t MetadataEndpoint::all_reply_bytes_waiting() {
  return all_reply_bytes.load(std::memory_order_relaxed);
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

bool MetadataEndpoint::Reply(std::vector<ZmqPart> envelope, std::vector<std::byte> message) {
  const std::span<const std::byte> identity = envelope.front().bytes();
  std::shared_ptr<Peer> peer = PeerOf(std::string(AsText(identity)));
  const size_t size = message.size();
  const size_t waiting = peer->reply_bytes_waiting.load(std::memory_order_relaxed);
  if (waiting + size > kReplyBytesWaitingMax) {
    ++counters_.replies_dropped;
    return false;
  }
  // Whoever reads has none waiting, and is answered for longer than who does not.
  const size_t all_max = kAllReplyBytesWaitingMax + (waiting == 0 ? kReplyBytesForReaders : 0);
  if (all_reply_bytes_waiting() + size > all_max) {
    CountDropped();
    return false;
  }
  for (ZmqPart& part : envelope) {
    // Only the identity can fail: its peer is gone or has too many replies waiting. After it,
    // ZeroMQ takes the whole message.
    if (zmq_msg_send(part.get(), socket_, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
      ++counters_.replies_dropped;
      return false;
    }
  }
  peer->reply_bytes_waiting.fetch_add(size, std::memory_order_relaxed);
  all_reply_bytes.fetch_add(size, std::memory_order_relaxed);
  // ZeroMQ's from zmq_msg_init_data on: it calls Free.
  auto* const outgoing = new Outgoing{std::move(message), std::move(peer)};
  zmq_msg_t last;
  MARU_CHECK_EQ(zmq_msg_init_data(&last, outgoing->bytes.data(), size, Outgoing::Free, outgoing),
                0);
  if (zmq_msg_send(&last, socket_, ZMQ_DONTWAIT) < 0) {
    zmq_msg_close(&last);
    ++counters_.replies_dropped;
    return false;
  }
  ++counters_.answered;
  return true;
}

void MetadataEndpoint::CountDropped() {
  ++counters_.replies_dropped;
  if (!std::has_single_bit(++dropped_for_all_)) return;
  LogWarning("clients of " + address_ +
             " do not read: " + std::to_string(all_reply_bytes_waiting() / kMiB) +
             " MiB of replies wait for clients of upstream's metadata protocol, the most there can "
             "be, and " +
             std::to_string(dropped_for_all_) +
             " were dropped so far; `ss -tnp` shows whose Recv-Q is full: stop those");
}

}  // namespace maru::net::compat
