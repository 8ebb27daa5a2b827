#include "os/event.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "base/bytes.h"
#include "base/testing.h"
#include "os/unix_socket.h"

namespace maru::os {
namespace {

class EventTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(poller_); }

  // The only event there is within a wait without end.
  ReadyEvent WaitForOne() {
    const Result<std::size_t> count = poller_->Wait(events_, -1);
    EXPECT_OK(count);
    EXPECT_EQ(*count, 1u);
    return events_[0];
  }

  Result<Poller> poller_ = Poller::Create();
  std::array<ReadyEvent, 4> events_{};
};

TEST_F(EventTest, WakesFromAnotherThreadUntilDrained) {
  ASSERT_OK_AND_ASSIGN(const WakeFd wake, WakeFd::Create());
  ASSERT_OK(poller_->Add(wake.fd(), Interest::kRead, 42));
  EXPECT_EQ(*poller_->Wait(events_, 0), 0u);
  std::thread([&] { wake.Notify(); }).join();
  wake.Notify();
  const ReadyEvent event = WaitForOne();
  EXPECT_EQ(event.token, 42u);
  EXPECT_TRUE(event.readable);
  EXPECT_FALSE(event.writable);
  EXPECT_EQ(*poller_->Wait(events_, 0), 1u);
  wake.Drain();
  EXPECT_EQ(*poller_->Wait(events_, 0), 0u);
}

TEST_F(EventTest, FollowsInterestsOfASocket) {
  ASSERT_OK_AND_ASSIGN(auto ends, SeqpacketSocket::Pair());
  ASSERT_OK(poller_->Add(ends.first.fd(), Interest::kReadWrite, 1));
  EXPECT_TRUE(WaitForOne().writable);
  ASSERT_OK(poller_->Change(ends.first.fd(), Interest::kRead, 2));
  EXPECT_EQ(*poller_->Wait(events_, 0), 0u);
  ASSERT_OK(ends.second.Send(AsBytes("x")));
  EXPECT_EQ(WaitForOne().token, 2u);
  ASSERT_OK(poller_->Change(ends.first.fd(), Interest::kNone, 3));
  EXPECT_EQ(*poller_->Wait(events_, 0), 0u);
  ends.second.Close();
  EXPECT_TRUE(WaitForOne().readable) << "a hang-up is for the next read to tell";
  ASSERT_OK(poller_->Remove(ends.first.fd()));
  EXPECT_EQ(*poller_->Wait(events_, 0), 0u);
}

TEST_F(EventTest, ReportsMistakes) {
  EXPECT_FALSE(poller_->Add(-1, Interest::kRead, 0).ok());
  EXPECT_FALSE(poller_->Remove(0).ok());
}

TEST_F(EventTest, TimerFiresOnceOrAgain) {
  ASSERT_OK_AND_ASSIGN(TimerFd timer, TimerFd::Create());
  ASSERT_OK(poller_->Add(timer.fd(), Interest::kRead, 7));
  ASSERT_OK(timer.Arm(1));
  EXPECT_EQ(WaitForOne().token, 7u);
  EXPECT_EQ(timer.Drain(), 1u);
  EXPECT_EQ(timer.Drain(), 0u);
  ASSERT_OK(timer.Arm(1, 1000));
  for (int i = 0; i < 3; ++i) {
    WaitForOne();
    EXPECT_GE(timer.Drain(), 1u);
  }
  ASSERT_OK(timer.Disarm());
  timer.Drain();
  EXPECT_EQ(*poller_->Wait(events_, 0), 0u);
}

TEST_F(EventTest, SignalsBecomeEvents) {
  // In a thread of its own, since the signals stay blocked.
  std::thread([&] {
    Result<SignalFd> signals = StopSignals();
    ASSERT_OK(signals);
    ASSERT_OK(poller_->Add(signals->fd(), Interest::kRead, 9));
    EXPECT_FALSE(signals->TryTake().has_value());
    ::pthread_kill(::pthread_self(), SIGTERM);
    EXPECT_EQ(WaitForOne().token, 9u);
    EXPECT_EQ(signals->TryTake(), SIGTERM);
    EXPECT_FALSE(signals->TryTake().has_value());
  }).join();
}

}  // namespace
}  // namespace maru::os
