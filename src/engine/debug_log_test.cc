// What a server tells at the level of debugging: steps that counters alone do not explain.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/test_log.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using Lines = std::vector<std::string>;

TEST(DebugLogTest, TellsWhatIsCutEvictedAndRefused) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const RecordedLog log(LogLevel::kDebug);
  client.Put("first", 4 * kMiB);
  EXPECT_EQ(log.lines(), Lines({"debug a region of pool0 is begun, of pages of 4MiB"}));
  for (int i = 0; log.LinesWith("evicted").empty(); ++i) {
    client.Put(std::to_string(i), 4 * kMiB);
  }
  EXPECT_EQ(log.LinesWith("evicted"), Lines({"debug 1 keys evicted, 0 spared that are held"}));
  EXPECT_FALSE(client.Exists("first"));
  EXPECT_EQ(log.LinesWith("is begun").size(), host.pool().PageRegions().size());

  wire::Reply reply;
  EXPECT_EQ(client.TryAsk(wire::GrantRequest{8 * kMiB, 1}, &reply).code(),
            StatusCode::kResourceExhausted);
  const Lines refused = log.LinesWith("client " + std::to_string(client.id().value()) +
                                      " is granted nothing: the pool is full");
  EXPECT_EQ(refused.size(), 1u);
}

TEST(DebugLogTest, TellsWhatAClientHasSettled) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 3);
  client.Disconnect();
  ASSERT_TRUE(client.Attach().ok());
  const RecordedLog log(LogLevel::kDebug);
  client.Settle({pages[0], pages[1]});
  EXPECT_EQ(log.lines(),
            Lines({"debug client " + std::to_string(client.id().value()) +
                   " has settled: it keeps 2 pages, 1 that it did not name come back"}));
}

TEST(DebugLogTest, ClientsThatHeldNothingHaveLeft) {
  TestEngine host;
  for (const bool holds_a_page : {false, true}) {
    for (const bool holds_a_lease : {false, true}) {
      TestClient client(&host);
      const wire::PageRef page = client.Put(std::to_string(client.id().value()));
      if (holds_a_lease) {
        ASSERT_TRUE(client.Lease(page));
      }
      if (holds_a_page) client.Grant(4096);
      const RecordedLog log(LogLevel::kDebug);
      client.Die();
      const std::string who = "client " + std::to_string(client.id().value()) + " (client) ";
      EXPECT_EQ(log.LinesWith("client "),
                Lines({holds_a_page || holds_a_lease
                           ? "info " + who +
                                 "is dead: its leases and pins have ended, its grants "
                                 "come back"
                           : "debug " + who + "has left"}));
    }
  }
}

TEST(DebugLogTest, IsSilentAtTheUsualLevel) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const RecordedLog log;
  client.Put("key", 4 * kMiB);
  client.Settle({});
  EXPECT_EQ(log.lines(), Lines());
}

}  // namespace
}  // namespace maru::engine
