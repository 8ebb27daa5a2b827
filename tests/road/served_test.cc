// A client that is given the address at which `maru serve` itself listens for upstream's clients.
#include <gmock/gmock.h>

#include "base/testing.h"
#include "live_server.h"

namespace maru {
namespace {

constexpr int kKeys = 100;

class ServedAddress : public testing::Test {
 protected:
  std::unique_ptr<Client> Connect(const std::string& host = "127.0.0.1") {
    ClientOptions options = server_.Options();
    options.server_url = Url(host);
    return server_.Connect(options);
  }
  std::string Url(const std::string& host) const {
    return "tcp://" + host + server_.metadata().substr(server_.metadata().rfind(':'));
  }

  LiveServer server_{"64MiB", {"--listen", "tcp://127.0.0.1:0", "--rm-listen", "none"}};
};

TEST_F(ServedAddress, LeadsToTheServerByNumberAndByName) {
  for (const std::string host : {"127.0.0.1", "localhost", "127.1"}) {
    const auto client = Connect(host);
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(client->Put(host, BytesOf(host)).value());
    EXPECT_TRUE(Matches(server_.Connect()->Retrieve(host).value(), host));
  }
  EXPECT_TRUE(server_.AuditIsClean());
}

// Looking up and reading need nobody: they go on while the server is stopped.
TEST_F(ServedAddress, ReadsSendNoMessage) {
  const auto client = Connect();
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) keys.push_back("key-" + std::to_string(i));
  for (const std::string& key : keys) ASSERT_TRUE(client->Put(key, BytesOf(key)).value());
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  server_.Signal(SIGSTOP);
  for (const std::string& key : keys) {
    EXPECT_TRUE(client->Exists(key).value());
    EXPECT_TRUE(Matches(client->Retrieve(key).value(), key));
  }
  EXPECT_EQ(client->BatchExists(views).value(), std::vector<bool>(kKeys, true));
  EXPECT_EQ(client->MatchPrefix(views).value(), static_cast<uint64_t>(kKeys));
  EXPECT_FALSE(client->Exists("missing").value());
  server_.Signal(SIGCONT);
  EXPECT_EQ(client->statistics().server_asks, 0u);
}

TEST_F(ServedAddress, IsAskedAgainWhenTheServerStartsAnew) {
  const auto client = Connect();
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  ASSERT_TRUE(client->Pin("key").value());
  for (const int signal : {SIGKILL, SIGTERM}) {
    server_.End(signal);
    EXPECT_TRUE(Matches(client->Retrieve("key").value(), "key"));
    server_.Start();
    EXPECT_TRUE(client->Put("after " + std::to_string(signal), BytesOf("x")).value());
    EXPECT_EQ(server_.Connect()->Delete("key").value(), Deleted::kPinned) << "the same client";
  }
  EXPECT_EQ(client->statistics().reconnects, 2u);
  const View view = client->Retrieve("key").value();
  server_.End(SIGKILL);
  server_.StartFresh();
  EXPECT_OK(client->Ping());  // notices that the pages in hand are over
  EXPECT_TRUE(client->Put("new", BytesOf("new")).value());
  EXPECT_FALSE(client->Exists("key").value());
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(server_.AuditIsClean());
}

TEST_F(ServedAddress, AStoppedServerCostsTheTimeAndNoMore) {
  server_.Signal(SIGSTOP);
  ClientOptions options = server_.Options();
  options.server_url = server_.metadata();
  options.timeout_ms = 50;
  const Status status = Client::Connect(options).status();
  server_.Signal(SIGCONT);
  EXPECT_TRUE(status.code() == StatusCode::kDeadlineExceeded) << status.ToString();
  EXPECT_OK(Client::Connect(server_.Options()));
}

}  // namespace
}  // namespace maru
