// Upstream's metadata protocol on a ZeroMQ ROUTER (docs/formats/upstream_metadata.md): REQ and
// DEALER clients at once, replies to each in the order of its requests, but for HEARTBEAT, which is
// answered at once, and for what is refused for want of room. What does not decode is answered
// here; the service sees good requests only and knows nothing of sockets.
//
// Nothing here waits for a peer: replies to one that does not read are dropped beyond a limit, what
// one sends beyond what may wait is refused (requests_in_hand.h), and nobody else notices.
// Connections are counted, and those beyond a limit ended (zmq_peers.h).
//
// A turn in the loop is bounded by keys, however many requests they come in: kItemsMax of
// BatchInParts of what came now, as many of what waits in line. A batch of more is answered part by
// part, and what takes the service several steps step by step, one in a round of the
// loop over all endpoints (EventLoop::CallInTurn). Later requests of its peer wait in line behind
// it; what else does not fit into a turn is the first of the next. All calls belong to the loop's
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "maru/result.h"
#include "net/compat/batch_in_parts.h"
#include "net/compat/requests_in_hand.h"
#include "net/compat/zmq_message.h"
#include "net/compat/zmq_peers.h"
#include "net/compat/zmq_socket.h"
#include "net/event_loop.h"
#include "wire/compat/metadata.h"

namespace maru::net::compat {

class MetadataService {
 public:
  virtual ~MetadataService() = default;
  // One that EncodeMetadataReply takes for the type, or an ErrorReply. Texts of the request live
  // for the call. A batch comes in parts (batch_in_parts.h).
  virtual wire::compat::MetadataReply Answer(wire::compat::MetadataType type,
                                             const wire::compat::MetadataRequest& request) = 0;
  // The same for what may take several steps: 0, and the reply is there; else a number, for which
  // GoOn does the next step until it is. Whoever asked may be gone by then.
  virtual uint64_t Begin(wire::compat::MetadataType type,
                         const wire::compat::MetadataRequest& request,
                         wire::compat::MetadataReply* reply) {
    *reply = Answer(type, request);
    return 0;
  }
  virtual std::optional<wire::compat::MetadataReply> GoOn(uint64_t number);
  // The endpoint is closed: nobody will ask for the reply.
  virtual void GiveUp(uint64_t /*number*/) {}
  // Its peer is gone, takes no more, or wants none: nobody will know what it says.
  virtual void OnUndelivered(const wire::compat::MetadataReply& /*reply*/) {}
};

class MetadataEndpoint {
 public:
  // Requests of one peer that wait within ZeroMQ; beyond it the peer's own sends wait. Each frame
  // may have kMetadataMessageBytesMax. Of one that is not whole ZeroMQ keeps any number.
  static constexpr int kRequestsWaitingMax = 8;
  // Replies of one peer that it has not taken yet, and their bytes.
  static constexpr int kRepliesWaitingMax = 16'384;
  static constexpr size_t kReplyBytesWaitingMax = 64 * kMiB;
  // Of all peers of all endpoints of the process; and what peers that have none waiting get beyond.
  static constexpr size_t kAllReplyBytesWaitingMax = 128 * kMiB;
  static constexpr size_t kReplyBytesForReaders = 32 * kMiB;
  // A peer whose kernel takes nothing for so long while replies wait is disconnected.
  static constexpr int kDeafPeerMs = 60'000;
  // Of a HEARTBEAT that waits for nothing else of its peer.
  static constexpr size_t kBeatBytesMax = 4 * kKiB;
  // Requests received, and requests of the line answered, before other descriptors of the loop have
  // their turn; and what these may cost (CostOf).
  static constexpr uint32_t kRequestsPerTurnMax = 64;
  static constexpr size_t kKeysPerTurnMax = BatchInParts::kItemsMax;
  // Frames before the message: identity, delimiter, and those of proxies.
  static constexpr size_t kEnvelopePartsMax = 8;
  static constexpr size_t kEnvelopePartBytesMax = 255;

  // Free ones without which no endpoint is made: ZeroMQ ends the process where it gets none. An
  // endpoint takes less than a third; the rest is for what other threads take meanwhile.
  static constexpr size_t kFreeDescriptorsMin = 64;

  struct Counters {
    uint64_t answered = 0;            // handed to ZeroMQ
    uint64_t malformed = 0;           // of those received
    uint64_t frames_passed_over = 0;  // of messages with more than may be
    uint64_t decoded = 0;             // more than those received where keys alone found no room
    uint64_t replies_dropped = 0;     // their peer is gone, or does not read
    uint64_t refused = 0;             // for want of room among those in hand
  };

  // "tcp://127.0.0.1:5555", with an address as os::TcpAddress::Parse reads it.
  // REQUIRES: loop, service and limit outlive the endpoint.
  static Result<std::unique_ptr<MetadataEndpoint>> Create(EventLoop* loop, MetadataService* service,
                                                          std::string_view address,
                                                          PeerLimit* limit);
  ~MetadataEndpoint();
  MetadataEndpoint(const MetadataEndpoint&) = delete;
  MetadataEndpoint& operator=(const MetadataEndpoint&) = delete;

  // With the port that was chosen.
  const std::string& address() const { return address_; }
  const Counters& counters() const { return counters_; }
  // Remembered: those with waiting replies, and some that had.
  size_t peers() const { return peers_.size(); }
  const ZmqPeers& connections() const { return *connections_; }
  // Of all endpoints of the process.
  static size_t all_reply_bytes_waiting();

 private:
  struct Peer;
  struct Outgoing;

  MetadataEndpoint(EventLoop* loop, MetadataService* service);
  Status Open(std::string_view address, PeerLimit* limit);
  void Drain();
  // Those in line, the longest waiting first.
  void AnswerWaiting();
  // One part of the batch that the peer has under way, or the first step of one.
  void AnswerPart(RequestsInHand::Peer* peer);
  // What the peer has under way, or a part of it, has its reply.
  void Answered(RequestsInHand::Peer* peer, wire::compat::MetadataReply reply);
  // When it is the endpoint's turn among all that have steps to do in the loop.
  void AskForStep();
  void TakeStep();
  // False when no message waits. One that cannot be answered is passed over, *MESSAGE stays empty;
  // each frame of it beyond the limit costs a key, and the rest is passed over in later turns.
  bool Receive(std::unique_ptr<ZmqMessage>* message, size_t* keys_left);
  // False when no message waits. Takes what its answer cost from KEYS_LEFT.
  bool ReceiveOne(size_t* keys_left);
  enum class Begun : uint8_t { kDone, kNextTurn, kWaitsForRoom };
  // Answers or refuses a request, or takes it as what its peer has under way. Else it is as it was:
  // it costs more than is left (one whose bytes alone do is not decoded), or is a batch that finds
  // no room beside others.
  Begun Begin(std::unique_ptr<ZmqMessage>* message, size_t* keys_left);
  // At the end of what waits of its peer, or refused for want of room.
  void Keep(std::unique_ptr<ZmqMessage> message);
  void Refuse(ZmqMessage* message, const wire::compat::MetadataHeader& header,
              const std::string& why);
  void ReplyTo(ZmqMessage* message, const wire::compat::MetadataHeader& header,
               const wire::compat::MetadataReply& reply);
  // False: it reaches nobody.
  bool Reply(std::vector<ZmqPart> envelope, std::vector<std::byte> message);
  void CountDropped();
  std::shared_ptr<Peer> PeerOf(std::string identity);

  EventLoop* const loop_;
  MetadataService* const service_;
  void* context_ = nullptr;  // of ZeroMQ, as the socket
  void* socket_ = nullptr;
  std::unique_ptr<ZmqWatch> watch_;
  std::string address_;
  std::unique_ptr<ZmqPeers> connections_;
  Counters counters_;
  // By identity. A peer without waiting replies is forgotten at the next sweep.
  std::unordered_map<std::string, std::shared_ptr<Peer>> peers_;
  size_t sweep_at_ = 1024;
  RequestsInHand in_hand_;
  uint64_t step_turn_ = 0;            // the loop's number of it; 0: none is asked for
  std::unique_ptr<ZmqMessage> next_;  // received, and the first of the next turn
  enum class Frames : uint8_t { kTaken, kPassedOver };
  Frames frames_ = Frames::kTaken;  // those that ZeroMQ hands on next
  uint64_t dropped_for_all_ = 0;    // for want of room for all
};

}  // namespace maru::net::compat
