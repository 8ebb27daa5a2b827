#include "net/compat/requests_in_hand.h"

#include <utility>

#include "base/check.h"

namespace maru::net::compat {

namespace {

std::string Full(const char* whose, size_t most) {
  return "not taken: " + std::to_string(most / kMiB) + " MiB of requests " + whose +
         " wait to be answered, the most there can be; ask again when some were answered";
}

}  // namespace

std::string RequestsInHand::Refusal(ZmqMessage* message) const {
  const size_t cost = message->cost_bytes();
  const auto peer = peers_.find(message->peer());
  const size_t own = peer == peers_.end() ? 0 : peer->second.held_bytes;
  if (own + cost > kBytesOfPeerMax) return Full("of this client", kBytesOfPeerMax);
  const size_t all_max = kBytesMax + (own == 0 ? kBytesForNewcomers : 0);
  if (held_bytes_ + cost > all_max) return Full("of this endpoint's clients", all_max);
  return "";
}

RequestsInHand::Peer* RequestsInHand::PeerOf(ZmqMessage* message) {
  std::string identity = message->peer();
  const auto [at, is_new] = peers_.try_emplace(identity);
  Peer* const peer = &at->second;
  if (is_new) {
    peer->identity = std::move(identity);
    line_.push_back(peer);
  }
  return peer;
}

void RequestsInHand::Count(Peer* peer, ZmqMessage* message) {
  if (message->held_bytes != 0) return;
  message->held_bytes = message->cost_bytes();
  peer->held_bytes += message->held_bytes;
  held_bytes_ += message->held_bytes;
}

void RequestsInHand::Discount(Peer* peer, const ZmqMessage& message) {
  peer->held_bytes -= message.held_bytes;
  held_bytes_ -= message.held_bytes;
}

void RequestsInHand::Wait(std::unique_ptr<ZmqMessage> message) {
  Peer* const peer = PeerOf(message.get());
  Count(peer, message.get());
  peer->waiting.push_back(std::move(message));
}

void RequestsInHand::Begin(Long request) {
  Peer* const peer = PeerOf(request.message.get());
  MARU_CHECK(peer->under_way == nullptr);
  Count(peer, request.message.get());
  peer->under_way = std::make_unique<Long>(std::move(request));
}

void RequestsInHand::EndWaiting(Peer* peer) {
  const std::unique_ptr<ZmqMessage> message = std::move(peer->waiting.front());
  peer->waiting.pop_front();
  if (message != nullptr) Discount(peer, *message);  // else it is under way
}

void RequestsInHand::EndUnderWay(Peer* peer) {
  Discount(peer, *peer->under_way->message);
  peer->under_way.reset();
}

void RequestsInHand::EndTurn() {
  Peer* const peer = line_.front();
  line_.pop_front();
  if (peer->under_way != nullptr || !peer->waiting.empty()) return line_.push_back(peer);
  MARU_CHECK_EQ(peer->held_bytes, 0u);
  peers_.erase(peers_.find(peer->identity));
}

}  // namespace maru::net::compat
