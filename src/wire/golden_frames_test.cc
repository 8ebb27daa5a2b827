// Frames written out by hand; docs/formats/frame.md shows the same ones.
#include "wire/golden_frames_test.h"

#include "wire/codec.h"
#include "wire/golden_messages_test.h"

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

TEST(GoldenFrames, Settle) {
  ExpectRequest(SettleRequest{true, kPages}, 5, kEpoch, kSettleRequestFrame, "settle-request");
  const SettleReply reply{
      {{SettleVerdict::kKept, Generation(2)}, {SettleVerdict::kGone, Generation(0)}}};
  ExpectReply(MessageType::kSettle, OkStatus(), reply, 5, kSettleReplyFrame, "settle-reply");
}

TEST(GoldenFrames, GiveBackAndFree) {
  ExpectRequest(GiveBackRequest{{kPages[0]}}, 6, kEpoch, kGiveBackRequestFrame,
                "give-back-request");
  ExpectReply(MessageType::kGiveBack, OkStatus(), GiveBackReply{1}, 6, kGiveBackReplyFrame,
              "give-back-reply");
  ExpectRequest(FreeRequest{kPages[1]}, 7, kEpoch, kFreeRequestFrame, "free-request");
  ExpectReply(MessageType::kFree, OkStatus(), FreeReply{FreeOutcome::kPinned}, 7, kFreeReplyFrame,
              "free-reply");
}

TEST(GoldenFrames, ResolveAndFind) {
  ExpectRequest(ResolveRequest{kPages}, 8, kEpoch, kResolveRequestFrame, "resolve-request");
  ExpectReply(MessageType::kResolve, OkStatus(), ResolveReply{{1, 0}}, 8, kResolveReplyFrame,
              "resolve-reply");
  ExpectRequest(FindRequest{{"hello world", "missing"}}, 9, kEpoch, kFindRequestFrame,
                "find-request");
  ExpectReply(MessageType::kFind, OkStatus(), FindReply{{{true, kPages[0]}, {false, {}}}}, 9,
              kFindReplyFrame, "find-reply");
}

TEST(GoldenFrames, DeleteAndUnpin) {
  ExpectRequest(DeleteRequest{{"hello world", "missing"}}, 10, kEpoch, kDeleteRequestFrame,
                "delete-request");
  ExpectReply(MessageType::kDelete, OkStatus(),
              DeleteReply{{DeleteOutcome::kDeleted, DeleteOutcome::kMissing}}, 10,
              kDeleteReplyFrame, "delete-reply");
  ExpectRequest(UnpinRequest{{"hello world", "missing"}}, 16, kEpoch, kUnpinRequestFrame,
                "unpin-request");
  ExpectReply(MessageType::kUnpin, OkStatus(), UnpinReply{{1, 0}}, 16, kUnpinReplyFrame,
              "unpin-reply");
}

TEST(GoldenFrames, GrowLeasesAndPing) {
  ExpectRequest(GrowLeasesRequest{PoolIndex(1), 2}, 11, kEpoch, kGrowLeasesRequestFrame,
                "grow-leases-request");
  ExpectReply(MessageType::kGrowLeases, OkStatus(), GrowLeasesReply{{0x408000, 0x410000}}, 11,
              kGrowLeasesReplyFrame, "grow-leases-reply");
  ExpectRequest(PingRequest{}, 12, kEpoch, kPingRequestFrame, "ping-request");
  ExpectReply(MessageType::kPing, OkStatus(), PingReply{90'000}, 12, kPingReplyFrame, "ping-reply");
}

TEST(GoldenFrames, InspectAndList) {
  ExpectRequest(InspectRequest{InspectTopic::kClients, 0x90002}, 13, kEpoch, kInspectRequestFrame,
                "inspect-request");
  ExpectReply(MessageType::kInspect, OkStatus(), InspectReply{"[]", 0}, 13, kInspectReplyFrame,
              "inspect-reply");
  ExpectRequest(ListRequest{"hel", 0, 256}, 14, kEpoch, kListRequestFrame, "list-request");
  ListReply listed;
  listed.items = {{"hello world", 0xC0000, kPages[0]}};
  listed.next_cursor = 0x22;
  ExpectReply(MessageType::kList, OkStatus(), listed, 14, kListReplyFrame, "list-reply");
}

TEST(GoldenFrames, Audit) {
  ExpectRequest(AuditRequest{true, 0}, 15, kEpoch, kAuditRequestFrame, "audit-request");
  ExpectReply(MessageType::kAudit, OkStatus(), AuditReply{0, 7, 9, true, "{}"}, 15,
              kAuditReplyFrame, "audit-reply");
}

TEST(GoldenFrames, Release) {
  ExpectRequest(ReleaseRequest{ReleaseMode::kRelease, 0, 0, "dec-0"}, 17, kEpoch,
                kReleaseRequestFrame, "release-request");
  const ReleaseReply reply{{{RegionId(0x500004), 4 << 20, 3, 0, 60'000, ReleaseVerdict::kReleased},
                            {RegionId(0x500005), 2 << 20, 0, 1, 0, ReleaseVerdict::kLeased}},
                           0};
  ExpectReply(MessageType::kRelease, OkStatus(), reply, 17, kReleaseReplyFrame, "release-reply");
}

TEST(GoldenFrames, ErrorReply) {
  ExpectReply(MessageType::kGrant, ResourceExhausted("pool is full"), Reply(), 4, kErrorReplyFrame,
              "error-reply");
}

}  // namespace
}  // namespace maru::wire
