#include "wire/compat/zmtp.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/testing.h"
#include "layout/golden_test.h"

namespace maru::wire::compat {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Example(const char* name) {
  return layout::FromDump(layout::DumpOnPage("upstream_metadata.md", name));
}
const Bytes& PeerGreeting() {
  static const Bytes bytes = Example("zmtp-peer-greeting");
  return bytes;
}
const Bytes& PeerReady() {
  static const Bytes bytes = Example("zmtp-peer-ready");
  return bytes;
}

Bytes Join(std::initializer_list<Bytes> parts) {
  Bytes whole;
  for (const Bytes& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}
Bytes Of(std::string_view text) {
  const auto bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}
Bytes Raw(std::initializer_list<int> bytes) {
  Bytes out;
  for (const int byte : bytes) out.push_back(static_cast<std::byte>(byte));
  return out;
}
Bytes Frame(int flags, const Bytes& body) {
  return Join({Raw({flags, static_cast<int>(body.size())}), body});
}
Bytes Reply(const Bytes& body) { return Join({Frame(1, {}), Frame(0, body)}); }

// Why no reply comes of what the peer sends; "" when there is none yet, or one.
std::string Refusal(const Bytes& incoming) {
  ZmtpExchange exchange({});
  const Status status = exchange.Feed(incoming);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kDataLoss) << status.ToString();
  return std::string(status.message());
}
std::string RefusalOfFrames(const Bytes& frames) { return Refusal(Join({PeerGreeting(), frames})); }
std::string RefusalOfReply(const Bytes& frames) {
  return RefusalOfFrames(Join({PeerReady(), frames}));
}

TEST(GoldenZmtp, EachTurnIsThatOfThePage) {
  const Bytes request = Example("handshake-request");
  ZmtpExchange exchange(request);
  const auto sent = [&] { return layout::ToDump(exchange.TakeOutgoing()); };
  EXPECT_EQ(sent(), layout::ToDump(Example("zmtp-greeting")));
  EXPECT_TRUE(exchange.TakeOutgoing().empty()) << "each is told once";
  ASSERT_OK(exchange.Feed(PeerGreeting()));
  EXPECT_EQ(sent(), layout::ToDump(Example("zmtp-ready")));
  ASSERT_OK(exchange.Feed(PeerReady()));
  const Bytes envelope = Example("zmtp-request-envelope");
  EXPECT_EQ(sent(), layout::ToDump(Join({envelope, request})));
  EXPECT_FALSE(exchange.done());
  ASSERT_OK(exchange.Feed(Reply(Of("answer"))));
  ASSERT_TRUE(exchange.done());
  EXPECT_EQ(AsText(exchange.reply()), "answer");
  EXPECT_TRUE(exchange.TakeOutgoing().empty());
}

TEST(Zmtp, PiecesOfAnySizeAreTheSame) {
  const Bytes whole = Join({PeerGreeting(), PeerReady(), Frame(4, Of("\4PING")),
                            Reply(Of("answer")), Of("what follows")});
  for (size_t piece = 1; piece <= whole.size(); ++piece) {
    ZmtpExchange exchange({});
    for (size_t at = 0; at < whole.size(); at += piece) {
      ASSERT_OK(exchange.Feed(std::span(whole).subspan(at, std::min(piece, whole.size() - at))));
    }
    ASSERT_TRUE(exchange.done()) << piece;
    EXPECT_EQ(AsText(exchange.reply()), "answer");
  }
}

TEST(Zmtp, LongFramesGoBothWays) {
  const Bytes request(70'000, std::byte{7});
  ZmtpExchange exchange(request);
  ASSERT_OK(exchange.Feed(PeerGreeting()));
  exchange.TakeOutgoing();
  ASSERT_OK(exchange.Feed(PeerReady()));
  const Bytes sent = exchange.TakeOutgoing();
  EXPECT_EQ(sent, Join({Frame(1, {}), Raw({2, 0, 0, 0, 0, 0, 1, 0x11, 0x70}), request}));
  const Bytes reply(0x10000, std::byte{9});
  ASSERT_OK(exchange.Feed(Join({Frame(1, {}), Raw({2, 0, 0, 0, 0, 0, 1, 0, 0}), reply})));
  ASSERT_TRUE(exchange.done());
  EXPECT_EQ(Bytes(exchange.reply().begin(), exchange.reply().end()), reply);
}

TEST(Zmtp, APeerOfSomethingElseIsNamedAtItsFirstBytes) {
  EXPECT_EQ(Refusal(Of("H")),
            "it does not speak ZeroMQ 4's protocol: its first byte is 0x48, expected 0xff");
  EXPECT_EQ(Refusal(Raw({1, 0})),
            "it does not speak ZeroMQ 4's protocol: its first byte is 0x01, expected 0xff");
  Bytes greeting = PeerGreeting();
  greeting[9] = std::byte{0x7e};
  greeting.resize(10);
  EXPECT_EQ(Refusal(greeting),
            "it does not speak ZeroMQ 4's protocol: byte 9 is 0x7e, expected 0x7f");
  greeting[9] = std::byte{0x7f};
  for (const int version : {0, 1, 2}) {
    EXPECT_EQ(Refusal(Join({greeting, Raw({version})})),
              "it speaks version " + std::to_string(version) +
                  " of ZeroMQ's protocol, that of an old ZeroMQ; version 3 is needed");
  }
  EXPECT_EQ(Refusal(Join({greeting, Raw({4})})), "") << "a newer one answers as of 3";
  Bytes plain = PeerGreeting();
  plain[12] = std::byte{'P'};
  EXPECT_EQ(Refusal(plain), "it wants the security mechanism PULL, not NULL");
  Bytes longer = PeerGreeting();
  longer[16] = std::byte{'\n'};
  EXPECT_EQ(Refusal(longer), "it wants the security mechanism NULL?, not NULL");
}

TEST(Zmtp, AnotherSocketOrARefusalIsNamed) {
  const auto ready = [](const Bytes& properties) {
    return RefusalOfFrames(Frame(4, Join({Of("\5READY"), properties})));
  };
  const Bytes type = Of("\xbsocket-TYPE");
  EXPECT_EQ(ready(Join({type, Raw({0, 0, 0, 3}), Of("REP")})), "") << "names have no case";
  EXPECT_EQ(ready(Join({type, Raw({0, 0, 0, 3}), Of("PUB")})),
            "its socket is of type \"PUB\", expected ROUTER");
  EXPECT_EQ(ready({}), "its socket is of type \"\", expected ROUTER");
  EXPECT_EQ(ready(Join({type, Raw({0, 0, 0, 4}), Of("REP")})), "its READY is cut off");
  EXPECT_EQ(ready(Raw({9})), "its READY is cut off");
  EXPECT_EQ(RefusalOfFrames(Frame(4, Of("\5ERROR\4busy"))), "it refuses the connection: busy");
  EXPECT_EQ(RefusalOfFrames(Frame(4, Of("\5ERROR\4bus"))),
            "its first command is \"ERROR\", expected READY");
  EXPECT_EQ(RefusalOfFrames(Frame(4, Of("\5HELLO"))),
            "its first command is \"HELLO\", expected READY");
  EXPECT_EQ(RefusalOfFrames(Frame(4, {})), "a command is cut off");
  EXPECT_EQ(RefusalOfFrames(Frame(0, Of("early"))), "it sends a message before READY");
}

TEST(Zmtp, FramesBeyondTheRulesAreRefusedBeforeTheyAreKept) {
  for (const int flags : {8, 0x80, 4 + 1}) {
    EXPECT_NE(RefusalOfReply(Raw({flags})).find("a frame has the flags"), std::string::npos);
  }
  EXPECT_EQ(RefusalOfReply(Raw({2, 0, 0, 0, 0, 0, 0x10, 0, 1})),
            "a message has 1048577 bytes, at most 1048576");
  EXPECT_EQ(RefusalOfReply(Join({Raw({2}), Bytes(8, std::byte{0xff})})),
            "a message has 18446744073709551615 bytes, at most 1048576");
  EXPECT_EQ(RefusalOfReply(Raw({6, 0, 0, 0, 0, 0, 0, 0x10, 1})),
            "a command has 4097 bytes, at most 4096");
  EXPECT_EQ(RefusalOfReply(Frame(0, Of("x"))), "its reply does not begin with an empty part");
  EXPECT_EQ(RefusalOfReply(Frame(1, Of("x"))), "its reply does not begin with an empty part");
  EXPECT_EQ(RefusalOfReply(Frame(0, {})), "its reply does not begin with an empty part");
  EXPECT_EQ(RefusalOfReply(Join({Frame(1, {}), Frame(1, Of("x"))})),
            "its reply has more parts than one");
  Bytes pings;
  for (uint32_t i = 0; i < kZmtpCommandsMax; ++i) pings = Join({pings, Frame(4, Of("\4PING"))});
  EXPECT_EQ(RefusalOfReply(pings), "");
  EXPECT_EQ(RefusalOfReply(Join({pings, Frame(4, Of("\4PING"))})),
            "it sent more than 16 commands and no reply");
}

}  // namespace
}  // namespace maru::wire::compat
