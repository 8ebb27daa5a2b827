// Clients that come and go while others do, and the one background thread that they share.

#include <pthread.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
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

std::set<std::string> ThreadsOfThisProcess() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(entry.path());
  }
  return threads;
}

TEST(Background, ItsThreadHasEverySignalBlockedAndTheCallersNone) {
  const LiveServer server("64MiB");
  sigset_t before, after;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &before), 0);
  const std::set<std::string> others = ThreadsOfThisProcess();
  const auto client = server.Connect();
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &after), 0);
  for (int signal = 1; signal < NSIG; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << "signal " << signal;
  }
  size_t made = 0;
  for (const std::string& thread : ThreadsOfThisProcess()) {
    if (others.contains(thread)) continue;
    ++made;
    // It has its mask for good once it has its name; the C library begins a thread with all
    // blocked.
    std::string line;
    while (line != "maru") {
      std::ifstream name(thread + "/comm");
      std::getline(name, line);
    }
    std::ifstream status(thread + "/status");
    while (std::getline(status, line) && !line.starts_with("SigBlk:")) {
    }
    ASSERT_TRUE(line.starts_with("SigBlk:"));
    const uint64_t blocked = std::stoull(line.substr(line.find('\t')), nullptr, 16);
    for (int signal = 1; signal <= SIGSYS; ++signal) {
      if (signal == SIGKILL || signal == SIGSTOP) continue;  // nobody can
      EXPECT_NE(blocked & (1ull << (signal - 1)), 0u) << "signal " << signal;
    }
  }
  EXPECT_EQ(made, 1u);
}

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
