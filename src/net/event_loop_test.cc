#include "net/event_loop.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/testing.h"
#include "os/clock.h"
#include "os/event.h"

namespace maru::net {
namespace {

struct EventLoopTest : testing::Test {
  std::unique_ptr<EventLoop> loop = EventLoop::Create(&os::RealClock()).value();
  os::WakeFd one = os::WakeFd::Create().value();
  os::WakeFd other = os::WakeFd::Create().value();
};

TEST_F(EventLoopTest, StopsFromAnotherThread) {
  std::thread running([this] { EXPECT_OK(loop->Run()); });
  loop->Stop();
  running.join();
}

TEST_F(EventLoopTest, CallsWhoeverWatchesWhatIsReady) {
  std::vector<int> called;
  ASSERT_OK(loop->Watch(one.fd(), os::Interest::kRead, [&](const os::ReadyEvent& event) {
    EXPECT_TRUE(event.readable);
    one.Drain();
    called.push_back(1);
    other.Notify();
  }));
  ASSERT_OK(loop->Watch(other.fd(), os::Interest::kRead, [&](const os::ReadyEvent&) {
    other.Drain();
    called.push_back(2);
    loop->Stop();
  }));
  one.Notify();
  EXPECT_OK(loop->Run());
  EXPECT_EQ(called, std::vector<int>({1, 2}));
  loop->Unwatch(one.fd());
  loop->Unwatch(other.fd());
}

TEST_F(EventLoopTest, CallsOneInTurnAfterEachRoundTheEarliestFirst) {
  std::vector<int> called;
  one.Notify();  // ready in each round
  ASSERT_OK(loop->Watch(one.fd(), os::Interest::kRead,
                        [&](const os::ReadyEvent&) { called.push_back(0); }));
  const auto call = [&](int what) { return [&called, what] { called.push_back(what); }; };
  loop->CallInTurn([&] {
    called.push_back(1);
    loop->CallInTurn([&] {
      called.push_back(4);
      loop->Stop();
    });
  });
  loop->CallInTurn(call(2));
  const uint64_t forgotten = loop->CallInTurn(call(3));
  loop->ForgetTurn(forgotten);
  EXPECT_OK(loop->Run());
  loop->Unwatch(one.fd());
  ASSERT_GE(called.size(), 6u);
  called.resize(6);
  EXPECT_EQ(called, std::vector<int>({0, 1, 0, 2, 0, 4}));
}

TEST_F(EventLoopTest, WaitsForNothingWhileSomeoneIsInTurn) {
  loop->CallInTurn([&] { loop->CallInTurn([&] { loop->Stop(); }); });
  EXPECT_OK(loop->Run());
}

TEST_F(EventLoopTest, WhoeverUnwatchesAnotherHasItNotCalledAnyMore) {
  int called = 0;
  const auto callback = [&](const os::ReadyEvent&) {
    ++called;
    loop->Unwatch(one.fd());
    loop->Unwatch(other.fd());
    loop->Stop();
  };
  ASSERT_OK(loop->Watch(one.fd(), os::Interest::kRead, callback));
  ASSERT_OK(loop->Watch(other.fd(), os::Interest::kRead, callback));
  one.Notify();
  other.Notify();
  EXPECT_OK(loop->Run());
  EXPECT_EQ(called, 1);
}

TEST_F(EventLoopTest, WithoutInterestNothingIsCalled) {
  int called = 0;
  ASSERT_OK(loop->Watch(one.fd(), os::Interest::kRead, [&](const os::ReadyEvent&) { ++called; }));
  ASSERT_OK(loop->Change(one.fd(), os::Interest::kNone));
  one.Notify();
  loop->CallAt(1, [&] { loop->Stop(); });
  EXPECT_OK(loop->Run());
  EXPECT_EQ(called, 0);
  loop->Unwatch(one.fd());
}

TEST_F(EventLoopTest, TheTimedCallComesOnceAndMayAskForAnother) {
  int called = 0;
  std::function<void()> again = [&] {
    if (++called == 3) return loop->Stop();
    loop->CallAt(static_cast<uint64_t>(os::RealClock().Now()) + kNanosPerMilli, again);
  };
  loop->CallAt(1, again);
  EXPECT_OK(loop->Run());
  EXPECT_EQ(called, 3);
}

TEST_F(EventLoopTest, ATimedCallThatIsNotDueIsNotMade) {
  FakeClock clock(kNanosPerSecond);
  const auto still = EventLoop::Create(&clock).value();
  int called = 0;
  still->CallAt(2 * kNanosPerSecond, [&] { ++called; });
  ASSERT_OK(still->Watch(one.fd(), os::Interest::kRead, [&](const os::ReadyEvent&) {
    one.Drain();
    still->Stop();
  }));
  one.Notify();
  EXPECT_OK(still->Run());
  EXPECT_EQ(called, 0);
  still->Unwatch(one.fd());
}

}  // namespace
}  // namespace maru::net
