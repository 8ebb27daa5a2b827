#include "os/tcp_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/testing.h"
#include "os/event.h"
#include "os/test_host.h"

namespace maru::os {
namespace {

constexpr uint32_t kLongMs = 60'000;

void AwaitReadable(int fd) {
  Result<Poller> poller = Poller::Create();
  ASSERT_OK(poller->Add(fd, Interest::kRead, 0));
  std::array<ReadyEvent, 1> events;
  ASSERT_EQ(*poller->Wait(events, -1), 1u);
}

UniqueFd ConnectTo(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
  return fd;
}

TEST(TcpAddress, ReadsNumericAddresses) {
  const auto parsed = [](std::string_view text) { return TcpAddress::Parse(text)->ToString(); };
  EXPECT_EQ(parsed("127.0.0.1:9850"), "127.0.0.1:9850");
  EXPECT_EQ(parsed("localhost:0"), "127.0.0.1:0");
  EXPECT_EQ(parsed("[::1]:65535"), "[::1]:65535");
  EXPECT_EQ(parsed("*:5555"), "0.0.0.0:5555");
  EXPECT_TRUE(TcpAddress::Parse("127.9.9.9:1")->is_loopback());
  EXPECT_TRUE(TcpAddress::Parse("[::1]:1")->is_loopback());
  EXPECT_FALSE(TcpAddress::Parse("0.0.0.0:1")->is_loopback());
  EXPECT_FALSE(TcpAddress::Parse("[::]:1")->is_loopback());
}

TEST(TcpAddress, RefusesAnythingElse) {
  for (const char* text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:1x", "::1:80", "[::1]", "[127.0.0.1]:1", "host:1", "1.2.3:4",
                           "127.0.0.1:99999999999999999999"}) {
    EXPECT_CODE(TcpAddress::Parse(text), kInvalidArgument) << text;
  }
}

TEST(ForeignConnections, EndsAConnectionToThatPortAlone) {
  const auto listener = TcpListener::Listen(*TcpAddress::Parse("127.0.0.1:0"));
  ASSERT_OK(listener);
  const uint16_t port = listener->address().port();
  UniqueFd peer = ConnectTo(port);
  AwaitReadable(listener->fd());
  ASSERT_OK_AND_ASSIGN(TcpSocket accepted, listener->TryAccept());
  ASSERT_OK_AND_ASSIGN(const ForeignConnections foreign, ForeignConnections::Create());
  // Not the listener, not the other end, not another port, nothing else and nothing at all.
  const UniqueFd event(::dup(foreign.ShutDown(listener->fd(), port) ? -1 : peer.get()));
  EXPECT_TRUE(event.valid());
  EXPECT_FALSE(foreign.ShutDown(peer.get(), port));
  EXPECT_FALSE(foreign.ShutDown(accepted.fd(), static_cast<uint16_t>(port + 1)));
  EXPECT_FALSE(foreign.ShutDown(STDERR_FILENO, port));
  EXPECT_FALSE(foreign.ShutDown(-1, port));
  std::array<std::byte, 1> byte{};
  ASSERT_EQ(accepted.TryRead(byte)->outcome, IoOutcome::kWouldBlock);
  {
    const int lowest = UniqueFd(::dup(STDERR_FILENO)).get();
    const DescriptorLimit none(static_cast<rlim_t>(lowest));  // none is left
    EXPECT_TRUE(foreign.ShutDown(accepted.fd(), port));
  }
  EXPECT_EQ(::read(peer.get(), byte.data(), 1), 0);
  EXPECT_EQ(accepted.TryRead(byte)->outcome, IoOutcome::kClosed);
}

TEST(TcpSocket, CarriesBytesBothWaysAndTellsTheEnd) {
  ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                       TcpListener::Listen(*TcpAddress::Parse("127.0.0.1:0")));
  EXPECT_NE(listener.address().port(), 0);
  ASSERT_OK_AND_ASSIGN(const TcpSocket nobody, listener.TryAccept());
  EXPECT_FALSE(nobody.valid());
  UniqueFd peer = ConnectTo(listener.address().port());
  AwaitReadable(listener.fd());
  ASSERT_OK_AND_ASSIGN(TcpSocket socket, listener.TryAccept());
  ASSERT_TRUE(socket.valid());

  std::array<std::byte, 16> room;
  EXPECT_EQ(socket.TryRead(room)->outcome, IoOutcome::kWouldBlock);
  ASSERT_EQ(::send(peer.get(), "hello", 5, 0), 5);
  AwaitReadable(socket.fd());
  ASSERT_OK_AND_ASSIGN(const Received received, socket.TryRead(room));
  EXPECT_EQ(received.outcome, IoOutcome::kDone);
  EXPECT_EQ(AsText(std::span(room).first(received.size_bytes)), "hello");

  EXPECT_EQ(socket.TryWrite(AsBytes("answer"))->size_bytes, 6u);
  ASSERT_EQ(::recv(peer.get(), room.data(), 6, MSG_WAITALL), 6);
  EXPECT_EQ(AsText(std::span(room).first(6)), "answer");

  peer.Reset();
  AwaitReadable(socket.fd());
  EXPECT_EQ(socket.TryRead(room)->outcome, IoOutcome::kClosed);
}

TEST(TcpSocket, WritesNoMoreThanThePeerTakes) {
  ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                       TcpListener::Listen(*TcpAddress::Parse("127.0.0.1:0")));
  UniqueFd peer = ConnectTo(listener.address().port());
  AwaitReadable(listener.fd());
  ASSERT_OK_AND_ASSIGN(TcpSocket socket, listener.TryAccept());
  const std::vector<std::byte> much(1 << 20);
  IoOutcome outcome = IoOutcome::kDone;
  while (outcome == IoOutcome::kDone) outcome = socket.TryWrite(much)->outcome;
  EXPECT_EQ(outcome, IoOutcome::kWouldBlock);
  peer.Reset();  // with bytes unread: the connection is reset, and no signal kills the test
  AwaitReadable(socket.fd());
  while (outcome != IoOutcome::kClosed) outcome = socket.TryWrite(much)->outcome;
}

TEST(TcpListener, RefusesAnAddressInUse) {
  ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                       TcpListener::Listen(*TcpAddress::Parse("127.0.0.1:0")));
  EXPECT_CODE(TcpListener::Listen(listener.address()), kAlreadyExists);
}

TEST(TcpConnect, CarriesMoreThanTheBuffersHold) {
  for (const char* where : {"127.0.0.1:0", "[::1]:0"}) {
    const bool is_ipv6 = where[0] == '[';
    if (is_ipv6 && !HasIpv6Loopback()) continue;
    const Result<TcpListener> listener = TcpListener::Listen(*TcpAddress::Parse(where));
    ASSERT_OK(listener);
    const Deadline deadline = Deadline::After(kLongMs);
    ASSERT_OK_AND_ASSIGN(TcpSocket client, TcpSocket::Connect(listener->address(), deadline));
    AwaitReadable(listener->fd());
    ASSERT_OK_AND_ASSIGN(TcpSocket server, listener->TryAccept());
    const std::vector<std::byte> bytes(32 << 20, std::byte{7});
    std::thread writer([&] {
      EXPECT_OK(client.Write(bytes, deadline));
      client.Close();
    });
    std::vector<std::byte> buffer(1 << 20);
    size_t read = 0;
    while (true) {
      const Result<size_t> some = server.Read(buffer, deadline);
      if (!some.ok()) {
        EXPECT_CODE(some, kUnavailable);
        break;
      }
      ASSERT_GT(*some, 0u);
      read += *some;
    }
    writer.join();
    EXPECT_EQ(read, bytes.size());
  }
}

TEST(TcpConnect, NobodyThereIsUnavailableAtOnce) {
  uint16_t port = 0;
  {
    ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                         TcpListener::Listen(*TcpAddress::Parse("127.0.0.1:0")));
    port = listener.address().port();
  }
  const auto refused = TcpSocket::Connect(*TcpAddress::Parse("127.0.0.1:" + std::to_string(port)),
                                          Deadline::After(kLongMs));
  EXPECT_CODE(refused, kUnavailable);
  EXPECT_NE(refused.status().message().find(std::to_string(port)), std::string::npos);
}

TEST(TcpConnect, APeerThatDoesNothingCostsTheTimeAndNoMore) {
  ASSERT_OK_AND_ASSIGN(const TcpListener listener,
                       TcpListener::Listen(*TcpAddress::Parse("127.0.0.1:0")));
  ASSERT_OK_AND_ASSIGN(TcpSocket client,
                       TcpSocket::Connect(listener.address(), Deadline::After(kLongMs)));
  std::vector<std::byte> buffer(1 << 20);
  const Deadline soon = Deadline::After(20);
  EXPECT_CODE(client.Read(buffer, soon), kDeadlineExceeded);
  EXPECT_EQ(soon.left_ms(), 0);
  EXPECT_CODE(client.Read(buffer, soon), kDeadlineExceeded) << "it stays passed";
  buffer.resize(64 << 20);
  EXPECT_CODE(client.Write(buffer, Deadline::After(20)), kDeadlineExceeded);
}

TEST(TcpConnect, AQueueThatIsFullCostsTheTimeAndNoMore) {
  // Listens and accepts nobody: with a backlog of 0 the kernel soon answers no further handshake.
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  std::vector<TcpSocket> waiting;
  Status last;
  for (int i = 0; i < 8 && last.ok(); ++i) {
    auto socket = TcpSocket::Connect(*TcpAddress::Parse(where), Deadline::After(20));
    if (socket.ok()) {
      waiting.push_back(std::move(*socket));
    } else {
      last = socket.status();
    }
  }
  EXPECT_CODE(last, kDeadlineExceeded);
}

}  // namespace
}  // namespace maru::os
