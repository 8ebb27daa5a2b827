// A client that is given tcp://HOST:PORT: which socket of a real server it takes, what it says of
// that, and what it refuses. The endpoint is a Router that tells what the test wants.
#include <gmock/gmock.h>

#include "base/test_log.h"
#include "live_server.h"
#include "os/machine.h"
#include "router.h"

namespace maru {
namespace {

using testing::HasSubstr;
using wire::compat::LocalRoad;

LocalRoad RoadTo(const LiveServer& server) {
  constexpr size_t kPrefixBytes = sizeof("@maru-") - 1;
  return {.socket_path = server.socket(),
          .abstract_name = server.abstract_name(),
          .host = os::HostIdentity().value(),
          .pool = server.abstract_name().substr(kPrefixBytes)};
}

class EndpointClient : public testing::Test {
 protected:
  ClientOptions Options(const std::string& name_space = "") {
    ClientOptions options = server_.Options();
    options.server_url = router_.address();
    options.name_space = name_space;
    return options;
  }
  std::unique_ptr<Client> Connect(const std::string& name_space = "") {
    return server_.Connect(Options(name_space));
  }
  // The lines that tell a road.
  std::vector<std::string> Roads() const { return log_.LinesWith("using its socket"); }
  Status Refusal() { return Client::Connect(Options()).status(); }

  const RecordedLog log_;
  LiveServer server_{"64MiB"};
  Router router_;
};

TEST_F(EndpointClient, GoesOverTheSocketAndSaysSoOnce) {
  router_.TellRoad(RoadTo(server_));
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(Matches(server_.Connect()->Retrieve("key").value(), "key"));
  EXPECT_EQ(router_.requests(), 1u);
  server_.End(SIGKILL);
  server_.Start();
  EXPECT_TRUE(client->Put("other", BytesOf("other")).value());
  EXPECT_EQ(client->statistics().reconnects, 1u);
  // More often where the background thread tried while there was no server.
  EXPECT_GE(router_.requests(), 2u) << "asked again after the restart";
  const auto roads = Roads();
  ASSERT_EQ(roads.size(), 1u);
  EXPECT_EQ(roads[0], "info " + router_.address() + " is on this host: using its socket " +
                          server_.socket() + " and the pool " + RoadTo(server_).pool + " in place");
}

TEST_F(EndpointClient, TakesTheAbstractNameWhereThePathLeadsNowhere) {
  LocalRoad road = RoadTo(server_);
  road.socket_path = "/nonexistent/maru.sock";
  router_.TellRoad(road);
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
  const auto roads = Roads();
  ASSERT_EQ(roads.size(), 1u);
  EXPECT_THAT(roads[0], HasSubstr("using its socket " + server_.abstract_name()));
  EXPECT_THAT(roads[0], HasSubstr("(no server listens on /nonexistent/maru.sock)"));
}

// In a container with a folder of its own the path may be another server's.
TEST_F(EndpointClient, TakesTheAbstractNameWhereThePathIsAnothers) {
  const LiveServer other("64MiB");
  LocalRoad road = RoadTo(server_);
  road.socket_path = other.socket();
  router_.TellRoad(road);
  const auto client = Connect();
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(server_.Connect()->Exists("key").value());
  EXPECT_FALSE(other.Connect()->Exists("key").value());
  EXPECT_EQ(other.CountInClients("\"label\": \"test\""), 0u);
  EXPECT_THAT(Roads().at(0), HasSubstr("has the pool " + RoadTo(other).pool));
}

TEST_F(EndpointClient, RefusesAnotherPool) {
  LocalRoad road = RoadTo(server_);
  road.pool = "01234567-89ab-cdef-0123-456789abcdef";
  router_.TellRoad(road);
  const Status refused = Refusal();
  EXPECT_CODE(refused, kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has the pool " + RoadTo(server_).pool));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not " + road.pool));
  EXPECT_TRUE(Roads().empty());
}

TEST_F(EndpointClient, RefusesAnotherHost) {
  LocalRoad road = RoadTo(server_);
  road.host = "node-9/01234567-89ab-cdef-0123-456789abcdef";
  router_.TellRoad(road);
  const Status refused = Refusal();
  EXPECT_CODE(refused, kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("runs on the host node-9"));
}

TEST_F(EndpointClient, NamesEachSocketThatItCouldNotTake) {
  LocalRoad road = RoadTo(server_);
  road.socket_path = "/nonexistent/maru.sock";
  road.abstract_name = "@maru-nobody-" + road.pool;
  router_.TellRoad(road);
  const Status refused = Refusal();
  EXPECT_CODE(refused, kUnavailable);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr(router_.address() + " is on this host, but its unix socket"));
  EXPECT_THAT(message, HasSubstr("no server listens on /nonexistent/maru.sock; no server listens "
                                 "on @maru-nobody-"));
  EXPECT_THAT(message, HasSubstr("share its network"));
}

TEST_F(EndpointClient, RefusesAServerThatIsNotOurs) {
  router_.Tell({.rm_address = "127.0.0.1:9850", .server_version = "0.3.1"});
  const Status refused = Refusal();
  EXPECT_CODE(refused, kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is not a Maru server of ours"));
}

TEST_F(EndpointClient, PutsItsNamespaceBelowTheEndpoints) {
  LocalRoad road = RoadTo(server_);
  road.name_space = "tcp://127.0.0.1:5556";
  router_.TellRoad(road);
  EXPECT_TRUE(Connect("team")->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(Connect("")->Put("bare", BytesOf("bare")).value());
  const auto exists = [&](const std::string& name_space, const char* key) {
    ClientOptions options = server_.Options();
    options.name_space = name_space;
    return server_.Connect(options)->Exists(key).value();
  };
  EXPECT_TRUE(exists("tcp://127.0.0.1:5556/team", "key"));
  EXPECT_TRUE(exists("tcp://127.0.0.1:5556", "bare"));
  EXPECT_FALSE(exists("team", "key"));
  EXPECT_FALSE(exists("", "bare"));
  EXPECT_CODE(Client::Connect(Options("tcp://127.0.0.1:5557")), kInvalidArgument);
}

TEST_F(EndpointClient, FollowsTheEndpointToAnotherServer) {
  router_.TellRoad(RoadTo(server_));
  const auto client = Connect();
  ASSERT_TRUE(client->Put("key", BytesOf("key")).value());
  const View view = client->Retrieve("key").value();
  const LiveServer other("64MiB");
  router_.TellRoad(RoadTo(other));
  server_.End(SIGKILL);
  EXPECT_OK(client->Ping());
  EXPECT_FALSE(client->Exists("key").value());
  EXPECT_TRUE(Matches(view, "key"));
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
  EXPECT_TRUE(other.Connect()->Exists("key").value());
  EXPECT_EQ(Roads().size(), 2u);
  EXPECT_TRUE(other.AuditIsClean());
  server_.Start();
}

TEST_F(EndpointClient, GoesOnWithoutTheEndpointWhileTheServerIsThere) {
  ClientOptions options = Options();
  std::unique_ptr<Client> client;
  {
    Router router;
    router.TellRoad(RoadTo(server_));
    options.server_url = router.address();
    client = server_.Connect(options);
  }
  EXPECT_TRUE(client->Put("key", BytesOf("key")).value());
  server_.End(SIGKILL);
  server_.Start();
  const Status lost = client->Ping();
  EXPECT_CODE(lost, kUnavailable);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("no server listens at " + options.server_url));
  EXPECT_TRUE(client->Exists("key").value()) << "looking asks nobody";
}

}  // namespace
}  // namespace maru
