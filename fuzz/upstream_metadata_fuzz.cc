// A message of upstream's metadata protocol, as the server sees it. The first byte of the input is
// the message's type, the rest its payload under an honest header; then the input as it is.
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "layout/number_key.h"
#include "wire/compat/metadata_codec.h"

namespace {

namespace compat = maru::wire::compat;

// Keys of one request: a text lies within the message, what came as a number has a text of its own.
class Keys {
 public:
  explicit Keys(std::span<const std::byte> message)
      : message_(reinterpret_cast<const char*>(message.data()), message.size()) {}

  void Take(std::string_view key) {
    MARU_CHECK(++count_ <= compat::kBatchItemsMax);
    const std::less_equal<const char*> at_most;
    const bool within = at_most(message_.data(), key.data()) &&
                        at_most(key.data() + key.size(), message_.data() + message_.size());
    if (!within) {
      MARU_CHECK(key.size() <= maru::layout::kNumberKeyBytesMax);
      MARU_CHECK_EQ(key.front(), maru::layout::kNumberKeyMark);
    }
    bytes_ += within ? key.size() : 1;  // a number has a byte at least
    MARU_CHECK(bytes_ <= message_.size());
  }

 private:
  const std::string_view message_;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

void JudgeKeys(std::span<const std::byte> message, compat::MetadataRequest&& request) {
  // Texts stay where they are when a request is moved.
  const compat::MetadataRequest moved = std::move(request);
  Keys keys(message);
  if (const auto* asked = std::get_if<compat::KeysRequest>(&moved)) {
    for (const std::string_view key : asked->keys) keys.Take(key);
  }
  if (const auto* registered = std::get_if<compat::RegisterRequest>(&moved)) {
    for (const compat::RegisterEntry& entry : registered->entries) keys.Take(entry.key);
  }
}

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
  JudgeKeys(message, std::move(request));
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
