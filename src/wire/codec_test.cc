#include "wire/codec.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/testing.h"
#include "wire/golden_frames_test.h"
#include "wire/golden_messages_test.h"
#include "wire/names.h"
#include "wire/visitors_test.h"

namespace maru::wire {
namespace {

using layout::Bytes;
using layout::FromDump;
using ::testing::HasSubstr;

constexpr size_t kHeader = sizeof(layout::FrameHeader);

constexpr const char* kRequestFrames[] = {
    kAttachRequestFrame,   kGrantRequestFrame,      kRegisterRequestFrame, kSettleRequestFrame,
    kGiveBackRequestFrame, kFreeRequestFrame,       kResolveRequestFrame,  kFindRequestFrame,
    kDeleteRequestFrame,   kGrowLeasesRequestFrame, kPingRequestFrame,     kInspectRequestFrame,
    kListRequestFrame,     kAuditRequestFrame,      kUnpinRequestFrame,    kReleaseRequestFrame};
constexpr const char* kReplyFrames[] = {
    kAttachReplyFrame,   kGrantReplyFrame,      kRegisterReplyFrame, kSettleReplyFrame,
    kGiveBackReplyFrame, kFreeReplyFrame,       kResolveReplyFrame,  kFindReplyFrame,
    kDeleteReplyFrame,   kGrowLeasesReplyFrame, kPingReplyFrame,     kInspectReplyFrame,
    kListReplyFrame,     kAuditReplyFrame,      kUnpinReplyFrame,    kReleaseReplyFrame};

template <typename Variant>
std::string ShowAll(const Variant& message) {
  Show show;
  std::visit([&](const auto& m) { Walk(show, m); }, message);
  return layout::Concat(message.index(), ":", show.text());
}

Bytes Encoded(const Request& request, RequestNumber number = RequestNumber(1)) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto size = EncodeRequest(request, number, Epoch(5), buffer);
  EXPECT_TRUE(size.ok()) << size.status().ToString();
  buffer.resize(size.value_or(0u));
  return buffer;
}

Bytes Encoded(const Reply& reply, RequestNumber number = RequestNumber(1)) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto size = EncodeReply(TypeOf(reply), OkStatus(), reply, number, Epoch(5), buffer);
  EXPECT_TRUE(size.ok()) << size.status().ToString();
  buffer.resize(size.value_or(0u));
  return buffer;
}

Status Decode(std::span<const std::byte> frame, Request* request) {
  // In room of exactly its size, so that the address sanitizer sees a read beyond it.
  const Bytes exact(frame.begin(), frame.end());
  layout::FrameHeader header;
  return Decoder().DecodeRequest(exact, &header, request);
}

Status Decode(std::span<const std::byte> frame, Reply* reply) {
  const Bytes exact(frame.begin(), frame.end());
  layout::FrameHeader header;
  Status server;
  return Decoder().DecodeReply(exact, &header, &server, reply);
}

// The payload cut or lengthened, with a header that agrees.
Bytes Resized(Bytes frame, size_t size) {
  frame.resize(size, std::byte{1});
  const auto payload = static_cast<uint32_t>(size - kHeader);
  std::memcpy(frame.data() + offsetof(layout::FrameHeader, payload_bytes), &payload, 4);
  return frame;
}

template <typename Variant, size_t kIndex = 1>
void RoundTripEach(Random& random, Decoder& decoder, Variant& kept) {
  if constexpr (kIndex < std::variant_size_v<Variant>) {
    RandomFill fill(random);
    Variant message;
    Walk(fill, message.template emplace<kIndex>());
    const RequestNumber number(random());
    const Bytes frame = Encoded(message, number);
    layout::FrameHeader header;
    Status status, server;
    if constexpr (std::is_same_v<Variant, Request>) {
      status = decoder.DecodeRequest(frame, &header, &kept);
    } else {
      status = decoder.DecodeReply(frame, &header, &server, &kept);
    }
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_TRUE(server.ok());
    ASSERT_EQ(header.request_number, number.value());
    ASSERT_EQ(header.epoch, 5u);
    ASSERT_EQ(ShowAll(kept), ShowAll(message));
    RoundTripEach<Variant, kIndex + 1>(random, decoder, kept);
  }
}

TEST(Codec, EveryMessageComesBackAsItWas) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  Decoder decoder;
  Request request;
  Reply reply;
  for (int round = 0; round < 300 && !HasFatalFailure(); ++round) {
    RoundTripEach<Request>(random, decoder, request);
    RoundTripEach<Reply>(random, decoder, reply);
  }
}

TEST(Codec, AnErrorReplyCarriesItsTextAndNoMessage) {
  Bytes buffer(layout::kFrameBytesMax);
  const Status error = ResourceExhausted("pool is full");
  const auto size =
      EncodeReply(MessageType::kGrant, error, Reply(), RequestNumber(4), Epoch(5), buffer);
  ASSERT_TRUE(size.ok());
  layout::FrameHeader header;
  Status server;
  Reply reply = GrantReply{};
  ASSERT_TRUE(Decoder().DecodeReply(std::span(buffer).first(*size), &header, &server, &reply).ok());
  EXPECT_EQ(server, error);
  EXPECT_EQ(reply.index(), 0u);
  EXPECT_EQ(header.type & ~layout::kReplyBit, static_cast<int>(MessageType::kGrant));
}

TEST(Codec, ALongErrorTextIsCut) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto size = EncodeReply(MessageType::kPing, Internal(std::string(10'000, 'x')), Reply(),
                                RequestNumber(4), Epoch(5), buffer);
  ASSERT_TRUE(size.ok());
  layout::FrameHeader header;
  Status server;
  Reply reply;
  ASSERT_TRUE(Decoder().DecodeReply(std::span(buffer).first(*size), &header, &server, &reply).ok());
  EXPECT_EQ(server, Internal(std::string(kStatusTextBytesMax, 'x')));
  const Bytes longer = Resized({buffer.begin(), buffer.begin() + *size}, *size + 1);
  EXPECT_THAT(std::string(Decode(longer, &reply).message()), HasSubstr("text has 4097 bytes"));
}

TEST(Codec, EveryTruncationIsRefused) {
  Request request;
  Reply reply;
  for (const char* dump : kRequestFrames) {
    const Bytes frame = FromDump(dump);
    ASSERT_TRUE(Decode(frame, &request).ok());
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_EQ(Decode(std::span(frame).first(size), &request).code(), StatusCode::kDataLoss);
      EXPECT_EQ(request.index(), 0u);
      if (size < kHeader) continue;
      EXPECT_EQ(Decode(Resized(frame, size), &request).code(), StatusCode::kDataLoss) << size;
    }
  }
  for (const char* dump : kReplyFrames) {
    const Bytes frame = FromDump(dump);
    ASSERT_TRUE(Decode(frame, &reply).ok());
    for (size_t size = 0; size < frame.size(); ++size) {
      EXPECT_EQ(Decode(std::span(frame).first(size), &reply).code(), StatusCode::kDataLoss);
      EXPECT_EQ(reply.index(), 0u);
      if (size < kHeader) continue;
      EXPECT_EQ(Decode(Resized(frame, size), &reply).code(), StatusCode::kDataLoss) << size;
    }
  }
}

TEST(Codec, BytesBehindTheLastFieldAreRefused) {
  Request request;
  for (const char* dump : kRequestFrames) {
    const Bytes frame = FromDump(dump);
    const Status status = Decode(Resized(frame, frame.size() + 1), &request);
    EXPECT_THAT(std::string(status.message()), HasSubstr("1 bytes follow the last field"));
  }
  Bytes large(layout::kFrameBytesMax + 1);
  EXPECT_THAT(std::string(Decode(large, &request).message()), HasSubstr("131073 bytes"));
}

// Flips each bit; what still decodes is a frame that the encoder would make of it.
template <typename Variant>
void FlipEachBit(const Bytes& frame) {
  int decoded = 0;
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    Bytes bytes = frame;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    Variant message;
    const Bytes exact = bytes;
    layout::FrameHeader header;
    Status status, server;
    Decoder decoder;
    if constexpr (std::is_same_v<Variant, Request>) {
      status = decoder.DecodeRequest(exact, &header, &message);
    } else {
      status = decoder.DecodeReply(exact, &header, &server, &message);
    }
    if (!status.ok()) {
      ASSERT_EQ(status.code(), StatusCode::kDataLoss);
      continue;
    }
    if (!server.ok()) continue;  // the status was flipped, so the payload is an error's text
    const auto* attach = std::get_if<1>(&message);
    if constexpr (std::is_same_v<Variant, Request>) {
      if (attach != nullptr && attach->protocol_version != layout::kProtocolVersion) continue;
    }
    ++decoded;
    bytes = Encoded(message, RequestNumber(header.request_number));
    std::memcpy(bytes.data() + offsetof(layout::FrameHeader, epoch), &header.epoch, 8);
    ASSERT_EQ(bytes, exact) << "bit " << bit;
  }
  EXPECT_GT(decoded, 100);
}

TEST(Codec, AFlippedBitIsRefusedOrAnotherMessage) {
  for (const char* dump : kRequestFrames) FlipEachBit<Request>(FromDump(dump));
  for (const char* dump : kReplyFrames) FlipEachBit<Reply>(FromDump(dump));
}

TEST(Codec, BrokenHeadersAreNamed) {
  const auto broken = [](size_t offset, uint8_t value) {
    Bytes frame = FromDump(kGrantRequestFrame);
    frame[offset] = std::byte{value};
    Request request;
    return std::string(Decode(frame, &request).message());
  };
  EXPECT_THAT(broken(0, 0), HasSubstr("magic is 0x55524100, expected 0x5552414d"));
  EXPECT_THAT(broken(4, 0), HasSubstr("type 0 is unknown"));
  EXPECT_THAT(broken(4, 17), HasSubstr("type 17 is unknown"));
  EXPECT_THAT(broken(5, 0x80), HasSubstr("a reply where a request belongs"));
  EXPECT_THAT(broken(6, 1), HasSubstr("grant request: status is 1, expected 0"));
  EXPECT_THAT(broken(8, 11), HasSubstr("payload_bytes is 11, but 12 follow"));
  EXPECT_THAT(broken(11, 0xff), HasSubstr("grant request: payload_bytes is"));
  EXPECT_THAT(broken(12, 1), HasSubstr("grant request: reserved is 1, expected 0"));
  Bytes frame = FromDump(kErrorReplyFrame);
  frame[6] = std::byte{11};
  Reply reply;
  EXPECT_THAT(std::string(Decode(frame, &reply).message()),
              HasSubstr("grant reply: status is 11, expected 0 to 10"));
  EXPECT_THAT(std::string(Decode(FromDump(kGrantRequestFrame), &reply).message()),
              HasSubstr("a request where a reply belongs"));
}

TEST(Codec, BrokenFieldsAreNamedWithTheirValue) {
  const auto request = [](const char* dump, size_t offset, uint8_t value) {
    Bytes frame = FromDump(dump);
    frame[offset] = std::byte{value};
    Request message;
    return std::string(Decode(frame, &message).message());
  };
  const auto reply = [](const char* dump, size_t offset, uint8_t value) {
    Bytes frame = FromDump(dump);
    frame[offset] = std::byte{value};
    Reply message;
    return std::string(Decode(frame, &message).message());
  };
  EXPECT_THAT(request(kRegisterRequestFrame, 0x2d, 0x10),
              HasSubstr("register request: entries has 4098 items, at most 4096"));
  EXPECT_THAT(request(kRegisterRequestFrame, 0x2c, 3),
              HasSubstr("register request: entries has 3 items of 32 bytes or more, only 75 bytes "
                        "are left"));
  EXPECT_THAT(request(kRegisterRequestFrame, 0x30, 16),
              HasSubstr("register request: entries[0].page is in pool 16, expected 0 to 15"));
  EXPECT_THAT(request(kRegisterRequestFrame, 0x4e, 2),
              HasSubstr("register request: entries[0].key has 131083 bytes, at most 65536"));
  EXPECT_THAT(request(kRegisterRequestFrame, 0x4c, 0x30),
              HasSubstr("register request: entries[0].key takes 48 bytes, only 43 are left"));
  EXPECT_THAT(request(kAttachRequestFrame, 0x44, 64),
              HasSubstr("attach request: label has 64 bytes, at most 63"));
  EXPECT_THAT(request(kAttachRequestFrame, 0x51, 1),
              HasSubstr("attach request: name_space has 258 bytes, at most 255"));
  EXPECT_THAT(reply(kAttachReplyFrame, 0x26, 2),
              HasSubstr("attach reply: same_client is 2, expected 0 to 1"));
  EXPECT_THAT(reply(kAttachReplyFrame, 0x25, 4),
              HasSubstr("attach reply: slot is 1026, expected 0 to 1023"));
  EXPECT_THAT(reply(kAttachReplyFrame, 0x30, 17),
              HasSubstr("attach reply: pools has 17 items, at most 16"));
  EXPECT_THAT(reply(kAttachReplyFrame, 0x5f, 0x80),
              HasSubstr("attach reply: pools[0].lease_blocks[0].block is 2147483777"));
  EXPECT_THAT(reply(kRegisterReplyFrame, 0x24, 0),
              HasSubstr("register reply: items[0].outcome is 0, expected 1 to 4"));
  EXPECT_THAT(reply(kRegisterReplyFrame, 0x29, 5),
              HasSubstr("register reply: items[1].outcome is 5, expected 1 to 4"));
}

TEST(Codec, AttachOfAnotherProtocolTellsItsVersionsWhateverFollows) {
  Bytes frame = FromDump(kAttachRequestFrame);
  frame[0x20] = std::byte{2};
  frame[0x44] = std::byte{0xff};  // what is a label's length in this version
  Request request;
  ASSERT_TRUE(Decode(frame, &request).ok());
  const auto& attach = std::get<AttachRequest>(request);
  EXPECT_EQ(attach.protocol_version, 2u);
  EXPECT_EQ(attach.layout_version, 1u);
  EXPECT_EQ(attach.label, "");
}

TEST(Codec, TheEncoderRefusesWhatTheDecoderWould) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto refused = [&](const Request& request, const char* part) {
    const auto size = EncodeRequest(request, RequestNumber(1), Epoch(1), buffer);
    EXPECT_EQ(size.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(size.status().message()), HasSubstr(part));
  };
  const auto reply_refused = [&](MessageType type, const Reply& reply, const char* part) {
    const auto size = EncodeReply(type, OkStatus(), reply, RequestNumber(1), Epoch(1), buffer);
    EXPECT_EQ(size.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(size.status().message()), HasSubstr(part));
  };
  const std::string long_key(layout::kKeyBytesMax + 1, 'k');
  refused(Request(), "without a message");
  refused(FindRequest{{long_key}}, "find request: key has 65537 bytes, at most 65536");
  refused(FindRequest{std::vector<std::string_view>(4097)}, "keys has 4097 items, at most 4096");
  refused(ResolveRequest{std::vector<PageRef>(8193)}, "pages has 8193 items, at most 8192");
  refused(FreeRequest{{PoolIndex(16), {}, {}}}, "page is 16, expected 0 to 15");
  refused(InspectRequest{static_cast<InspectTopic>(0), 0}, "topic is 0, expected 1 to 4");
  const std::string key(layout::kKeyBytesMax, 'k');
  refused(DeleteRequest{{key, key}}, "delete request: a frame of 131116 bytes, at most 131072");
  reply_refused(MessageType::kGrowLeases, GrowLeasesReply{{4096}}, "at offset 4096 is no lease");
  reply_refused(MessageType::kGrowLeases, GrantReply{}, "holds the message of type 3");
  reply_refused(static_cast<MessageType>(17), GrantReply{}, "type 17");
  const auto size =
      EncodeRequest(PingRequest{}, RequestNumber(1), Epoch(1), std::span(buffer).first(31));
  EXPECT_THAT(std::string(size.status().message()), HasSubstr("32 bytes, at most 31"));
}

TEST(Codec, TheLargestMessagesFitIntoAFrame) {
  const PageRef page{PoolIndex(15), RecordNumber(~0u), Generation(~0u)};
  RegisterReply registered;
  registered.items.resize(kKeysPerMessageMax);
  registered.refill.assign(kPagesPerMessageMax, page);
  Reply reply;
  EXPECT_TRUE(Decode(Encoded(Reply(registered)), &reply).ok());
  AttachReply attached;
  attached.pools.resize(layout::kPoolsMax);
  for (AttachedPool& pool : attached.pools) {
    pool.lease_blocks.assign(kLeaseBlocksPerAttachMax / layout::kPoolsMax,
                             layout::kPoolBytesMax - layout::kLeaseBlockBytes);
  }
  EXPECT_TRUE(Decode(Encoded(Reply(attached)), &reply).ok());
  EXPECT_EQ(std::get<AttachReply>(reply).pools[15].lease_blocks.back(),
            layout::kPoolBytesMax - layout::kLeaseBlockBytes);
  EXPECT_TRUE(
      Decode(Encoded(Reply(InspectReply{std::string(kJsonBytesMax, 'j'), 1})), &reply).ok());
  Request request;
  EXPECT_TRUE(
      Decode(Encoded(Request(SettleRequest{true, std::vector<PageRef>(kPagesPerMessageMax, page)})),
             &request)
          .ok());
}

TEST(Codec, WhatFitsIsSentAndOneMoreIsNot) {
  Bytes buffer(layout::kFrameBytesMax);
  const auto fits = [&](const Request& request) {
    return EncodeRequest(request, RequestNumber(1), Epoch(1), buffer).ok();
  };
  for (const size_t key_bytes : {0, 1, 100, 1000, 30'000, 65'536}) {
    const std::string key(key_bytes, 'k');
    const std::vector<RegisterEntry> entries(5000, RegisterEntry{{}, 1, 1, key});
    const size_t count = EntriesThatFit(entries);
    ASSERT_GE(count, 1u);
    const auto first = [&](size_t n) {
      return RegisterRequest{{entries.begin(), entries.begin() + static_cast<long>(n)}, 0, 0};
    };
    EXPECT_TRUE(fits(first(count))) << key_bytes;
    EXPECT_FALSE(fits(first(count + 1))) << key_bytes;
    const std::vector<std::string_view> keys(5000, key);
    const size_t some = KeysThatFit(keys);
    EXPECT_TRUE(fits(FindRequest{{keys.begin(), keys.begin() + static_cast<long>(some)}}));
    EXPECT_FALSE(fits(FindRequest{{keys.begin(), keys.begin() + static_cast<long>(some) + 1}}));
  }
  EXPECT_EQ(EntriesThatFit({}), 0u);
  EXPECT_EQ(KeysThatFit(std::vector<std::string_view>(3)), 3u);
}

TEST(Codec, ADecoderUsesTheRoomOfItsListsAgain) {
  const std::string key(100, 'k');
  const Bytes many = Encoded(
      Request(RegisterRequest{std::vector<RegisterEntry>(64, RegisterEntry{{}, 1, 1, key}), 0, 0}));
  const Bytes few = Encoded(Request(RegisterRequest{{RegisterEntry{{}, 1, 1, key}}, 0, 0}));
  const Bytes other = Encoded(Request(FindRequest{{key}}));
  Decoder decoder;
  layout::FrameHeader header;
  Request request;
  ASSERT_TRUE(decoder.DecodeRequest(many, &header, &request).ok());
  const auto entries = [&]() -> auto& { return std::get<RegisterRequest>(request).entries; };
  const RegisterEntry* const room = entries().data();
  for (const Bytes* frame : {&few, &other, &few}) {
    ASSERT_TRUE(decoder.DecodeRequest(*frame, &header, &request).ok());
  }
  EXPECT_EQ(entries().data(), room);
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_GE(entries().capacity(), 64u);
  EXPECT_FALSE(decoder.DecodeRequest(std::span(many).first(200), &header, &request).ok());
  EXPECT_EQ(request.index(), 0u);
  ASSERT_TRUE(decoder.DecodeRequest(few, &header, &request).ok());
  EXPECT_GE(entries().capacity(), 64u);
}

TEST(Names, EveryMessageHasOne) {
  for (size_t type = 1; type < std::variant_size_v<Request>; ++type) {
    EXPECT_NE(MessageTypeName(static_cast<MessageType>(type)), "unknown");
  }
  EXPECT_EQ(MessageTypeName(static_cast<MessageType>(17)), "unknown");
  EXPECT_EQ(RegisterOutcomeName(RegisterOutcome::kRejected), "rejected");
  EXPECT_EQ(SettleVerdictName(SettleVerdict::kGone), "gone");
  EXPECT_EQ(DeleteOutcomeName(DeleteOutcome::kPinned), "pinned");
  EXPECT_EQ(FreeOutcomeName(FreeOutcome::kStale), "stale");
  EXPECT_EQ(InspectTopicName(InspectTopic::kCondemned), "condemned");
}

}  // namespace
}  // namespace maru::wire
