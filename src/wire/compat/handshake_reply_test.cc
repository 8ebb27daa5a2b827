// What a handler of ours reads of a HANDSHAKE reply, ours and any other server's.
#include <gtest/gtest.h>

#include <string>

#include "base/bytes.h"
#include "base/testing.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/test_upstream.h"

namespace maru::wire::compat {
namespace {

constexpr uint8_t kHandshake = 0xFE;
constexpr uint32_t kSequence = 7;
const LocalRoad kRoad{"/run/maru.sock", "@maru-x", "host/boot", "uuid", "tcp://127.0.0.1:5556"};

std::string Refusal(const Bytes& message) {
  HandshakeReply reply{.server_version = "left over", .local_road = kRoad};
  const Status status = DecodeHandshakeReply(message, kSequence, &reply);
  EXPECT_CODE(status, kDataLoss);
  EXPECT_FALSE(reply.local_road.has_value());
  EXPECT_EQ(reply.server_version, "");
  return std::string(status.message());
}

template <typename Write>
Bytes Reply(Write&& write) {
  Bytes payload;
  MsgpackWriter out(&payload);
  write(out);
  return Message(kHandshake, kSequence, payload);
}

// A reply whose `maru` has these pairs of texts.
Bytes WithRoad(const std::vector<std::pair<std::string, std::string>>& pairs) {
  return Reply([&](MsgpackWriter& out) {
    out.Map(1);
    out.Text("maru");
    out.Map(static_cast<uint32_t>(pairs.size()));
    for (const auto& [name, value] : pairs) {
      out.Text(name);
      out.Text(value);
    }
  });
}

HandshakeReply Decoded(const Bytes& message) {
  HandshakeReply reply;
  EXPECT_OK(DecodeHandshakeReply(message, kSequence, &reply));
  return reply;
}

TEST(HandshakeReply, WhatTheServerEncodesIsReadBack) {
  const HandshakeReply sent{"127.0.0.1:9850", "0.1.0", {"leases"}, 7, kRoad, ""};
  const HandshakeReply reply = Decoded(EncodeMetadataReply({kHandshake, 0, kSequence}, sent));
  EXPECT_EQ(reply.server_version, "0.1.0");
  ASSERT_TRUE(reply.local_road.has_value());
  EXPECT_EQ(*reply.local_road, kRoad);
  EXPECT_EQ(reply.error, "");
}

TEST(HandshakeReply, APathThatIsNoUtf8IsToldAsItIs) {
  LocalRoad road = kRoad;
  road.socket_path = "/run/\xFF/maru.sock";
  const Bytes message =
      EncodeMetadataReply({kHandshake, 0, kSequence}, HandshakeReply{"", "", {}, 7, road, ""});
  EXPECT_EQ(Decoded(message).local_road, road);
  // In bin, which readers of text that are strict take as well.
  EXPECT_NE(std::string(AsText(message)).find("socket\xC5"), std::string::npos);
}

TEST(HandshakeReply, AnotherServersHasNoRoad) {
  const HandshakeReply reply = Decoded(Reply([](MsgpackWriter& out) {
    out.Map(4);
    out.Text("server_version");
    out.Text("0.3.1");
    out.Text("success");
    out.Bool(true);
    out.Text("server_epoch");
    out.Real(1.5);  // not read, so of any kind
    out.Text("capabilities");
    out.Array(1);
    out.Map(0);
  }));
  EXPECT_FALSE(reply.local_road.has_value());
  EXPECT_EQ(reply.server_version, "0.3.1");
  EXPECT_EQ(reply.error, "");
}

TEST(HandshakeReply, AFailureHasAReason) {
  EXPECT_EQ(Decoded(EncodeMetadataReply({kHandshake, 0, kSequence}, ErrorReply{"full"})).error,
            "full");
  EXPECT_EQ(Decoded(Reply([](MsgpackWriter& out) {
              out.Map(1);
              out.Text("success");
              out.Bool(false);
            })).error,
            "no reason is told");
}

TEST(HandshakeReply, ARoadIsWholeOrRefused) {
  const std::vector<std::pair<std::string, std::string>> whole = {
      {"socket", "/s"}, {"abstract_name", ""}, {"host", "h"}, {"pool", "p"}, {"namespace", ""}};
  EXPECT_EQ(Decoded(WithRoad(whole)).local_road->host, "h");
  for (size_t missing = 0; missing < whole.size(); ++missing) {
    auto pairs = whole;
    pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(missing));
    EXPECT_EQ(Refusal(WithRoad(pairs)), "HANDSHAKE: maru." + whole[missing].first + " is missing");
  }
  auto longer = whole;
  longer[0].second = std::string(257, 's');
  EXPECT_EQ(Refusal(WithRoad(longer)), "HANDSHAKE: maru.socket has 257 bytes, at most 256");
  auto more = whole;
  for (int i = 0; i < 300; ++i) more.emplace_back("x", "");
  EXPECT_EQ(Refusal(WithRoad(more)), "HANDSHAKE: maru has 305 pairs, at most 256");
  EXPECT_EQ(Refusal(Reply([](MsgpackWriter& out) {
              out.Map(1);
              out.Text("maru");
              out.Array(0);
            })),
            "HANDSHAKE: maru is an array of 0, a map was expected");
}

TEST(HandshakeReply, AnotherMessageIsRefused) {
  const Bytes good = EncodeMetadataReply({kHandshake, 0, kSequence}, HandshakeReply{});
  HandshakeReply reply;
  EXPECT_OK(DecodeHandshakeReply(good, kSequence, &reply));
  EXPECT_EQ(Refusal({}), "a message of 0 bytes is shorter than a header, 16 bytes");
  EXPECT_EQ(Refusal(Message(0x92, kSequence, {})), "message type 0x92 answers HANDSHAKE");
  EXPECT_EQ(Refusal(Message(kHandshake, 8, {})), "the reply has the sequence number 8, expected 7");
  Bytes longer = good;
  longer.push_back({});
  EXPECT_NE(Refusal(longer).find("payload length"), std::string::npos);
}

}  // namespace
}  // namespace maru::wire::compat
