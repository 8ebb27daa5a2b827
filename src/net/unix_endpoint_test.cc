// Real sockets: peers that behave, and peers that break framing, do not read, or die.
#include "net/unix_endpoint.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "base/test_log.h"
#include "base/testing.h"
#include "layout/frame.h"
#include "os/clock.h"
#include "os/temp_folder.h"
#include "os/test_host.h"

namespace maru::net {
namespace {

// Answers each frame with itself; with "drop" in front it drops the connection afterwards.
struct Echo final : FrameService {
  Admittance OnOpened(ConnectionId, const os::SeqpacketSocket& socket) override {
    EXPECT_OK(socket.Credentials());
    ++opened;
    return admittance;
  }
  void OnFrame(ConnectionId, std::span<const std::byte> frame, OutgoingFrame* out) override {
    ++frames;
    const std::string text(reinterpret_cast<const char*>(frame.data()), frame.size());
    out->drop = text.starts_with("drop");
    if (text != "drop silently") out->bytes.assign(frame.begin(), frame.end());
  }
  void OnClosed(ConnectionId) override { ++closed; }

  std::atomic<Admittance> admittance{Admittance::kAdmitted};  // of those who come
  std::atomic<uint64_t> opened{0}, frames{0}, closed{0};
};

class UnixEndpointTest : public testing::Test {
 protected:
  UnixEndpointTest() {
    EXPECT_OK(endpoint_->Serve(os::UnixListener::Listen(address_).value()));
    running_ = std::thread([this] { EXPECT_OK(loop_->Run()); });
  }
  ~UnixEndpointTest() override { End(); }
  void End() {
    if (!running_.joinable()) return;
    loop_->Stop();
    running_.join();
    endpoint_.reset();
  }

  os::SeqpacketSocket Connect() {
    auto socket = os::SeqpacketSocket::Connect(address_, -1);
    EXPECT_OK(socket);
    EXPECT_OK(socket->SetBufferBytes(2 * layout::kFrameBytesMax));
    return std::move(*socket);
  }
  static std::span<const std::byte> Bytes(const std::string& text) {
    return std::as_bytes(std::span(text));
  }
  // "" when the connection was closed.
  static std::string Receive(os::SeqpacketSocket& socket) {
    std::vector<std::byte> buffer(layout::kFrameBytesMax);
    const auto size = socket.Receive(buffer);
    if (!size.ok()) return "";
    return {reinterpret_cast<const char*>(buffer.data()), *size};
  }
  static std::string Ask(os::SeqpacketSocket& socket, const std::string& text) {
    if (!socket.Send(Bytes(text)).ok()) return "";
    return Receive(socket);
  }

  const os::TempFolder folder_ = os::TempFolder::Create().value();
  const os::UnixAddress address_ = os::UnixAddress::Path(folder_.path() + "/sock").value();
  Echo service_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::Create(&os::RealClock()).value();
  std::unique_ptr<UnixEndpoint> endpoint_ = std::make_unique<UnixEndpoint>(loop_.get(), &service_);
  std::thread running_;
};

TEST_F(UnixEndpointTest, AnswersEachPeerItsFrames) {
  auto one = Connect(), other = Connect();
  EXPECT_EQ(Ask(one, "one"), "one");
  EXPECT_EQ(Ask(other, "other"), "other");
  const std::string most(layout::kFrameBytesMax, 'm');
  EXPECT_EQ(Ask(one, most), most);
  one.Close();
  EXPECT_EQ(Ask(other, "other again"), "other again");
  End();
  EXPECT_EQ(service_.opened, 2u);
  EXPECT_EQ(service_.closed, 2u);
}

TEST_F(UnixEndpointTest, StrangersTakeEachOthersPlacesAndNobodyElses) {
  auto admitted = Connect();
  EXPECT_EQ(Ask(admitted, "before"), "before");
  service_.admittance = Admittance::kStranger;
  std::vector<os::SeqpacketSocket> strangers;
  for (uint32_t i = 0; i < 3 * UnixEndpoint::kStrangersMax; ++i) {
    strangers.push_back(Connect());
    // Each is at the end of the queue when the one before it has been taken in.
    if (i % UnixEndpoint::kStrangersMax == 0) {
      EXPECT_EQ(Ask(strangers[i], "stranger"), "stranger");
    }
  }
  EXPECT_EQ(Ask(strangers.back(), "the last"), "the last");
  EXPECT_EQ(Receive(strangers.front()), "");
  service_.admittance = Admittance::kAdmitted;
  auto late = Connect();
  EXPECT_EQ(Ask(late, "late"), "late");
  EXPECT_EQ(Ask(admitted, "still"), "still");
  EXPECT_EQ(service_.opened - service_.closed, 2 + UnixEndpoint::kStrangersMax);
}

TEST_F(UnixEndpointTest, AFrameOverTheLimitEndsItsConnectionAlone) {
  auto one = Connect(), other = Connect();
  const std::string over(layout::kFrameBytesMax + 1, 'o');
  EXPECT_EQ(Ask(one, over), "");
  EXPECT_EQ(Ask(other, "goes on"), "goes on");
  EXPECT_EQ(service_.frames, 1u);
}

TEST_F(UnixEndpointTest, DescriptorsThatNobodyAskedForEndTheirConnectionAlone) {
  auto one = Connect(), other = Connect();
  const int passed[] = {other.fd()};
  ASSERT_OK(one.Send(Bytes("take this"), passed));
  EXPECT_EQ(Receive(one), "");
  EXPECT_EQ(Ask(other, "goes on"), "goes on");
  EXPECT_EQ(service_.frames, 1u);
}

TEST_F(UnixEndpointTest, AnEmptyMessageEndsItsConnectionAlone) {
  auto one = Connect(), other = Connect();
  ASSERT_EQ(::send(one.fd(), "", 0, 0), 0);
  EXPECT_EQ(Receive(one), "");
  EXPECT_EQ(Ask(other, "goes on"), "goes on");
}

TEST_F(UnixEndpointTest, TheServiceMayDropAPeerAfterItsAnswerOrWithoutOne) {
  auto one = Connect(), other = Connect();
  EXPECT_EQ(Ask(one, "drop me"), "drop me");
  EXPECT_EQ(Receive(one), "");
  EXPECT_EQ(Ask(other, "drop silently"), "");
}

TEST_F(UnixEndpointTest, WhoDoesNotReadIsNotReadFromAndOthersAreServed) {
  auto slow = Connect(), other = Connect();
  const std::string frame(64 * 1024, 's');
  // Until neither side's buffer takes any more.
  uint64_t sent = 0;
  for (int refused = 0; refused < 100;) {
    const auto outcome = slow.TrySend(Bytes(frame));
    ASSERT_OK(outcome);
    ASSERT_NE(*outcome, os::IoOutcome::kClosed);
    if (*outcome == os::IoOutcome::kDone) {
      ++sent;
      refused = 0;
    } else {
      ++refused;
      EXPECT_EQ(Ask(other, "served"), "served");
    }
  }
  EXPECT_GT(sent, 2u);
  for (uint64_t i = 0; i < sent; ++i) EXPECT_EQ(Receive(slow), frame) << i;
  EXPECT_EQ(Ask(slow, "caught up"), "caught up");
}

TEST_F(UnixEndpointTest, APeerThatDiesWhileItsAnswerWaitsIsForgotten) {
  auto slow = Connect(), other = Connect();
  const std::string frame(64 * 1024, 's');
  for (int refused = 0; refused < 100;) {
    const auto outcome = slow.TrySend(Bytes(frame));
    ASSERT_OK(outcome);
    refused = *outcome == os::IoOutcome::kDone ? 0 : refused + 1;
    if (refused > 0) {
      EXPECT_EQ(Ask(other, "served"), "served");
    }
  }
  slow.Close();
  while (service_.closed == 0) {
    EXPECT_EQ(Ask(other, "served"), "served");
  }
}

TEST_F(UnixEndpointTest, WithoutDescriptorsLeftOthersAreServedAndNewPeersWait) {
  auto one = Connect();
  EXPECT_EQ(Ask(one, "one"), "one");
  // The peer's end gets the last descriptor, so that there is none for the endpoint's.
  auto waiting = os::UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::optional<os::DescriptorLimit> none(std::in_place, static_cast<rlim_t>(waiting.get()));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  address_.text().copy(name.sun_path, sizeof(name.sun_path) - 1);
  ASSERT_EQ(::connect(waiting.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  const RecordedLog log;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(Ask(one, "one"), "one");
  EXPECT_LE(log.lines().size(), 1u);
  none.reset();  // others of the process have closed theirs: nothing of the endpoint's has ended
  os::SeqpacketSocket other(std::move(waiting));
  EXPECT_EQ(Ask(other, "served at last"), "served at last");
  EXPECT_EQ(Ask(one, "one"), "one");
}

}  // namespace
}  // namespace maru::net
