// Frames written out by hand; docs/formats/frame.md shows the same ones.
#include "wire/golden_frames_test.h"

#include "wire/codec.h"

namespace maru::wire {
namespace {

using layout::Bytes;
using layout::ExpectGolden;

constexpr Epoch kEpoch{0x1122334455667788};
constexpr layout::Uuid kUuid = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
const std::vector<PageRef> kPages = {{PoolIndex(0), RecordNumber(0x21), Generation(1)},
                                     {PoolIndex(1), RecordNumber(0x0102), Generation(3)}};

void ExpectRequest(const Request& request, uint64_t number, Epoch epoch, const char* dump,
                   const char* name) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto size = EncodeRequest(request, RequestNumber(number), epoch, buffer);
  ASSERT_TRUE(size.ok()) << size.status().ToString();
  ExpectGolden(std::span(buffer).first(*size), dump, "frame.md", name);
}

void ExpectReply(MessageType type, const Status& status, const Reply& reply, uint64_t number,
                 const char* dump, const char* name) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto size = EncodeReply(type, status, reply, RequestNumber(number), kEpoch, buffer);
  ASSERT_TRUE(size.ok()) << size.status().ToString();
  ExpectGolden(std::span(buffer).first(*size), dump, "frame.md", name);
}

TEST(GoldenFrames, AttachRequest) {
  AttachRequest request;
  request.protocol_version = 1;
  request.layout_version = 1;
  request.label = "decode-1";
  request.name_space = "m/";
  request.budget_bytes = 1 << 30;
  request.previous_client = ClientId(7);
  request.previous_pool = kUuid;
  ExpectRequest(request, 1, Epoch(0), kAttachRequestFrame, "attach-request");
}

TEST(GoldenFrames, AttachReply) {
  AttachReply reply;
  reply.client = ClientId(9);
  reply.slot = ClientSlot(2);
  reply.same_client = true;
  reply.server_version = "0.1.0";
  reply.pools.push_back({kUuid, 64 << 20, layout::kFlagChecksums, 5 << 20, {0x408000, 0x410000}});
  ExpectReply(MessageType::kAttach, OkStatus(), reply, 1, kAttachReplyFrame, "attach-reply");
}

TEST(GoldenFrames, Grant) {
  ExpectRequest(GrantRequest{1 << 20, 16}, 2, kEpoch, kGrantRequestFrame, "grant-request");
  ExpectReply(MessageType::kGrant, OkStatus(), GrantReply{kPages}, 2, kGrantReplyFrame,
              "grant-reply");
}

TEST(GoldenFrames, Register) {
  RegisterRequest request;
  request.refill_page_bytes = 1 << 20;
  request.refill_count = 4;
  request.entries = {{kPages[0], 0xC0000, 0xfedcba9876543210, "hello world"},
                     {kPages[1], 512, 0, ""}};
  ExpectRequest(request, 3, kEpoch, kRegisterRequestFrame, "register-request");
  RegisterReply reply;
  reply.items = {{RegisterOutcome::kRegistered, Generation(1)},
                 {RegisterOutcome::kDuplicate, Generation(4)}};
  reply.refill = {{PoolIndex(0), RecordNumber(0x22), Generation(5)}};
  ExpectReply(MessageType::kRegister, OkStatus(), reply, 3, kRegisterReplyFrame, "register-reply");
}

TEST(GoldenFrames, ErrorReply) {
  ExpectReply(MessageType::kGrant, ResourceExhausted("pool is full"), Reply(), 4, kErrorReplyFrame,
              "error-reply");
}

}  // namespace
}  // namespace maru::wire
