// Who waits for whom: calls for one attempt to connect, the background for nobody, and no call for
// its turn beyond its time-out.

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "base/sequence_point.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

// How often a point was passed, to be waited for.
class Passings {
 public:
  explicit Passings(std::string_view point)
      : hook_(point, [this] {
          ++count_;
          count_.notify_all();
        }) {}
  void Await(int count) const {
    for (int now = count_; now < count; now = count_) count_.wait(now);
  }

 private:
  std::atomic<int> count_{0};
  ScopedHook hook_;
};

struct WaitsTest : HandlerFixture {
  static constexpr int kCalls = 4;
  std::atomic<int> attempts{0};

  std::promise<void> begun, release;

  ~WaitsTest() override { one.link.connecting = nullptr; }
  // Holds the next attempt of `one` at its beginning until `release` is set.
  void HoldNextAttempt() {
    one.link.connecting = [this] {
      if (++attempts != 1) return;
      begun.set_value();
      release.get_future().wait();
    };
  }
  // Calls of several threads. The attempt ends when so many of them wait for it.
  std::vector<Status> PingAtOnce(int waiting) {
    std::vector<Status> answers(kCalls);
    const Passings shared("handler:shares-attempt");
    std::vector<std::thread> threads;
    for (Status& answer : answers) threads.emplace_back([&] { answer = one->Ping(); });
    shared.Await(waiting);
    release.set_value();
    for (std::thread& thread : threads) thread.join();
    return answers;
  }
};

TEST_F(WaitsTest, CallsTakeTheResultOfOneAttemptThatFails) {
  host.Kill();
  one.link.Probe();
  HoldNextAttempt();
  for (const Status& answer : PingAtOnce(kCalls - 1)) EXPECT_CODE(answer, kUnavailable);
  EXPECT_EQ(attempts, 1);
  // Who comes later makes one of his own.
  EXPECT_CODE(one->Ping(), kUnavailable);
  EXPECT_EQ(attempts, 2);
  host.Start();
}

TEST_F(WaitsTest, CallsTakeTheResultOfOneAttemptThatSucceeds) {
  ASSERT_TRUE(Put(one, "key").value());
  host.Restart();
  one.link.Probe();
  HoldNextAttempt();
  for (const Status& answer : PingAtOnce(kCalls - 1)) EXPECT_OK(answer);
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(one.counters().reconnects, 1u);
}

TEST_F(WaitsTest, NothingWaitsWhileTheBackgroundConnectsButWhatNeedsTheServer) {
  ASSERT_TRUE(Put(one, "key").value());
  const PageHandle freed = Written(one, "x");
  host.Restart();
  one.link.Probe();
  HoldNextAttempt();
  std::thread background([this] { one->Tick(); });
  begun.get_future().wait();
  EXPECT_EQ(Get(one, "key"), "key");
  EXPECT_OK(one->Free(freed));
  EXPECT_OK(one->Free(Written(one, "y")));
  EXPECT_NE(one->Tick(), 0u);
  EXPECT_GT(one.counters().free_in_hand, 0u);
  for (const Status& answer : PingAtOnce(kCalls)) EXPECT_OK(answer);
  background.join();
  EXPECT_EQ(attempts, 1);
}

TEST_F(WaitsTest, TheBackgroundDoesNotWaitForACall) {
  std::promise<void> called, answer;
  one.link.road = [&](const wire::Request&) {
    called.set_value();
    answer.get_future().wait();
    return DirectLink::Road::kWhole;
  };
  std::thread call([&] { EXPECT_OK(one->Ping()); });
  called.get_future().wait();
  EXPECT_NE(one->Tick(), 0u);
  answer.set_value();
  call.join();
  one.link.road = nullptr;
}

TEST_F(WaitsTest, ACallThatHasWaitedTooLongForItsTurnGivesUp) {
  Instance slow(&host, {.turn_wait_ns_max = 1'000'000'000});
  ASSERT_OK(slow->Connect());
  const PageHandle page = Written(slow, "x");
  std::promise<void> called, answer;
  slow.link.road = [&](const wire::Request&) {
    called.set_value();
    answer.get_future().wait();
    return DirectLink::Road::kWhole;
  };
  std::thread call([&] { EXPECT_OK(slow->Ping()); });
  called.get_future().wait();
  const Passings arrived("handler:arrived");
  std::thread ping([&] { EXPECT_CODE(slow->Ping(), kDeadlineExceeded); });
  std::thread store([&] { EXPECT_CODE(slow->Store("key", page, 1), kDeadlineExceeded); });
  arrived.Await(2);
  slow.clock.Advance(1'000'000'001);
  answer.set_value();
  for (std::thread* thread : {&call, &ping, &store}) thread->join();
  slow.link.road = nullptr;
  EXPECT_TRUE(slow->Store("key", page, 1).value());
  slow->Close();
}

// A store lets go of the lock while it connects; a page that is freed meanwhile is free.
TEST_F(WaitsTest, AStoreThatWaitedStoresNoPageThatWasFreedMeanwhile) {
  const PageHandle old = Written(one, "old");
  host.Kill();
  one.link.Probe();
  HoldNextAttempt();
  std::thread storing([&] { EXPECT_FALSE(one->Store("old", old, 3).value()); });
  begun.get_future().wait();
  EXPECT_OK(one->Free(old));
  host.Start();
  release.set_value();
  storing.join();
  EXPECT_TRUE(Put(one, "new").value());
  EXPECT_EQ(Get(one, "old"), "");
}

}  // namespace
}  // namespace maru::handler
