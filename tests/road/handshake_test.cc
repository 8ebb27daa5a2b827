// The one question that a client asks a metadata endpoint: of libzmq's ROUTER as the server has it,
// and of peers that are none.
#include "client/handshake.h"

#include <gmock/gmock.h>
#include <zmq.h>

#include <array>
#include <functional>
#include <thread>

#include "base/bytes.h"
#include "os/event.h"
#include "os/tcp_socket.h"
#include "os/test_host.h"
#include "router.h"
#include "wire/compat/metadata_codec.h"

namespace maru::client {
namespace {

using testing::HasSubstr;
using wire::compat::HandshakeReply;

constexpr uint32_t kLongMs = 60'000;
constexpr uint32_t kShortMs = 50;

ServerAddress At(const std::string& url) { return ParseServer(url).value(); }
Result<HandshakeReply> Ask(const std::string& url, uint32_t timeout_ms = kLongMs) {
  return AskHandshake(At(url), timeout_ms);
}

// A peer of one connection, played by a function.
class Peer {
 public:
  using Play = std::function<void(os::TcpSocket&)>;
  explicit Peer(Play play) : play_(std::move(play)), thread_([this] { Run(); }) {}
  ~Peer() { thread_.join(); }

  std::string url() const { return "tcp://" + listener_.address().ToString(); }

  static Status Send(os::TcpSocket& socket, std::string_view text) {
    return socket.Write(AsBytes(text), os::Deadline::After(kLongMs));
  }
  static void ReadUntilEnd(os::TcpSocket& socket) {
    std::array<std::byte, 4096> buffer;
    while (socket.Read(buffer, os::Deadline::After(kLongMs)).ok()) {
    }
  }
  static Status ReadBytes(os::TcpSocket& socket, size_t count) {
    std::vector<std::byte> buffer(count);
    for (std::span<std::byte> left(buffer); !left.empty();) {
      MARU_ASSIGN_OR_RETURN(const size_t size, socket.Read(left, os::Deadline::After(kLongMs)));
      left = left.subspan(size);
    }
    return OkStatus();
  }

 private:
  void Run() {
    auto poller = os::Poller::Create();
    ASSERT_OK(poller->Add(listener_.fd(), os::Interest::kRead, 0));
    std::array<os::ReadyEvent, 1> events;
    ASSERT_OK(poller->Wait(events, -1));
    auto socket = listener_.TryAccept();
    ASSERT_OK(socket);
    play_(*socket);
  }

  const Play play_;
  os::TcpListener listener_ =
      os::TcpListener::Listen(*os::TcpAddress::Parse("127.0.0.1:0")).value();
  std::thread thread_;
};

// What libzmq sends, and how much it is sent.
constexpr std::string_view kGreeting(
    "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    64);
constexpr std::string_view kReady("\4\x1c\5READY\xbSocket-Type\0\0\0\6ROUTER", 30);
constexpr size_t kGreetingBytes = 64;
constexpr size_t kReadyBytes = 27;

// Greeting and READY; then the request has come.
Status OpenAsRouter(os::TcpSocket& socket) {
  MARU_RETURN_IF_ERROR(Peer::Send(socket, kGreeting));
  MARU_RETURN_IF_ERROR(Peer::ReadBytes(socket, kGreetingBytes));
  MARU_RETURN_IF_ERROR(Peer::Send(socket, kReady));
  return Peer::ReadBytes(socket, kReadyBytes + 2);
}

std::string FramesOf(const HandshakeReply& reply) {
  const auto message = wire::compat::EncodeMetadataReply({0xFE, 0, 1}, reply);
  return std::string("\1\0\0", 3) + static_cast<char>(message.size()) +
         std::string(AsText(message));
}

TEST(EndpointHandshake, ARouterIsAskedByNumberAndByName) {
  Router router;
  router.Tell({.server_version = "1.2.3", .local_road = wire::compat::LocalRoad{.host = "here"}});
  // The second form is a name for the C library, which finds it without asking anybody.
  for (const std::string host : {"127.0.0.1", "127.1", "localhost"}) {
    ASSERT_OK_AND_ASSIGN(const HandshakeReply reply, Ask("tcp://" + host + ":" + router.port()));
    EXPECT_EQ(reply.server_version, "1.2.3");
    EXPECT_EQ(reply.local_road->host, "here");
  }
  EXPECT_EQ(router.requests(), 3u);
}

TEST(EndpointHandshake, LocalhostIsBothOfItsAddresses) {
  if (!os::HasIpv6Loopback()) GTEST_SKIP() << "no IPv6";
  Router router("tcp://[::1]:0");
  EXPECT_OK(Ask("tcp://[::1]:" + router.port()));
  EXPECT_OK(Ask("tcp://localhost:" + router.port()));
}

TEST(EndpointHandshake, ALongAnswerIsOne) {
  Router router;
  router.Tell({.error = std::string(4000, 'e')});
  EXPECT_EQ(Ask(router.address())->error.size(), 4000u);
}

TEST(EndpointHandshake, ManyAskAtOnce) {
  Router router;
  router.Tell({.server_version = "1"});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n) EXPECT_OK(Ask(router.address()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(router.requests(), 160u);
}

TEST(EndpointHandshake, NobodyThereIsToldAtOnce) {
  std::string url;
  {
    url = Router().address();
  }
  const Status status = Ask(url).status();
  EXPECT_CODE(status, kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no server listens at " + url));
  EXPECT_THAT(std::string(status.message()), HasSubstr("maru serve"));
  // No name of DNS, whose labels have 63 bytes at most: the C library asks no server.
  EXPECT_CODE(Ask("tcp://" + std::string(64, 'n') + ":1"), kUnavailable);
}

// A slow peer is as good as any: each byte in a message of its own.
TEST(EndpointHandshake, BytesThatComeOneByOneAreAnAnswer) {
  Peer peer([](os::TcpSocket& socket) {
    for (const char& byte : kGreeting) EXPECT_OK(Peer::Send(socket, {&byte, 1}));
    EXPECT_OK(Peer::ReadBytes(socket, kGreetingBytes));
    const std::string rest = std::string(kReady) + FramesOf({.server_version = "slow"});
    for (const char& byte : rest) EXPECT_OK(Peer::Send(socket, {&byte, 1}));
    Peer::ReadUntilEnd(socket);
  });
  ASSERT_OK_AND_ASSIGN(const HandshakeReply reply, Ask(peer.url()));
  EXPECT_EQ(reply.server_version, "slow");
}

TEST(EndpointHandshake, APeerThatClosesIsUnavailable) {
  const std::vector<Peer::Play> plays = {
      [](os::TcpSocket&) {},
      [](os::TcpSocket& socket) { EXPECT_OK(Peer::Send(socket, kGreeting.substr(0, 11))); },
      [](os::TcpSocket& socket) {
        EXPECT_OK(Peer::Send(socket, kGreeting));
        EXPECT_OK(Peer::ReadBytes(socket, kGreetingBytes));
      },
      [](os::TcpSocket& socket) { EXPECT_OK(OpenAsRouter(socket)); },
      [](os::TcpSocket& socket) {
        EXPECT_OK(OpenAsRouter(socket));
        EXPECT_OK(Peer::Send(socket, FramesOf({.server_version = "cut"}).substr(0, 20)));
      },
  };
  for (const Peer::Play& play : plays) {
    Peer peer(play);
    const Status status = Ask(peer.url()).status();
    EXPECT_CODE(status, kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr(peer.url() + " has closed"));
  }
}

TEST(EndpointHandshake, APeerThatSpeaksSomethingElseIsNoServer) {
  const std::vector<std::pair<std::string, std::string>> said = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "its first byte is 0x48"},
      {std::string("\xff\0\0\0\0\0\0\0\1\x7f\1\3\0\0", 14), "version 1 of ZeroMQ's protocol"},
      {std::string("\1\0", 2), "its first byte is 0x01"},
      {std::string(200, '\xff'), "byte 9 is 0xff"},
      {std::string(kGreeting) + std::string("\0\5hello", 7), "before READY"},
      {std::string(kGreeting) + std::string(kReady) + "\1\1x", "an empty part"},
      {std::string(kGreeting) + std::string(kReady) + std::string("\1\0\0\4junk", 8),
       "shorter than a header"},
  };
  for (const auto& [bytes, why] : said) {
    Peer peer([&spoken = bytes](os::TcpSocket& socket) {
      EXPECT_OK(Peer::Send(socket, spoken));
      Peer::ReadUntilEnd(socket);
    });
    const Status status = Ask(peer.url()).status();
    EXPECT_CODE(status, kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not a Maru server: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

// The client may be gone at any point of a play.
TEST(EndpointHandshake, APeerThatDoesNotAnswerCostsTheTimeAndNoMore) {
  const std::vector<Peer::Play> plays = {
      [](os::TcpSocket& socket) { Peer::ReadUntilEnd(socket); },
      [](os::TcpSocket& socket) {
        if (Peer::Send(socket, kGreeting.substr(0, 63)).ok()) Peer::ReadUntilEnd(socket);
      },
      [](os::TcpSocket& socket) {
        if (!OpenAsRouter(socket).ok()) return;
        if (!Peer::Send(socket, std::string_view("\4\5\4PING", 7)).ok()) return;
        Peer::ReadUntilEnd(socket);
      },
  };
  for (const Peer::Play& play : plays) {
    Peer peer(play);
    const Status status = Ask(peer.url(), kShortMs).status();
    EXPECT_CODE(status, kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()), HasSubstr("within 50 ms"));
  }
}

// Sockets of libzmq that are not what they should be.
class ZmqSocket {
 public:
  ZmqSocket(int type, int plain_server) : socket_(zmq_socket(context_, type)) {
    zmq_setsockopt(socket_, ZMQ_PLAIN_SERVER, &plain_server, sizeof(plain_server));
    EXPECT_EQ(zmq_bind(socket_, "tcp://127.0.0.1:*"), 0);
  }
  ~ZmqSocket() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  std::string url() const {
    std::array<char, 128> name{};
    size_t size = name.size();
    EXPECT_EQ(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, name.data(), &size), 0);
    return name.data();
  }
  void* get() { return socket_; }

 private:
  void* const context_ = zmq_ctx_new();
  void* const socket_;
};

TEST(EndpointHandshake, ARouterThatNobodyReadsDoesNotAnswer) {
  const ZmqSocket router(ZMQ_ROUTER, 0);
  EXPECT_CODE(Ask(router.url(), kShortMs), kDeadlineExceeded);
}

// It closes the connection, before or after it has said which mechanism it wants.
TEST(EndpointHandshake, ARouterThatWantsAPasswordIsNoServer) {
  const ZmqSocket router(ZMQ_ROUTER, 1);
  const Status status = Ask(router.url()).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("what listens at " + router.url()));
}

TEST(EndpointHandshake, ARepSocketMayAnswerAsWell) {
  ZmqSocket rep(ZMQ_REP, 0);
  std::thread server([&] {
    std::array<char, 256> request;
    EXPECT_GT(zmq_recv(rep.get(), request.data(), request.size(), 0), 0);
    const auto reply =
        wire::compat::EncodeMetadataReply({0xFE, 0, 1}, HandshakeReply{.server_version = "rep"});
    EXPECT_GT(zmq_send(rep.get(), reply.data(), reply.size(), 0), 0);
  });
  EXPECT_EQ(Ask(rep.url())->server_version, "rep");
  server.join();
}

}  // namespace
}  // namespace maru::client
