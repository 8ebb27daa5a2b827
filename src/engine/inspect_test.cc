#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "engine/inspect.h"
#include "engine/test_engine.h"
#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

using nlohmann::json;

json Inspect(TestClient* client, wire::InspectTopic topic) {
  json all = json::array();
  uint64_t cursor = 0;
  for (int page = 0; page < 100; ++page) {
    const auto reply = client->Ask<wire::InspectReply>(wire::InspectRequest{topic, cursor});
    EXPECT_LT(reply.json.size(), layout::kPayloadBytesMax);
    const json part = json::parse(reply.json);
    if (topic == wire::InspectTopic::kSummary) return part;
    for (const json& item : part) all.push_back(item);
    cursor = reply.next_cursor;
    if (cursor == 0) return all;
  }
  ADD_FAILURE() << "the cursor does not end";
  return all;
}

TEST(InspectTest, TheSummaryCountsPoolsPagesAndClients) {
  TestEngine host({.pools = {64 * kMiB, 32 * kMiB}});
  TestClient client(&host), other(&host);
  client.Put("key");
  client.Grant(4096, 3);
  other.Disconnect();
  host.Advance(5'000'000);
  const json summary = Inspect(&client, wire::InspectTopic::kSummary);
  EXPECT_EQ(summary["server_version"], "1.2.3");
  EXPECT_EQ(summary["uptime_ms"], 5);
  EXPECT_EQ(summary["clients"]["attached"], 1);
  EXPECT_EQ(summary["clients"]["detached"], 1);
  ASSERT_EQ(summary["pools"].size(), 2u);
  const json& pool = summary["pools"][0];
  EXPECT_EQ(pool["pool_bytes"], 64 * kMiB);
  EXPECT_EQ(pool["pages"]["live"], 1);
  EXPECT_EQ(pool["pages"]["granted"], 3);
  EXPECT_EQ(pool["page_sizes"][0]["page_bytes"], 4096);
  EXPECT_EQ(summary["counters"]["registered"], 1);
  EXPECT_EQ(summary["counters"]["pages_granted"], 4);
}

TEST(InspectTest, ClientsAreShownPageByPage) {
  TestEngine host;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 70; ++i) {
    clients.push_back(std::make_unique<TestClient>(
        &host, TestClient::Options{.label = "c" + std::to_string(i),
                                   .name_space = std::string(255, '\1'),
                                   .budget_bytes = kGiB}));
  }
  const wire::PageRef page = clients[3]->Put("key");
  clients[3]->Grant(4096, 2);
  ASSERT_TRUE(clients[3]->Lease(page));
  ASSERT_TRUE(clients[3]->Pin(page));
  clients[3]->leases().Publish({.free_pages = 1,
                                .pending_pages = 0,
                                .held_pages = 1,
                                .last_request = clients[3]->last_request()});
  clients[4]->Disconnect();
  const json shown = Inspect(clients[0].get(), wire::InspectTopic::kClients);
  ASSERT_EQ(shown.size(), 70u);
  const json& third = shown[3];
  EXPECT_EQ(third["label"], "c3");
  EXPECT_EQ(third["pid"], 77);
  EXPECT_EQ(third["uid"], 1000);
  EXPECT_EQ(third["state"], "attached");
  EXPECT_EQ(third["granted_pages"], 2);
  EXPECT_EQ(third["live_bytes"], 4096);
  EXPECT_EQ(third["pins"], 1);
  EXPECT_EQ(third["published"]["free_pages"], 1);
  EXPECT_EQ(third["budget_bytes"], kGiB);
  EXPECT_EQ(shown[4]["state"], "detached");
}

TEST(InspectTest, RegionsShowTheirPages) {
  TestEngine host({.pools = {64 * kMiB, 64 * kMiB}});
  TestClient client(&host);
  client.Put("key", 4096);
  client.Put("large", kMiB);
  host.EndCuts();
  const json regions = Inspect(&client, wire::InspectTopic::kRegions);
  ASSERT_EQ(regions.size(), 2u);
  for (const json& region : regions) {
    EXPECT_EQ(region["pages"]["live"], 1);
    EXPECT_EQ(region["pages"]["all"].get<uint64_t>() * region["page_bytes"].get<uint64_t>(),
              region["length_bytes"].get<uint64_t>());
  }
}

TEST(InspectTest, ManyRegionsArePaged) {
  TestEngine host({.pools = {2 * kGiB}});
  TestClient client(&host);
  for (int i = 1; i <= 300; ++i) {
    ASSERT_TRUE(host.pool().CutPages(2 * kMiB, 2 * kMiB).ok());
  }
  EXPECT_EQ(Inspect(&client, wire::InspectTopic::kRegions).size(), 300u);
}

TEST(InspectTest, RegionsOfBothKindsAreShownOnce) {
  TestEngine host({.pools = {kGiB, kGiB}});
  TestClient client(&host);
  UpstreamClient upstream(&host, "upstream");
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(host.pool(i < 150 ? 0 : 1).CutPages(2 * kMiB, 2 * kMiB).ok());
    if (i < 150) upstream.Alloc(2 * kMiB);
  }
  std::set<uint64_t> ids;
  for (const json& region : Inspect(&client, wire::InspectTopic::kRegions)) {
    EXPECT_TRUE(ids.insert(region["region_id"].get<uint64_t>()).second);
  }
  EXPECT_EQ(ids.size(), 350u);
}

TEST(InspectTest, CondemnedPagesNameTheirHolders) {
  TestEngine host;
  TestClient client(&host), reader(&host, {.label = "the \"reader\"\xff"});
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    const wire::PageRef page = client.Put(key);
    ASSERT_TRUE(reader.Lease(page));
    client.Delete(key);
  }
  const json condemned = Inspect(&client, wire::InspectTopic::kCondemned);
  ASSERT_EQ(condemned.size(), 100u);
  for (const json& page : condemned) {
    ASSERT_EQ(page["holders"].size(), 1u);
    EXPECT_EQ(page["holders"][0], "the \"reader\"\uFFFD");
  }
}

TEST(InspectTest, NamesThatGrowSixfoldWhenTheyAreWrittenFitEveryAnswer) {
  TestEngine host;
  const std::string label(layout::kLabelBytes - 1, '\x01');
  const std::string name_space(layout::kNamespaceBytesMax, '\x02');
  std::vector<std::unique_ptr<TestClient>> readers;
  for (uint32_t i = 0; i < Inspection::kClientsPerPage + 1; ++i) {
    readers.push_back(std::make_unique<TestClient>(
        &host, TestClient::Options{.label = label, .name_space = name_space}));
  }
  TestClient& client = *readers[0];
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    const wire::PageRef page = client.Put(key);
    for (uint32_t r = 1; r <= Inspection::kHoldersPerPage; ++r) {
      ASSERT_TRUE(readers[r]->Lease(page));
    }
    client.Delete(key);
  }
  const json condemned = Inspect(&client, wire::InspectTopic::kCondemned);
  ASSERT_EQ(condemned.size(), 100u);
  for (const json& page : condemned) {
    EXPECT_EQ(page["holders"], json(std::vector(Inspection::kHoldersPerPage, label)));
  }
  EXPECT_EQ(Inspect(&client, wire::InspectTopic::kClients).size(), readers.size());
}

TEST(InspectTest, AnUnknownViewIsRefused) {
  TestEngine host;
  TestClient client(&host);
  wire::Reply reply;
  EXPECT_EQ(
      client.TryAsk(wire::InspectRequest{static_cast<wire::InspectTopic>(99), 0}, &reply).code(),
      StatusCode::kInvalidArgument);
}

TEST(InspectTest, AnyCursorIsAnswered) {
  TestEngine host;
  TestClient client(&host);
  client.Put("key");
  for (const uint64_t cursor : {~uint64_t{0}, uint64_t{0xFFFFFFFF}, uint64_t{1} << 32}) {
    for (uint8_t topic = 1; topic <= 4; ++topic) {
      const auto reply = client.Ask<wire::InspectReply>(
          wire::InspectRequest{static_cast<wire::InspectTopic>(topic), cursor});
      EXPECT_EQ(reply.next_cursor, 0u);
    }
    EXPECT_TRUE(client.Ask<wire::ListReply>(wire::ListRequest{"", cursor, 0}).items.empty());
  }
}

// --- List.

std::vector<std::string> ListAll(TestClient* client, std::string_view prefix, uint32_t count_max) {
  std::vector<std::string> keys;
  uint64_t cursor = 0;
  for (int page = 0; page < 1000; ++page) {
    const auto reply = client->Ask<wire::ListReply>(wire::ListRequest{prefix, cursor, count_max});
    EXPECT_LE(reply.items.size(), count_max == 0 ? 1024 : count_max);
    uint64_t bytes = 0;
    for (const auto& item : reply.items) {
      keys.emplace_back(item.key);
      bytes += item.key.size() + 32;
    }
    EXPECT_LT(bytes, layout::kPayloadBytesMax);
    cursor = reply.next_cursor;
    if (cursor == 0) return keys;
  }
  ADD_FAILURE() << "the cursor does not end";
  return keys;
}

TEST(ListTest, KeysOfTheNamespaceByPrefix) {
  TestEngine host({.pools = {32 * kMiB, 64 * kMiB}});
  TestClient a(&host, {.name_space = "a"}), b(&host, {.name_space = "b"});
  std::set<std::string> expected;
  for (int i = 0; i < 30; ++i) {
    expected.insert("k" + std::to_string(i));
    a.Put("k" + std::to_string(i), kMiB);
    b.Put("k" + std::to_string(i), 4096);
    a.Put("other" + std::to_string(i), 4096);
  }
  for (const uint32_t count_max : {0u, 1u, 7u}) {
    const auto keys = ListAll(&a, "k", count_max);
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()), expected);
    EXPECT_EQ(keys.size(), expected.size());
  }
  EXPECT_EQ(ListAll(&a, "", 0).size(), 60u);
  EXPECT_TRUE(ListAll(&a, "none", 0).empty());
  const auto one = a.Ask<wire::ListReply>(wire::ListRequest{"k1", 0, 1});
  EXPECT_EQ(one.items[0].length_bytes, 1u);
  EXPECT_EQ(one.items[0].page, a.Find(one.items[0].key).page);
}

TEST(ListTest, LongKeysDoNotOverflowAFrame) {
  TestEngine host({.pools = {64 * kMiB}});
  TestClient client(&host);
  for (int i = 0; i < 20; ++i) {
    client.Put(std::to_string(i) + std::string(layout::kKeyBytesMax - 10, 'k'));
  }
  EXPECT_EQ(ListAll(&client, "", 0).size(), 20u);
}

TEST(UnpinTest, ThereAreNoGlobalPinsToEnd) {
  TestEngine host;
  TestClient client(&host);
  ASSERT_TRUE(client.Pin(client.Put("key")));
  const auto reply = client.Ask<wire::UnpinReply>(wire::UnpinRequest{{"key", "other"}});
  EXPECT_EQ(reply.unpinned, (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(client.Delete("key"), wire::DeleteOutcome::kPinned);
}

}  // namespace
}  // namespace maru::engine
