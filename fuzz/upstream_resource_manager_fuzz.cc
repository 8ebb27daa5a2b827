// A stream of upstream's resource-manager protocol, as the server sees it: header, payload, header;
// each payload also as `maru server` sees an answer.
#include <algorithm>
#include <variant>

#include "base/check.h"
#include "wire/compat/resource_manager_codec.h"

namespace compat = maru::wire::compat;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto left = std::as_bytes(std::span(data, size));
  while (left.size() >= compat::kRmHeaderBytes) {
    compat::RmHeader header;
    const maru::Status framed = compat::DecodeRmHeader(left.first(compat::kRmHeaderBytes), &header);
    left = left.subspan(compat::kRmHeaderBytes);
    if (!framed.ok()) {
      MARU_CHECK_EQ(framed.code(), maru::StatusCode::kDataLoss);
      return 0;
    }
    const auto payload = left.first(std::min<size_t>(header.payload_bytes, left.size()));
    left = left.subspan(payload.size());
    compat::RmRequest request;
    const maru::Status status = compat::DecodeRmRequest(header.type, payload, &request);
    compat::RmOpenReply reply;
    const maru::Status read = compat::DecodeRmOpenReply(header.type, payload, &reply);
    MARU_CHECK(read.ok() || read.code() == maru::StatusCode::kDataLoss);
    MARU_CHECK_EQ(status.ok(), request.index() != 0);
    MARU_CHECK(compat::ClientIdOf(request).size() <= compat::kRmClientIdBytesMax);
    if (status.ok()) continue;
    MARU_CHECK_EQ(status.code(), maru::StatusCode::kDataLoss);
    MARU_CHECK(!status.message().empty());
  }
  return 0;
}
