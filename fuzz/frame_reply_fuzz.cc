// A datagram from a server, as the client library sees it in its host process. What decodes must
// encode to the same bytes.
#include <algorithm>
#include <variant>

#include "base/check.h"
#include "frame_fuzz.h"
#include "wire/codec.h"

namespace {

namespace wire = maru::wire;

void Judge(std::span<const std::byte> frame) {
  static wire::Decoder decoder;
  static wire::Reply reply;
  static std::vector<std::byte> buffer(maru::layout::kFrameBytesMax);
  maru::layout::FrameHeader header{};
  maru::Status server;
  const maru::Status status = decoder.DecodeReply(frame, &header, &server, &reply);
  if (!status.ok()) {
    MARU_CHECK_EQ(status.code(), maru::StatusCode::kDataLoss);
    MARU_CHECK(!status.message().empty());
    MARU_CHECK_EQ(reply.index(), 0u);
    return;
  }
  const auto type = static_cast<wire::MessageType>(header.type & ~maru::layout::kReplyBit);
  MARU_CHECK(wire::TypeOf(reply) == (server.ok() ? type : wire::kNoMessage));
  const auto size =
      wire::EncodeReply(type, server, reply, maru::RequestNumber(header.request_number),
                        maru::Epoch(header.epoch), buffer);
  MARU_CHECK_OK(size.status());
  MARU_CHECK(std::ranges::equal(std::span(buffer).first(*size), frame));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  Judge(input);
  const auto honest = maru::fuzz::WithHonestHeader(input, true);
  if (!honest.empty()) Judge(honest);
  return 0;
}
