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

RequestsInHand::Peer* RequestsInHand::Add(ZmqMessage* message) {
  std::string identity = message->peer();
  Peer* const peer = &peers_[identity];
  if (message->held_bytes == 0) {
    message->held_bytes = message->cost_bytes();
    peer->held_bytes += message->held_bytes;
    held_bytes_ += message->held_bytes;
  }
  peer->identity = std::move(identity);
  return peer;
}

void RequestsInHand::Discount(Peer* peer, const ZmqMessage& message) {
  peer->held_bytes -= message.held_bytes;
  held_bytes_ -= message.held_bytes;
}

void RequestsInHand::Wait(std::unique_ptr<ZmqMessage> message) {
  Peer* const peer = Add(message.get());
  MARU_CHECK(peer->waits()) << "there is nothing that it could wait for";
  peer->waiting.push_back(std::move(message));
}

void RequestsInHand::Begin(Long request) {
  Peer* const peer = Add(request.message.get());
  MARU_CHECK(peer->under_way == nullptr);
  const bool in_line = peer->waits();
  // Of what it has begun the service has copies, for which the message is counted on.
  if (request.parts == nullptr && request.number != 0) request.message->last = ZmqPart();
  peer->under_way = std::make_unique<Long>(std::move(request));
  if (!in_line) Put(peer);
}

void RequestsInHand::Put(Peer* peer) {
  if (peer->under_way != nullptr && peer->under_way->in_steps()) {
    return step_line_.push_back(peer);
  }
  if (peer->waits()) return line_.push_back(peer);
  MARU_CHECK_EQ(peer->held_bytes, 0u);
  peers_.erase(peers_.find(peer->identity));
}

bool RequestsInHand::TakeRoom(ZmqMessage* message, size_t batch_bytes) {
  if (message->room_bytes != 0) {  // it has waited, and its peer is in line again
    MARU_CHECK_EQ(message->room_bytes, batch_bytes);
    return true;
  }
  message->room_bytes = batch_bytes;
  if (!room_line_.empty() || !HasRoom(batch_bytes)) return false;
  batch_bytes_ += batch_bytes;
  return true;
}

void RequestsInHand::WaitForRoom(std::unique_ptr<ZmqMessage> message) {
  Peer* const peer = Add(message.get());
  MARU_CHECK(!peer->waits());
  peer->waiting.push_back(std::move(message));
  room_line_.push_back(peer);
}

void RequestsInHand::FirstWaitsForRoom() {
  room_line_.push_back(line_.front());
  line_.pop_front();
}

void RequestsInHand::GiveRoom() {
  while (!room_line_.empty()) {
    Peer* const peer = room_line_.front();
    const size_t batch_bytes = peer->waiting.front()->room_bytes;
    if (!HasRoom(batch_bytes)) return;
    batch_bytes_ += batch_bytes;
    room_line_.pop_front();
    line_.push_back(peer);
  }
}

void RequestsInHand::EndWaiting(Peer* peer) {
  const std::unique_ptr<ZmqMessage> message = std::move(peer->waiting.front());
  peer->waiting.pop_front();
  if (message != nullptr) Discount(peer, *message);  // else it is under way
}

void RequestsInHand::EndUnderWay(Peer* peer) {
  const std::unique_ptr<Long> request = std::move(peer->under_way);
  Discount(peer, *request->message);
  batch_bytes_ -= request->message->room_bytes;
  GiveRoom();
}

void RequestsInHand::EndTurn() {
  Peer* const peer = line_.front();
  line_.pop_front();
  Put(peer);
}

void RequestsInHand::EndStep() {
  Peer* const peer = step_line_.front();
  step_line_.pop_front();
  Put(peer);
}

}  // namespace maru::net::compat
