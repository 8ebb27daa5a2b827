// Clients that come and go while others do, and the one background thread that they share.

#include <pthread.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "client/background.h"
#include "live_server.h"

namespace maru {
namespace {

// Counts its calls, and that none comes after its removal.
class CountingTask final : public client::BackgroundTask {
 public:
  uint64_t Tick() override {
    if (removed) late = true;
    ++ticks;
    ticks.notify_all();
    return 1;  // at once
  }
  void AwaitTick() { ticks.wait(0); }

  std::atomic<uint64_t> ticks{0};
  std::atomic<bool> removed{false}, late{false};
};

TEST(Background, TasksOfManyThreadsComeAndGo) {
  constexpr int kThreads = 2;
  constexpr int kRounds = 2000;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  std::atomic<int> late{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int round = 0; round < kRounds; ++round) {
        CountingTask task;
        ASSERT_TRUE(client::AddBackgroundTask(&task).ok());
        // Whichever thread was ending meanwhile: this task has one.
        if (round % 64 == 0) task.AwaitTick();
        client::RemoveBackgroundTask(&task);
        task.removed = true;
        late += task.late ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(late, 0);
}

TEST(Background, ClientsOfManyThreadsComeAndGo) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 20;
  const LiveServer server("64MiB");
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = "key-" + std::to_string(i);
      for (int round = 0; round < kRounds; ++round) {
        const auto client = server.Connect(key);
        ASSERT_NE(client, nullptr);
        EXPECT_TRUE(client->Put(key, BytesOf(key)).value());
        EXPECT_TRUE(Matches(client->Retrieve(key).value(), key));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(server.AuditIsClean());
}

// New threads get stacks that no address space has room for.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&former_);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoMoreThreads() {
    EXPECT_EQ(::pthread_setattr_default_np(&former_), 0);
    ::pthread_attr_destroy(&former_);
  }

 private:
  pthread_attr_t former_;
};

TEST(Background, WithoutRoomForAThreadConnectIsRefusedAndTheNextOneWorks) {
  const LiveServer server("64MiB");
  {
    const NoMoreThreads none;
    const auto refused = Client::Connect(server.Options());
    EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
    EXPECT_NE(refused.status().message().find("thread"), std::string::npos);
  }
  const auto client = server.Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
}

}  // namespace
}  // namespace maru
