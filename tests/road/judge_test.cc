// Where a client is told to go, and what it makes of an endpoint's answer.
#include <gmock/gmock.h>

#include "base/testing.h"
#include "client/road.h"
#include "os/machine.h"

namespace maru::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::compat::HandshakeReply;
using wire::compat::LocalRoad;

const std::string kBoot = "01234567-89ab-cdef-0123-456789abcdef";
const std::string kHere = "here/" + kBoot;
const LocalRoad kRoad{"/run/maru.sock", "@maru-x", "there/" + kBoot, "uuid", ""};

Result<Road> Judge(const HandshakeReply& reply) {
  return JudgeHandshake(*ParseServer("tcp://localhost:5555"), reply, kHere);
}
std::string Refusal(const HandshakeReply& reply) {
  const Result<Road> road = Judge(reply);
  EXPECT_CODE(road, kFailedPrecondition);
  EXPECT_THAT(std::string(road.status().message()),
              HasSubstr("the server at tcp://localhost:5555"));
  return std::string(road.status().message());
}

TEST(ParseServer, ReadsEndpointsAndSockets) {
  const auto socket = [](std::string_view text) { return ParseServer(text)->socket; };
  EXPECT_EQ(socket("/run/maru.sock"), "/run/maru.sock");
  EXPECT_EQ(socket("maru.sock"), "maru.sock");
  EXPECT_EQ(socket("@maru-x"), "@maru-x");
  EXPECT_EQ(socket("unix:/run/maru.sock"), "/run/maru.sock");
  EXPECT_EQ(socket("unix:@maru-x"), "@maru-x");
  for (const std::string where : {"localhost:5555", "node-7:1", "127.0.0.1:5555", "[::1]:5555"}) {
    ASSERT_OK_AND_ASSIGN(const ServerAddress address, ParseServer("tcp://" + where));
    EXPECT_EQ(address.socket, "");
    EXPECT_EQ(address.metadata.ToString(), where);
    EXPECT_EQ(address.text, "tcp://" + where);
  }
}

TEST(ParseServer, RefusesAnythingElse) {
  for (const char* text : {"", "unix:", "@", "tcp://", "tcp://localhost", "tcp://*:5555",
                           "tcp://localhost:5555/", "http://localhost:5555", "maru://host:1"}) {
    EXPECT_CODE(ParseServer(text), kInvalidArgument) << text;
  }
}

TEST(JudgeHandshake, TheRoadIsThePathThenTheName) {
  ASSERT_OK_AND_ASSIGN(const Road road, Judge({.local_road = kRoad}));
  EXPECT_THAT(road.sockets, ElementsAre("/run/maru.sock", "@maru-x"));
  EXPECT_EQ(road.pool, "uuid");
  EXPECT_EQ(road.name_space, "");
  LocalRoad one = kRoad;
  one.socket_path = "";
  one.name_space = "tcp://127.0.0.1:5556";
  EXPECT_THAT(Judge({.local_road = one})->sockets, ElementsAre("@maru-x"));
  EXPECT_EQ(Judge({.local_road = one})->name_space, "tcp://127.0.0.1:5556");
  one = kRoad;
  one.abstract_name = "";
  EXPECT_THAT(Judge({.local_road = one})->sockets, ElementsAre("/run/maru.sock"));
}

TEST(JudgeHandshake, AnotherHostIsRefusedByName) {
  LocalRoad road = kRoad;
  road.host = "there/f" + kBoot.substr(1);
  std::string refusal = Refusal({.local_road = road});
  EXPECT_THAT(refusal, HasSubstr("on the host there, this process on here"));
  EXPECT_THAT(refusal, HasSubstr("`maru serve`"));
  road.host = "here/f" + kBoot.substr(1);
  refusal = Refusal({.local_road = road});
  EXPECT_THAT(refusal, HasSubstr("on the host " + road.host + ", this process on " + kHere));
}

TEST(JudgeHandshake, AServerThatIsNotOursIsRefused) {
  EXPECT_THAT(Refusal({.rm_address = "127.0.0.1:9850"}), HasSubstr("is not a Maru server of ours"));
  EXPECT_THAT(Refusal({.server_version = "0.3.1"}), HasSubstr("5555 (version 0.3.1) is not"));
  EXPECT_THAT(Refusal({.server_version = "\x1b[0m"}), HasSubstr("5555 is not"));
  EXPECT_THAT(Refusal({.error = "no more clients"}),
              HasSubstr("refuses the handshake: no more clients"));
  EXPECT_THAT(Refusal({.error = "\n"}), HasSubstr("for an odd reason"));
}

TEST(JudgeHandshake, ARoadThatNoServerTellsIsRefused) {
  const auto with = [](auto&& change) {
    LocalRoad road = kRoad;
    change(road);
    return Refusal({.local_road = road});
  };
  const auto unreadable = HasSubstr("tells a road that this version cannot read");
  EXPECT_THAT(with([](LocalRoad& road) { road.socket_path = "relative"; }), unreadable);
  EXPECT_THAT(with([](LocalRoad& road) { road.socket_path = "/run/\nsock"; }), unreadable);
  EXPECT_THAT(with([](LocalRoad& road) { road.abstract_name = "maru-x"; }), unreadable);
  EXPECT_THAT(with([](LocalRoad& road) { road.socket_path = road.abstract_name = ""; }),
              unreadable);
  EXPECT_THAT(with([](LocalRoad& road) { road.pool = ""; }), unreadable);
  EXPECT_THAT(with([](LocalRoad& road) { road.name_space = "team"; }), unreadable);
}

}  // namespace
}  // namespace maru::client
