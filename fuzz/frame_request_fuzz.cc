// A datagram from a client, as the server sees it. What decodes must encode to the same bytes.
#include <algorithm>
#include <variant>

#include "base/check.h"
#include "frame_fuzz.h"
#include "wire/codec.h"

namespace {

namespace wire = maru::wire;

void Judge(std::span<const std::byte> frame) {
  static wire::Decoder decoder;  // keeps room from one input to the next, as a server does
  static wire::Request request;
  static std::vector<std::byte> buffer(maru::layout::kFrameBytesMax);
  maru::layout::FrameHeader header{};
  const maru::Status status = decoder.DecodeRequest(frame, &header, &request);
  if (!status.ok()) {
    MARU_CHECK_EQ(status.code(), maru::StatusCode::kDataLoss);
    MARU_CHECK(!status.message().empty());
    MARU_CHECK_EQ(request.index(), 0u);
    return;
  }
  MARU_CHECK(wire::TypeOf(request) == static_cast<wire::MessageType>(header.type));
  // Of another protocol version nothing but the versions is known.
  const auto* attach = std::get_if<wire::AttachRequest>(&request);
  if (attach != nullptr && attach->protocol_version != maru::layout::kProtocolVersion) return;
  const auto size = wire::EncodeRequest(request, maru::RequestNumber(header.request_number),
                                        maru::Epoch(header.epoch), buffer);
  MARU_CHECK_OK(size.status());
  MARU_CHECK(std::ranges::equal(std::span(buffer).first(*size), frame));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  Judge(input);
  const auto honest = maru::fuzz::WithHonestHeader(input, false);
  if (!honest.empty()) Judge(honest);
  return 0;
}
