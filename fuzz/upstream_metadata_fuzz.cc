// A message of upstream's metadata protocol, as the server sees it. The first byte of the input is
// the message's type, the rest its payload under an honest header; then the input as it is.
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "wire/compat/metadata_codec.h"

namespace {

namespace compat = maru::wire::compat;

void Judge(std::span<const std::byte> message) {
  compat::MetadataHeader header;
  compat::MetadataRequest request;
  const maru::Status status = compat::DecodeMetadataRequest(message, &header, &request);
  MARU_CHECK_EQ(status.ok(), request.index() != 0);
  if (!status.ok()) {
    MARU_CHECK_EQ(status.code(), maru::StatusCode::kDataLoss);
    MARU_CHECK(!status.message().empty());
    // What cannot be read is answered all the same, with what could be.
    const compat::ErrorReply error{std::string(status.message())};
    const auto reply = compat::EncodeMetadataReply(header, error);
    compat::MetadataHeader answered;
    MARU_CHECK_OK(compat::DecodeMetadataHeader(reply, &answered));
    MARU_CHECK_EQ(answered.sequence, header.sequence);
  }
  if (const auto* keys = std::get_if<compat::KeysRequest>(&request)) {
    MARU_CHECK(keys->keys.size() <= compat::kBatchItemsMax);
    size_t bytes = 0;
    for (const std::string_view key : keys->keys) bytes += key.size();
    MARU_CHECK(bytes <= message.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  Judge(input);
  if (size == 0) return 0;
  const auto payload = input.subspan(1);
  // The header of a reply with the payload behind it.
  auto message = compat::EncodeMetadataReply({data[0], 0, 7}, compat::ErrorReply{});
  message.resize(compat::kMetadataHeaderBytes);
  message[3] = input[0];
  for (int i = 0; i < 4; ++i) {
    message[12 + i] = static_cast<std::byte>(payload.size() >> (24 - 8 * i));
  }
  message.insert(message.end(), payload.begin(), payload.end());
  Judge(message);
  return 0;
}
