// Requests of an endpoint's peers that were not answered when they came: batches that are answered
// in parts, what takes the service several steps, and what waits behind those of its own peer.
// In line by peer, each once: those that can do with a share of a turn, and those of which a step
// is next, since steps have turns of their own.
//
// Kept is a bounded part of each peer's, and of all: who receives a request asks for room and
// refuses what has none, so that receiving goes on, whatever a peer has sent. A batch takes many
// times its message once it is read, so batches that have no room beside each other wait as they
// came, in a line of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>

#include "base/units.h"
#include "net/compat/batch_in_parts.h"
#include "net/compat/zmq_message.h"
#include "wire/compat/metadata.h"

namespace maru::net::compat {

class RequestsInHand {
 public:
  // Bytes of messages: of one peer, of all, and what peers that have nothing in hand get beyond.
  static constexpr size_t kBytesOfPeerMax = 32 * kMiB;
  static constexpr size_t kBytesMax = 64 * kMiB;
  static constexpr size_t kBytesForNewcomers = 64 * kMiB;
  static_assert(wire::compat::kMetadataMessageBytesMax < kBytesOfPeerMax);
  // What batches take beside their messages, of all that are under way (BatchInParts::cost_bytes);
  // one that takes more has to be alone.
  static constexpr size_t kBatchBytesMax = 64 * kMiB;

  // One that takes several turns.
  struct Long {
    std::unique_ptr<ZmqMessage> message;  // what the texts of a batch point into
    wire::compat::MetadataHeader header;
    std::unique_ptr<BatchInParts> parts;
    uint64_t number = 0;  // the service's, of it or of a part; 0: the next part has not begun
    wire::compat::MetadataRequest request;  // that has yet to begin, as a step of its own

    bool in_steps() const {
      return number != 0 || !std::holds_alternative<std::monostate>(request);
    }
  };
  struct Peer {
    std::string identity;
    std::unique_ptr<Long> under_way;
    std::deque<std::unique_ptr<ZmqMessage>> waiting;
    size_t held_bytes = 0;

    bool waits() const { return under_way != nullptr || !waiting.empty(); }
  };

  // Nothing can be done in a turn, other than a step.
  bool empty() const { return line_.empty(); }
  // Something of its peer.
  bool Has(ZmqMessage* message) const {
    return !peers_.empty() && peers_.contains(message->peer());
  }
  // Why there is no room for one more, for its peer to read; empty: there is.
  std::string Refusal(ZmqMessage* message) const;
  // The last of its peer. REQUIRES: there is room.
  void Wait(std::unique_ptr<ZmqMessage> message);
  // What its peer has under way from now on. REQUIRES: nothing was; the same unless it is in hand.
  void Begin(Long request);

  // Whether there is room for what a batch takes, which it has from then on.
  bool TakeRoom(ZmqMessage* message, size_t batch_bytes);
  // REQUIRES: TakeRoom has found none for it. It is the only one of its peer in hand, or the first
  // that waits of the first in line: in line again when there is room.
  void WaitForRoom(std::unique_ptr<ZmqMessage> message);
  void FirstWaitsForRoom();

  // The same for those whose next is a step, which have a line of their own.
  bool has_steps() const { return !step_line_.empty(); }
  Peer* FirstInSteps() { return step_line_.front(); }
  void EndStep();

  // The first in line, until EndTurn. REQUIRES: !empty().
  Peer* First() { return line_.front(); }
  // The first that waits of it has begun or was answered.
  void EndWaiting(Peer* peer);
  // What it has under way was answered.
  void EndUnderWay(Peer* peer);
  // The first is the last in line, or in no line when nothing of it is left.
  void EndTurn();

  template <typename Body>  // body(const Long&) for each that is under way
  void ForEachUnderWay(const Body& body) const {
    for (const auto& [identity, peer] : peers_) {
      if (peer.under_way != nullptr) body(*peer.under_way);
    }
  }

 private:
  Peer* Add(ZmqMessage* message);
  bool HasRoom(size_t batch_bytes) const {
    return batch_bytes_ == 0 || batch_bytes_ + batch_bytes <= kBatchBytesMax;
  }
  void GiveRoom();
  // Where it is next in line, if anywhere.
  void Put(Peer* peer);
  void Discount(Peer* peer, const ZmqMessage& message);

  std::unordered_map<std::string, Peer> peers_;  // those of which something is in hand
  std::deque<Peer*> line_;
  std::deque<Peer*> step_line_;
  std::deque<Peer*> room_line_;  // whose first that waits has no room; in no other line
  size_t held_bytes_ = 0;
  size_t batch_bytes_ = 0;
};

}  // namespace maru::net::compat
