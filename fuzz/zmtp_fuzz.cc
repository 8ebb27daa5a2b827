// What a peer sends to a handler of ours that asks it HANDSHAKE over ZeroMQ. The first byte of the
// input says in which pieces the rest comes; then the rest is a payload under an honest header.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/zmtp.h"

namespace {

namespace compat = maru::wire::compat;
using Bytes = std::span<const std::byte>;

constexpr uint32_t kSequence = 1;

void JudgeReply(Bytes message) {
  compat::HandshakeReply reply;
  const maru::Status status = compat::DecodeHandshakeReply(message, kSequence, &reply);
  if (!status.ok()) {
    MARU_CHECK_EQ(status.code(), maru::StatusCode::kDataLoss);
    MARU_CHECK(!status.message().empty());
    MARU_CHECK(!reply.local_road.has_value());
    return;
  }
  if (reply.local_road) MARU_CHECK(reply.local_road->socket_path.size() <= compat::kNameBytesMax);
}

struct Outcome {
  std::string refusal;
  std::vector<std::byte> sent, reply;
};

Outcome Exchange(Bytes incoming, size_t piece) {
  compat::ZmtpExchange exchange(compat::EncodeHandshakeRequest(kSequence, {}));
  Outcome outcome;
  const auto send = [&] {
    const auto bytes = exchange.TakeOutgoing();
    outcome.sent.insert(outcome.sent.end(), bytes.begin(), bytes.end());
  };
  send();
  while (!incoming.empty() && outcome.refusal.empty()) {
    const Bytes part = incoming.first(std::min(piece, incoming.size()));
    incoming = incoming.subspan(part.size());
    const maru::Status status = exchange.Feed(part);
    if (status.ok()) {
      send();
      continue;
    }
    MARU_CHECK_EQ(status.code(), maru::StatusCode::kDataLoss);
    outcome.refusal = status.message();
  }
  if (!exchange.done()) return outcome;
  outcome.reply.assign(exchange.reply().begin(), exchange.reply().end());
  MARU_CHECK(outcome.reply.size() <= compat::kZmtpReplyBytesMax);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes input = std::as_bytes(std::span(data, size)).subspan(1);
  const Outcome whole = Exchange(input, input.size());
  const Outcome pieces = Exchange(input, size_t{data[0]} + 1);
  MARU_CHECK_EQ(whole.refusal, pieces.refusal);
  MARU_CHECK(whole.reply == pieces.reply);
  // Of a peer that breaks the rules, more may be taken before it is noticed.
  if (whole.refusal.empty()) MARU_CHECK(whole.sent == pieces.sent);
  JudgeReply(whole.reply);
  auto message = compat::EncodeMetadataReply({0xFE, 0, kSequence}, compat::ErrorReply{});
  message.resize(compat::kMetadataHeaderBytes);
  for (int i = 0; i < 4; ++i) {
    message[12 + i] = static_cast<std::byte>(input.size() >> (24 - 8 * i));
  }
  message.insert(message.end(), input.begin(), input.end());
  JudgeReply(message);
  return 0;
}
