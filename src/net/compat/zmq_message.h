// Messages of ZeroMQ: made by receiving, given away by sending.
#pragma once

#include <zmq.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/units.h"

namespace maru::net::compat {

// One frame.
class ZmqPart {
 public:
  ZmqPart() { zmq_msg_init(&message_); }
  ZmqPart(ZmqPart&& other) noexcept : ZmqPart() { zmq_msg_move(&message_, &other.message_); }
  ZmqPart& operator=(ZmqPart&& other) noexcept {
    zmq_msg_move(&message_, &other.message_);
    return *this;
  }
  ~ZmqPart() { zmq_msg_close(&message_); }

  zmq_msg_t* get() { return &message_; }
  bool more() const { return zmq_msg_more(&message_) != 0; }
  std::span<const std::byte> bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }

 private:
  zmq_msg_t message_;
};

// A request as a ROUTER has it.
struct ZmqMessage {
  // Of what keeping one takes beside its bytes.
  static constexpr size_t kOverheadBytes = kKiB;

  std::vector<ZmqPart> envelope;  // the peer's identity first
  ZmqPart last;
  size_t held_bytes = 0;  // as it is counted among those in hand; 0: it is none of them
  // Of what a batch takes beside its message (RequestsInHand): what it has, or waits for.
  size_t room_bytes = 0;

  std::string peer() { return std::string(AsText(envelope.front().bytes())); }
  size_t cost_bytes() { return last.bytes().size() + kOverheadBytes; }
};

}  // namespace maru::net::compat
