// One request and its reply as a ZeroMQ REQ socket exchanges them over a stream: ZMTP 3.0
// (https://rfc.zeromq.org/spec/23/), mechanism NULL. For the client library, which cannot link
// libzmq (docs/decisions/0007-own-zmtp.md). No sockets: bytes in, bytes out.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "maru/status.h"
#include "wire/compat/metadata.h"

namespace maru::wire::compat {

inline constexpr size_t kZmtpGreetingBytes = 64;
// What a peer may send: more is refused before it is kept.
inline constexpr uint64_t kZmtpCommandBytesMax = 4 * kKiB;
inline constexpr uint64_t kZmtpReplyBytesMax =
    kStatsReplyBytesMax;                          // the longest that is asked for
inline constexpr uint32_t kZmtpCommandsMax = 16;  // PING and the like, before the reply

class ZmtpExchange {
 public:
  explicit ZmtpExchange(std::span<const std::byte> request);

  // What is to be sent now, in whole; empty: it is the peer's turn.
  std::vector<std::byte> TakeOutgoing();
  // What the peer has sent, in pieces of any size. DataLoss says why no reply will come from it:
  // it speaks something else, or breaks the rules. What follows the reply is not looked at.
  // REQUIRES: no failure before.
  Status Feed(std::span<const std::byte> bytes);

  bool done() const { return state_ == State::kDone; }
  // The message without its envelope. REQUIRES: done().
  std::span<const std::byte> reply() const { return reply_; }

 private:
  enum class State : uint8_t { kGreeting, kReady, kEnvelope, kReply, kDone };
  struct Frame {
    uint8_t flags = 0;
    uint64_t body_bytes = 0;
    size_t header_bytes = 0;
  };
  enum class Progress : uint8_t { kMade, kNeedsMore };

  Status Step(Progress* progress);
  Status TakeGreeting(Progress* progress);
  // The next frame's header, once it is there; its body may be still on its way.
  Status PeekFrame(Frame* frame, Progress* progress) const;
  Status TakeFrame(const Frame& frame, std::span<const std::byte> body);
  Status TakeCommand(std::span<const std::byte> body);
  Status TakeReady(std::span<const std::byte> properties);
  Status TakePart(const Frame& frame, std::span<const std::byte> body);

  State state_ = State::kGreeting;
  uint32_t commands_ = 0;
  std::vector<std::byte> request_, outgoing_, reply_;
  std::vector<std::byte> incoming_;  // not yet taken: less than a frame and what came with it
};

}  // namespace maru::wire::compat
