// The worked examples of docs/formats/upstream_metadata.md and upstream_resource_manager.md.
#include "base/testing.h"
#include "layout/golden_test.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/resource_manager_codec.h"

namespace maru::wire::compat {
namespace {

constexpr char kMetadataPage[] = "upstream_metadata.md";
constexpr char kRmPage[] = "upstream_resource_manager.md";
constexpr Handle kHandle{5242881, 0, 4 << 20, 0xfedcba9876543210};

layout::Bytes Example(const char* page, const char* name) {
  return layout::FromDump(layout::DumpOnPage(page, name));
}

void ExpectReply(const MetadataHeader& request, const MetadataReply& reply, const char* name) {
  EXPECT_EQ(layout::ToDump(EncodeMetadataReply(request, reply)),
            layout::ToDump(Example(kMetadataPage, name)))
      << name;
}

template <typename Request>
void ExpectRequest(const char* name, const MetadataHeader& expected_header,
                   const Request& expected) {
  const layout::Bytes message = Example(kMetadataPage, name);
  MetadataHeader header;
  MetadataRequest request;
  ASSERT_OK(DecodeMetadataRequest(message, &header, &request)) << name;
  EXPECT_EQ(header, expected_header) << name;
  ASSERT_TRUE(std::holds_alternative<Request>(request)) << name;
  EXPECT_EQ(std::get<Request>(request), expected) << name;
}

TEST(GoldenUpstreamMetadata, Register) {
  const MetadataHeader header{0x10, 0, 7};
  ExpectRequest("register-request", header,
                RegisterRequest{{{"hello world", 5242881, 8192, 4096}}});
  ExpectReply(header, RegisterReply{.is_new = true}, "register-reply");
}

TEST(GoldenUpstreamMetadata, BatchLookup) {
  const MetadataHeader header{0x21, kFlagBatch, 8};
  ExpectRequest("batch-lookup-request", header, KeysRequest{{"hello world", "missing"}});
  ExpectReply(header, BatchLookupReply{{{Location{kHandle, 8192, 4096}}, {}}},
              "batch-lookup-reply");
}

TEST(GoldenUpstreamMetadata, HeartbeatIsItsOwnReply) {
  const MetadataHeader header{0xF1, 0, 9};
  ExpectRequest("heartbeat", header, HeartbeatRequest{});
  ExpectReply(header, HeartbeatReply{}, "heartbeat");
}

TEST(GoldenUpstreamMetadata, Error) {
  ExpectReply({0x12, 0, 10}, ErrorReply{"key is missing"}, "error-reply");
}

TEST(GoldenUpstreamMetadata, Handshake) {
  const MetadataHeader header{0xFE, 0, 1};
  ExpectRequest("handshake-request", header, HandshakeRequest{.client_version = "0.1.0"});
  EXPECT_EQ(layout::ToDump(EncodeHandshakeRequest(1, {.client_version = "0.1.0"})),
            layout::ToDump(Example(kMetadataPage, "handshake-request")));
  const LocalRoad road{"/tmp/maru-1000.sock", "@maru-01234567-89ab-cdef-0123-456789abcdef",
                       "node-7/5d3c0f6e-8f0a-4b52-9c3d-0d0a6c1f2b7e",
                       "01234567-89ab-cdef-0123-456789abcdef", ""};
  ExpectReply(header, HandshakeReply{.rm_address = "127.0.0.1:9850", .local_road = road},
              "handshake-reply");
  HandshakeReply reply;
  ASSERT_OK(DecodeHandshakeReply(Example(kMetadataPage, "handshake-reply"), 1, &reply));
  ASSERT_TRUE(reply.local_road.has_value());
  EXPECT_EQ(*reply.local_road, road);
  EXPECT_EQ(reply.error, "");
}

void ExpectRmReply(const RmReply& reply, const char* name) {
  EXPECT_EQ(layout::ToDump(EncodeRmReply(reply)), layout::ToDump(Example(kRmPage, name))) << name;
}

template <typename Request>
void ExpectRmRequest(const char* name, const Request& expected) {
  const layout::Bytes message = Example(kRmPage, name);
  const std::span<const std::byte> bytes(message);
  RmHeader header;
  RmRequest request;
  ASSERT_OK(DecodeRmHeader(bytes.first(kRmHeaderBytes), &header)) << name;
  EXPECT_EQ(header.payload_bytes, message.size() - kRmHeaderBytes);
  ASSERT_OK(DecodeRmRequest(header.type, bytes.subspan(kRmHeaderBytes), &request)) << name;
  ASSERT_TRUE(std::holds_alternative<Request>(request)) << name;
  EXPECT_EQ(std::get<Request>(request), expected) << name;
}

TEST(GoldenUpstreamResourceManager, Requests) {
  ExpectRmRequest("alloc-request", RmAllocRequest{3 << 20, "", "host-a:321", 1});
  ExpectRmRequest("free-request", RmFreeRequest{kHandle, "host-a:321", 2});
  ExpectRmRequest("stats-request", RmStatsRequest{});
  ExpectRmRequest("access-request", RmAccessRequest{kHandle, "host-a:321"});
  const RmOpenRequest open{"host-a:321", "tcp://127.0.0.1:5555", {"/dev/dax0.0"}, 45'000};
  ExpectRmRequest("open-request", open);
  const auto encoded = EncodeRmOpenRequest(open);
  ASSERT_OK(encoded);
  EXPECT_EQ(layout::ToDump(*encoded), layout::ToDump(Example(kRmPage, "open-request")));
}

TEST(GoldenUpstreamResourceManager, Replies) {
  const std::string path = "/dev/shm/maru-1000";
  ExpectRmReply(RmAllocReply{.handle = kHandle, .requested_bytes = 3 << 20, .path = path},
                "alloc-reply");
  ExpectRmReply(RmFreeReply{}, "free-reply");
  ExpectRmReply(RmStatsReply{{{path, RmPoolType::kFsDax, 1 << 30, 1 << 29, 2 << 20}}},
                "stats-reply");
  ExpectRmReply(RmAccessReply{.path = "/dev/dax0.0",
                              .offset_bytes = 2 << 20,
                              .length_bytes = 4 << 20,
                              .uuid = "00112233-4455-6677-8899-aabbccddeeff"},
                "access-reply");
  ExpectRmReply(RmErrorReply{RmStatus::kAccess, "invalid auth token"}, "rm-error-reply");
  ExpectRmReply(RmOpenReply{.address = "tcp://127.0.0.1:5555"}, "open-reply");
}

}  // namespace
}  // namespace maru::wire::compat
