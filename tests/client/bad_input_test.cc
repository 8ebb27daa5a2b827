// What goes wrong around a client of a live server: silence, death in mid-call, garbage in a lease
// area, no permission. A clear error each time, nothing lost, neighbours undisturbed.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/random.h"
#include "base/sequence_point.h"
#include "base/testing.h"
#include "layout/lease_area.h"
#include "layout/state_word.h"
#include "live_server.h"
#include "maru/log.h"

namespace maru {
namespace {

TEST(ServerGone, ASilentServerIsATimeoutAndNoPageIsLost) {
  LiveServer server("64MiB");
  ClientOptions options = server.Options();
  options.timeout_ms = 1000;
  const auto client = server.Connect(options);
  const auto other = server.Connect();
  Page page = client->Alloc(64).value();
  Page kept = client->Alloc(64).value();
  server.Signal(SIGSTOP);
  // The request is on its way and nobody answers: its fate is unknown.
  EXPECT_FALSE(client->Store("key", std::move(page)).value());
  EXPECT_EQ(client->statistics().pages_unknown, 1u);
  // Nobody answers an attach either, so nothing is sent and the page stays the caller's.
  EXPECT_EQ(client->Store("kept", std::move(kept)).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(kept);
  EXPECT_FALSE(client->Exists("kept").value());  // asks nobody
  server.Signal(SIGCONT);
  Await("a server that goes on answers again", [&] { return client->Ping().ok(); }, kManyLooks);
  EXPECT_TRUE(client->Store("kept", std::move(kept)).value());
  EXPECT_EQ(client->statistics().pages_unknown, 0u);
  EXPECT_EQ(client->statistics().pages_held, 0u);
  // The server has read the store by now, or its connection was closed before.
  EXPECT_TRUE(other->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(ServerGone, InMidCallAStoreIsFalseAndSettledWithTheNext) {
  LiveServer server("64MiB");
  const auto client = server.Connect();
  for (int round = 0; round < 4; ++round) {
    const std::string key = "key-" + std::to_string(round);
    // Killed while it is stopped, with the request in its socket or about to be.
    server.Signal(SIGSTOP);
    std::thread storing([&] { EXPECT_FALSE(client->Put(key, BytesOf(key)).value_or(false)); });
    server.End(SIGKILL);
    storing.join();
    server.Start();
    EXPECT_TRUE(client->Put(key, BytesOf(key)).value());
    EXPECT_TRUE(Matches(client->Retrieve(key).value(), key));
    EXPECT_EQ(client->statistics().pages_unknown, 0u);
    EXPECT_TRUE(server.AuditIsClean());
  }
}

TEST(ServerGone, BetweenRequestAndReplyTheStoreIsDoneAndFoundToBe) {
  LiveServer server("64MiB");
  const auto client = server.Connect();
  Page page = client->Alloc(4096).value();
  const auto bytes = BytesOf("key");
  std::copy(bytes.begin(), bytes.end(), page.data());
  // The reply is there, and the handler has not looked at it yet.
  SequenceGate gate("handler:register-answered");
  bool stored = false;
  std::thread storing([&] { stored = client->Store("key", std::move(page)).value(); });
  gate.AwaitArrival();
  server.End(SIGKILL);
  gate.Open();
  storing.join();
  EXPECT_TRUE(stored);
  server.Start();
  EXPECT_TRUE(Matches(client->Retrieve("key").value(), "key"));
  EXPECT_TRUE(client->Put("another", BytesOf("another")).value());
  EXPECT_TRUE(server.AuditIsClean());
}

// A client that writes garbage into its own lease area: a copy of its mappings is in this process,
// so its blocks are found there.
void ScribbleOverLeaseBlocks(uint64_t seed) {
  Random random(seed);
  // Of this process's mappings, those that are lease blocks: writable, shared, 32 KiB, of the pool.
  FILE* const maps = std::fopen("/proc/self/maps", "r");
  ASSERT_NE(maps, nullptr);
  char line[4096];
  int found = 0;
  while (std::fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long start = 0, end = 0;
    char access[5] = {};
    if (std::sscanf(line, "%lx-%lx %4s", &start, &end, access) != 3) continue;
    if (std::strcmp(access, "rw-s") != 0) continue;
    if (std::strstr(line, "maru-client-test-") == nullptr) continue;
    if ((end - start) % layout::kLeaseBlockBytes != 0) continue;
    if (end - start > 2 * layout::kLeaseBlockBytes) continue;
    ++found;
    auto* words = reinterpret_cast<std::atomic<uint64_t>*>(start);
    for (uint64_t i = 0; i < (end - start) / 8; ++i) {
      const uint64_t kind = random.Below(4);
      // Pins of pages that there are, among them.
      const auto pin = layout::SlotWord::Make(
          RecordNumber(static_cast<uint32_t>(random.Below(64))),
          Generation(static_cast<uint32_t>(random.Between(1, 3))), layout::SlotWord::Kind::kPin);
      const uint64_t garbage = kind == 0   ? random()
                               : kind == 1 ? ~uint64_t{0}
                               : kind == 2 ? pin.bits()
                                           : 0;
      words[i].store(garbage, std::memory_order_relaxed);
    }
  }
  std::fclose(maps);
  EXPECT_GT(found, 0);
}

TEST(LeaseArea, GarbageInItHurtsNobodyElse) {
  const uint64_t seed = TestSeed();
  LiveServer server("64MiB");
  const auto neighbour = server.Connect("neighbour");
  ASSERT_TRUE(neighbour->Put("held", BytesOf("held")).value());
  ASSERT_TRUE(neighbour->Put("pinned", BytesOf("pinned")).value());
  const View view = neighbour->Retrieve("held").value();
  ASSERT_TRUE(neighbour->Pin("pinned").value());
  int ready[2], hold[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(hold, O_CLOEXEC), 0);  // not for the server that is started below
  const pid_t vandal = ::fork();
  if (vandal == 0) {
    ::close(hold[1]);
    const auto client = Client::Connect(server.Options("vandal"));
    if (!client.ok()) ::_exit(1);
    ScribbleOverLeaseBlocks(seed);
    char byte = testing::Test::HasFailure() ? 'f' : 'r';
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    while (::read(hold[0], &byte, 1) > 0) {
    }
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'r');
  // Everything works beside it; what its garbage happens to name is held like anybody's lease.
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key-" + std::to_string(i);
    ASSERT_TRUE(neighbour->Put(key, BytesOf(key)).value());
    ASSERT_TRUE(Matches(neighbour->Retrieve(key).value(), key));
    ASSERT_NE(neighbour->Delete(key).value(), Deleted::kMissing);
  }
  EXPECT_EQ(neighbour->Delete("pinned").value(), Deleted::kPinned);
  EXPECT_TRUE(Matches(view, "held"));
  EXPECT_EQ(server.CountInClients("\"vandal\""), 1u);
  EXPECT_TRUE(server.AuditIsClean());
  // A server that starts over it reads it before it frees anything.
  server.End(SIGKILL);
  server.Start();
  EXPECT_TRUE(neighbour->Put("after", BytesOf("after")).value());
  EXPECT_EQ(neighbour->Delete("pinned").value(), Deleted::kPinned);
  EXPECT_TRUE(Matches(view, "held"));
  EXPECT_TRUE(server.AuditIsClean());
  // With the vandal its garbage ends.
  ::close(hold[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(vandal, &status, 0), vandal);
  server.AwaitGone({"vandal"});
  EXPECT_TRUE(neighbour->Unpin("pinned").value());
  EXPECT_EQ(neighbour->Delete("pinned").value(), Deleted::kDeleted);
  EXPECT_TRUE(server.AuditIsClean());
  for (int end : {ready[0], ready[1], hold[0]}) ::close(end);
}

TEST(Permission, AUserWhoIsNotAdmittedHearsSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const LiveServer server("64MiB");
  for (const mode_t mode : {mode_t{0600}, mode_t{0666}}) {
    ASSERT_EQ(::chmod(server.socket().c_str(), mode), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
      const auto client = Client::Connect(server.Options());
      if (client.ok() || client.status().code() != StatusCode::kPermissionDenied) ::_exit(2);
      const std::string said(client.status().message());
      // The file's mode names the socket; a server that was reached, the user and what admits it.
      const bool clear = mode == 0600 ? said.find(server.socket()) != std::string::npos
                                      : said.find("uid 65534") != std::string::npos &&
                                            said.find("--socket-group") != std::string::npos;
      ::_exit(clear ? 0 : 3);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "mode " << std::oct << mode;
  }
}

class FileSink final : public LogSink {
 public:
  explicit FileSink(int file) : file_(file) {}
  void Write(LogLevel, std::string_view line) override {
    if (::write(file_, line.data(), line.size()) < 0) ::_exit(1);
  }

 private:
  const int file_;
};

TEST(Promises, TheValueOfAnErrorEndsTheProcessWithALineToTheSinkAndNothingPrinted) {
  const int file = ::memfd_create("log", MFD_CLOEXEC);
  const auto body = [file] {
    SetLogSink(std::make_shared<FileSink>(file));
    ClientOptions options;
    options.server_url = "/nowhere/at/all";
    auto client = Client::Connect(options);
    client.value()->Close();
  };
  EXPECT_EXIT(body(), testing::KilledBySignal(SIGABRT), testing::Eq(""));
  std::string line(4096, '\0');
  line.resize(static_cast<size_t>(::pread(file, line.data(), line.size(), 0)));
  EXPECT_NE(line.find("check failed"), std::string::npos) << line;
  EXPECT_NE(line.find("/nowhere/at/all"), std::string::npos) << line;
  ::close(file);
}

TEST(Keys, OfAnyBytesUpToTheLimitAreTold) {
  const LiveServer server("64MiB");
  const auto client = server.Connect();
  const std::string keys[] = {"",
                              std::string(1, '\0'),
                              std::string("a\0b", 3),
                              "/",
                              "@",
                              "a/b@c",
                              "\xFF\xFE\xC0\x80",
                              "\xED\xA0\x80",
                              std::string(65535, 'k'),
                              std::string(65536, 'k')};
  for (const std::string& key : keys) {
    ASSERT_TRUE(client->Put(key, BytesOf("of " + key)).value()) << key.size();
  }
  for (const std::string& key : keys) {
    EXPECT_TRUE(Matches(client->Retrieve(key).value(), "of " + key)) << key.size();
    EXPECT_TRUE(client->Pin(key).value());
    EXPECT_EQ(client->Delete(key).value(), Deleted::kPinned);
    EXPECT_TRUE(client->Unpin(key).value());
    EXPECT_EQ(client->Delete(key).value(), Deleted::kDeleted);
  }
  const std::string over(65537, 'k');
  const std::string_view batch[] = {"fine", over};
  for (const Status& status :
       {client->Put(over, BytesOf("x")).status(), client->Retrieve(over).status(),
        client->Exists(over).status(), client->Pin(over).status(), client->Unpin(over).status(),
        client->Delete(over).status(), client->BatchExists(batch).status(),
        client->BatchRetrieve(batch).status(), client->BatchDelete(batch).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("65537"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("65536"), std::string::npos) << status.message();
  }
  EXPECT_EQ(client->statistics().pages_held, 0u);
  EXPECT_TRUE(server.AuditIsClean());
}

TEST(Batches, AllPagesOfAPoolAreStoredInOne) {
  const LiveServer server("64MiB");
  ClientOptions options = server.Options();
  options.page_bytes = 512;
  const auto client = server.Connect(options);
  // As many pages as the pool has, and the keys of all of them in one batch.
  std::vector<Page> pages;
  std::vector<std::string> keys;
  while (pages.size() < 60'000) {
    Result<Page> page = client->Alloc(8);
    if (!page.ok()) break;
    pages.push_back(std::move(*page));
    keys.push_back("key-" + std::to_string(keys.size()));
  }
  const std::vector<std::string_view> texts(keys.begin(), keys.end());
  const auto stored = client->BatchStore(texts, pages).value();
  EXPECT_EQ(static_cast<size_t>(std::count(stored.begin(), stored.end(), true)), keys.size());
  EXPECT_EQ(client->MatchPrefix(texts).value(), keys.size());
  EXPECT_EQ(client->statistics().pages_held, 0u);
  EXPECT_TRUE(server.AuditIsClean());
}

}  // namespace
}  // namespace maru
