// In a forked child everything of the parent's is inert, and nothing of it keeps the parent alive.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "live_server.h"

namespace maru {
namespace {

// Runs in a forked child; its exit code is how many of its expectations did not hold.
template <typename Body>
int InChild(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int failed = 0;
    body([&failed](bool held) { failed += held ? 0 : 1; });
    ::_exit(failed);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, AChildDropsInheritedViewsAndExits) {
  const LiveServer server("64MiB");
  auto client = server.Connect();
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  View view = client->Retrieve("key").value();
  Page page = client->Alloc(100).value();
  PageHold hold = client->Hold(page).value();
  const int failed = InChild([&](auto expect) {
    expect(Matches(view, "key"));
    expect(client->Exists("key").status().code() == StatusCode::kFailedPrecondition);
    expect(client->Alloc(1).status().code() == StatusCode::kFailedPrecondition);
    expect(client->Store("x", std::move(page)).status().code() == StatusCode::kFailedPrecondition);
    expect(client->Hold(page).status().code() == StatusCode::kFailedPrecondition);
    view.Release();
    hold.Release();
    {
      const Page dropped(std::move(page));
    }
    client->Close();
    client.reset();
  });
  EXPECT_EQ(failed, 0);
  // The parent's lease, page and connection are as they were.
  EXPECT_EQ(client->statistics().leases, 1u);
  EXPECT_EQ(client->Delete("key").value(), Deleted::kDeleted);
  EXPECT_TRUE(Matches(view, "key"));
  const std::byte* const data = page.data();
  EXPECT_TRUE(client->Store("other", std::move(page)).value());
  EXPECT_EQ(client->Delete("other").value(), Deleted::kDeleted);
  EXPECT_EQ(client->statistics().leases, 2u) << "the view's and the hold's";
  EXPECT_NE(client->Alloc(100).value().data(), data);
  hold.Release();
  EXPECT_EQ(client->statistics().leases, 1u);
  EXPECT_EQ(client->statistics().reconnects, 0u);
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(Fork, AChildMayHaveAClientOfItsOwn) {
  const LiveServer server("64MiB");
  const auto client = server.Connect("parent");
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  const int failed = InChild([&](auto expect) {
    const auto own = Client::Connect(server.Options("child"));
    expect(own.ok());
    if (!own.ok()) return;
    expect(Matches((*own)->Retrieve("key").value(), "key"));
    expect((*own)->Put("child's", BytesOf("child's")).value_or(false));
  });
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(Matches(client->Retrieve("child's").value(), "child's"));
}

TEST(Fork, AClientIsDeadWhenItsProcessIsThoughItsChildLivesOn) {
  const LiveServer server("64MiB");
  int ready[2], hold[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(hold), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto client = Client::Connect(server.Options("the parent"));
    if (!client.ok() || !(*client)->Put("key", BytesOf("key")).value_or(false)) ::_exit(1);
    const View view = (*client)->Retrieve("key").value();
    if (!(*client)->Pin("key").value_or(false)) ::_exit(1);
    if (::fork() == 0) {
      // Lives on with the parent's mappings until the test lets it go.
      ::close(hold[1]);
      char byte = 'r';
      if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
      while (::read(hold[0], &byte, 1) > 0) {
      }
      ::_exit(Matches(view, "key") ? 0 : 1);
    }
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(server.CountInClients("\"the parent\""), 1u);
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  server.AwaitGone({"the parent"});
  const auto client = server.Connect();
  EXPECT_EQ(client->Delete("key").value(), Deleted::kDeleted);  // its pin has ended with it
  EXPECT_TRUE(server.AuditIsClean());
  for (int end : {ready[0], ready[1], hold[0], hold[1]}) ::close(end);
}

// What a child has of its parent's: sockets, and locks by which a client is known to live.
int InheritedSocketsAndLocks() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the folder's own descriptor, when it is looked at
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:")) ++count;
    std::ifstream info("/proc/self/fdinfo/" + entry.path().filename().string());
    for (std::string line; std::getline(info, line);) count += line.starts_with("lock:") ? 1 : 0;
  }
  return count;
}

// Forks while other threads of the process are in the midst of everything.
TEST(Fork, FromABusyProcessAChildHasNothingOfItsParentsAndHangsNowhere) {
  constexpr int kForks = 300;
  const LiveServer server("64MiB");
  auto client = server.Connect("busy");
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  View view = client->Retrieve("key").value();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) server.Connect("comes and goes");
    });
    threads.emplace_back([&, i] {
      const std::string key = "key-" + std::to_string(i);
      while (!stop) {
        const Page unused = client->Alloc(64).value();
        EXPECT_TRUE(client->Put(key, BytesOf(key)).value());
        EXPECT_TRUE(Matches(client->Retrieve(key).value(), key));
        EXPECT_EQ(client->Delete(key).value(), Deleted::kDeleted);
      }
    });
  }
  int failed = 0, inherited = 0;
  for (int i = 0; i < kForks; ++i) {
    const int code = InChild([&](auto expect) {
      if (InheritedSocketsAndLocks() != 0) ::_exit(100);
      expect(client->statistics().stores == 0 && client->statistics().leases == 0);
      expect(!client->connected());
      expect(client->Alloc(1).status().code() == StatusCode::kFailedPrecondition);
      expect(Matches(view, "key"));
      view.Release();
      client->Close();
      client.reset();
    });
    if (code == 100) ++inherited;
    if (code != 0 && code != 100) ++failed;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inherited, 0);
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(server.AuditIsClean());
}

}  // namespace
}  // namespace maru
