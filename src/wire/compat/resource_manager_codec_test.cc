#include "wire/compat/resource_manager_codec.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/testing.h"
#include "layout/golden_test.h"

namespace maru::wire::compat {
namespace {

layout::Bytes Example(const char* name) {
  return layout::FromDump(layout::DumpOnPage("upstream_resource_manager.md", name));
}

std::string HeaderRefusal(std::span<const std::byte> bytes) {
  RmHeader header;
  const Status status = DecodeRmHeader(bytes, &header);
  if (!status.ok()) {
    EXPECT_CODE(status, kDataLoss);
  }
  return std::string(status.message());
}

std::string Refusal(uint16_t type, std::span<const std::byte> payload) {
  RmRequest request{RmStatsRequest{}};
  const Status status = DecodeRmRequest(type, payload, &request);
  if (!status.ok()) {
    EXPECT_CODE(status, kDataLoss);
    EXPECT_EQ(request.index(), 0u);
  }
  return std::string(status.message());
}

TEST(ResourceManagerDecode, RefusesHeaders) {
  layout::Bytes bytes = Example("stats-request");
  EXPECT_EQ(HeaderRefusal(bytes), "");
  StoreLittle(&bytes[8], kRmPayloadBytesMax);
  EXPECT_EQ(HeaderRefusal(bytes), "");
  StoreLittle(&bytes[8], kRmPayloadBytesMax + 1);
  EXPECT_EQ(HeaderRefusal(bytes), "payload has 8193 bytes, at most 8192");
  StoreLittle(&bytes[4], uint16_t{3});
  EXPECT_EQ(HeaderRefusal(bytes), "version is 3, expected 2");
  StoreLittle(&bytes[0], uint32_t{0x5552414d});
  EXPECT_EQ(HeaderRefusal(bytes), "magic is 0x5552414d, expected 0x4d415255");
}

TEST(ResourceManagerDecode, RefusesPayloadsThatEndWithinAField) {
  const layout::Bytes message = Example("alloc-request");
  const auto payload = std::span(message).subspan(kRmHeaderBytes);
  EXPECT_EQ(Refusal(1, payload), "");
  EXPECT_EQ(Refusal(1, payload.first(7)), "ALLOC: size takes 8 bytes, only 7 are left");
  EXPECT_EQ(Refusal(1, payload.first(16)),
            "ALLOC: client id's length takes 2 bytes, only 0 are left");
  EXPECT_EQ(Refusal(1, payload.first(20)), "ALLOC: client id takes 10 bytes, only 2 are left");
  for (size_t size = 0; size < payload.size(); ++size) {
    EXPECT_NE(Refusal(1, payload.first(size)), "") << size;
  }
  EXPECT_EQ(Refusal(9, std::span(message).first(32)), "") << "a client id is optional here";
  EXPECT_EQ(Refusal(9, std::span(message).first(33)),
            "GET_ACCESS: client id's length takes 2 bytes, only 1 are left");
}

TEST(ResourceManagerDecode, RefusesTextsBeyondTheirLimit) {
  layout::Bytes payload(16 + kRmPathBytesMax + 1 + 2 + 8);
  StoreLittle(&payload[8], kRmPathBytesMax);
  EXPECT_EQ(Refusal(1, payload), "");
  StoreLittle(&payload[8], kRmPathBytesMax + 1);
  EXPECT_EQ(Refusal(1, payload), "ALLOC: path has 4097 bytes, at most 4096");
  StoreLittle(&payload[8], ~uint32_t{0});
  EXPECT_EQ(Refusal(1, payload), "ALLOC: path has 4294967295 bytes, at most 4096");
  StoreLittle(&payload[8], uint32_t{0});
  StoreLittle(&payload[16], uint16_t{257});
  EXPECT_EQ(Refusal(1, payload), "ALLOC: client id has 257 bytes, at most 256");
}

TEST(ResourceManagerDecode, RefusesTypesThatAreNoRequests) {
  for (const uint16_t type : {0, 2, 4, 6, 7, 8, 10, 255, 256, 65535}) {
    EXPECT_EQ(Refusal(type, {}), "no request has the message type " + std::to_string(type));
  }
}

TEST(ResourceManagerDecode, PassesOverBytesBehindTheLastField) {
  layout::Bytes message = Example("free-request");
  message.resize(message.size() + 9);
  RmRequest request;
  ASSERT_OK(DecodeRmRequest(3, std::span(message).subspan(kRmHeaderBytes), &request));
  EXPECT_EQ(std::get<RmFreeRequest>(request).request_id, 2u);
  EXPECT_EQ(ClientIdOf(request), "host-a:321");
}

TEST(ResourceManagerDecode, RefusesOpenRequestsWithTooMuch) {
  const layout::Bytes message = Example("open-request");
  const auto payload = std::span(message).subspan(kRmHeaderBytes);
  // The lease comes last and may be left out.
  const size_t without_lease = payload.size() - sizeof(uint64_t);
  for (size_t size = 0; size < payload.size(); ++size) {
    EXPECT_EQ(Refusal(0x4D01, payload.first(size)) == "", size == without_lease) << size;
  }
  layout::Bytes many(8);
  StoreLittle(&many[4], kRmOpenPathsMax);
  many.resize(8 + 4 * kRmOpenPathsMax);
  EXPECT_EQ(Refusal(0x4D01, many), "");
  StoreLittle(&many[4], kRmOpenPathsMax + 1);
  EXPECT_EQ(Refusal(0x4D01, many), "OPEN: 65 paths, at most 64");
  StoreLittle(&many[2], uint16_t{257});
  EXPECT_EQ(Refusal(0x4D01, many), "OPEN: address has 257 bytes, at most 256");
}

TEST(ResourceManagerDecode, ReadsTheLeaseOfAnOpenRequestWhereThereIsOne) {
  const auto lease_of = [](std::optional<uint64_t> lease_ms) {
    const auto encoded = EncodeRmOpenRequest({"c:1", "tcp://127.0.0.1:1", {}, lease_ms});
    EXPECT_OK(encoded);
    RmRequest request;
    EXPECT_OK(DecodeRmRequest(0x4D01, std::span(*encoded).subspan(kRmHeaderBytes), &request));
    return std::get<RmOpenRequest>(request).lease_ms;
  };
  EXPECT_EQ(lease_of(std::nullopt), std::nullopt);
  EXPECT_EQ(lease_of(0), 0u);
  EXPECT_EQ(lease_of(kRmOpenLeaseMsMax), kRmOpenLeaseMsMax);
  EXPECT_FALSE(EncodeRmOpenRequest({"c:1", "tcp://127.0.0.1:1", {}, kRmOpenLeaseMsMax + 1}).ok());

  std::vector<std::byte> open(16);  // no client id, no address, no path, and a lease
  StoreLittle(&open[8], kRmOpenLeaseMsMax + 1);
  EXPECT_EQ(Refusal(0x4D01, open), "OPEN: a lease of 86400001 ms, at most 86400000");
  open.resize(15);
  EXPECT_NE(Refusal(0x4D01, open), "");
}

TEST(ResourceManagerDecode, ReadsBothAnswersToAnOpenRequest) {
  const auto decode = [](std::span<const std::byte> message, RmOpenReply* reply) {
    return DecodeRmOpenReply(LoadLittle<uint16_t>(&message[6]), message.subspan(kRmHeaderBytes),
                             reply);
  };
  RmOpenReply reply;
  ASSERT_OK(decode(EncodeRmReply(RmOpenReply{RmStatus::kInUse, "a", "taken"}), &reply));
  EXPECT_EQ(reply.status, RmStatus::kInUse);
  EXPECT_EQ(reply.address + reply.message, "ataken");
  const auto error = EncodeRmReply(RmErrorReply{RmStatus::kInvalid, "no request"});
  ASSERT_OK(decode(error, &reply));
  EXPECT_EQ(reply.status, RmStatus::kInvalid);
  EXPECT_EQ(reply.address + reply.message, "no request");
  EXPECT_CODE(decode(std::span(error).first(error.size() - 1), &reply), kDataLoss);
  EXPECT_CODE(decode(EncodeRmReply(RmFreeReply{}), &reply), kDataLoss);
}

TEST(ResourceManagerEncode, RefusesOpenRequestsThatNobodyWouldTake) {
  const std::string path(kRmPathBytesMax, 'p');
  EXPECT_OK(EncodeRmOpenRequest({"id", "tcp://127.0.0.1:0", {path}}));
  const std::string id(257, 'i');
  EXPECT_CODE(EncodeRmOpenRequest({id, "", {}}).status(), kInvalidArgument);
  EXPECT_CODE(EncodeRmOpenRequest({"", id, {}}).status(), kInvalidArgument);
  EXPECT_CODE(EncodeRmOpenRequest({"", "", {path, path}}).status(), kInvalidArgument);
  EXPECT_CODE(EncodeRmOpenRequest({"", "", std::vector<std::string_view>(65)}).status(),
              kInvalidArgument);
}

TEST(ResourceManagerEncode, LeavesOutPoolsThatDoNotFit) {
  RmStatsReply stats;
  for (int i = 0; i < 200; ++i) stats.pools.push_back({std::string(40, 'p')});
  const std::vector<std::byte> message = EncodeRmReply(stats);
  EXPECT_LE(message.size(), kRmHeaderBytes + kRmPayloadBytesMax);
  EXPECT_EQ(LoadLittle<uint32_t>(&message[kRmHeaderBytes]), 113u);
  EXPECT_EQ(message.size(), kRmHeaderBytes + 4 + 113 * 72u);
}

TEST(ResourceManagerEncode, CutsLongErrors) {
  const auto message = EncodeRmReply(RmErrorReply{RmStatus::kInvalid, std::string(5000, 'x')});
  EXPECT_EQ(message.size(), kRmHeaderBytes + 8 + kRmErrorBytesMax);
}

}  // namespace
}  // namespace maru::wire::compat
