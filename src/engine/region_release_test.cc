// Regions of clients of upstream's protocols that are gone, released by hand. An audit ends each
// test.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

using compat::RmStatus;
using wire::ReleaseMode;
using wire::ReleaseReply;
using wire::ReleaseVerdict;

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr char kEndpoint[] = "tcp://127.0.0.1:5556";

class RegionReleaseTest : public testing::Test {
 protected:
  ~RegionReleaseTest() override { EXPECT_EQ(Offenders(host_.engine()), ""); }
  uint64_t Lent() {
    return host_.pool(0).usage().client_cut_bytes + host_.pool(1).usage().client_cut_bytes;
  }
  std::vector<ReleaseReply::Item> Release(std::string_view instance, ReleaseMode mode,
                                          std::string_view name_space = "") {
    TestClient tool(&host_, {.name_space = std::string(name_space)});
    const auto reply = tool.Ask<ReleaseReply>(wire::ReleaseRequest{mode, 0, 0, instance});
    EXPECT_EQ(reply.next_region, 0u);
    tool.Die();
    return reply.items;
  }
  std::vector<ReleaseReply::Item> Release(std::string_view instance) {
    return Release(instance, ReleaseMode::kRelease);
  }
  // One region, and that became of it.
  void ExpectOne(const std::vector<ReleaseReply::Item>& items, uint64_t region,
                 ReleaseVerdict verdict) {
    ASSERT_EQ(items.size(), 1u);
    EXPECT_EQ(items[0].region.value(), region);
    EXPECT_EQ(items[0].verdict, verdict);
  }

  TestEngine host_{{.pools = {96 * kMiB, 96 * kMiB}, .engine = {.handle_key = {std::byte{7}}}}};
};

TEST_F(RegionReleaseTest, ADeadClientsRegionsAreLentAnew) {
  UpstreamClient dead(&host_, "dead"), next(&host_, "next");
  std::set<uint64_t> regions;
  for (compat::AllocReply lent = dead.TryAlloc(8 * kMiB); lent.handle.has_value();
       lent = dead.TryAlloc(8 * kMiB)) {
    regions.insert(lent.handle->region_id);
  }
  ASSERT_GT(regions.size(), 12u);  // in both pools
  host_.Pass(86'400 * kSecondNs);
  ASSERT_FALSE(next.TryAlloc(8 * kMiB).handle.has_value());
  std::set<uint64_t> told;
  uint64_t bytes = 0;
  for (const auto& item : Release("dead")) {
    told.insert(item.region.value());
    bytes += item.length_bytes;
    EXPECT_EQ(item.verdict, ReleaseVerdict::kReleased);
    EXPECT_EQ(item.keys, 0u);
  }
  EXPECT_EQ(told, regions);
  EXPECT_EQ(bytes, regions.size() * 8 * kMiB);
  EXPECT_EQ(Lent(), 0u);
  EXPECT_TRUE(next.TryAlloc(8 * kMiB).handle.has_value());
  EXPECT_FALSE(dead.Register("late", *regions.begin(), 0));
  EXPECT_TRUE(Release("dead").empty());
}

TEST_F(RegionReleaseTest, KeysStayAndTheRegionGoesWithTheLast) {
  UpstreamClient dead(&host_, "dead");
  const uint64_t region = dead.Alloc();
  ASSERT_TRUE(dead.Register("one", region, 0));
  ASSERT_TRUE(dead.Register("two", region, 4096));
  const auto items = Release("dead");
  ExpectOne(items, region, ReleaseVerdict::kReleased);
  EXPECT_EQ(items[0].keys, 2u);
  for (const bool restarted : {false, true}) {
    if (restarted) host_.Restart();
    EXPECT_TRUE(dead.Exists("one"));
    EXPECT_FALSE(dead.Register("three", region, 8192));
    EXPECT_TRUE(Release("dead").empty());
    EXPECT_EQ(dead.Stats().active_clients, 0u);
  }
  EXPECT_TRUE(dead.Delete("one"));
  EXPECT_EQ(Lent(), 4 * kMiB);
  EXPECT_TRUE(dead.Delete("two"));
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(RegionReleaseTest, ReadersOfADeletedKeyAreToldAndWaitedFor) {
  UpstreamClient dead(&host_, "dead");
  TestClient reader(&host_);
  const uint64_t region = dead.Alloc();
  ASSERT_TRUE(dead.Register("key", region, 0));
  const wire::PageRef page = reader.Find("key").page;
  ASSERT_TRUE(reader.Lease(page));
  ASSERT_TRUE(dead.Register("over", region, 0));  // its client wrote there already
  ASSERT_TRUE(dead.Delete("over"));
  const auto items = Release("dead");
  ExpectOne(items, region, ReleaseVerdict::kReleased);
  EXPECT_EQ(items[0].keys, 0u);
  EXPECT_EQ(items[0].condemned, 1u);
  EXPECT_EQ(Lent(), 4 * kMiB);
  reader.Release(page);
  host_.Tick();
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(RegionReleaseTest, HowLongARegionStaysOnHoldIsTold) {
  UpstreamClient dead(&host_, "dead");
  const uint64_t region = dead.Alloc(), untold = dead.Alloc();
  ASSERT_TRUE(dead.Register("key", region, 0));
  ASSERT_TRUE(dead.Lookup("key").has_value());
  ASSERT_TRUE(dead.Delete("key"));
  host_.Pass(3 * kSecondNs);
  for (const ReleaseMode mode : {ReleaseMode::kTell, ReleaseMode::kRelease}) {
    const auto items = Release("dead", mode);
    ASSERT_EQ(items.size(), 2u);
    EXPECT_EQ(items[0].region.value(), region);
    EXPECT_EQ(items[0].hold_ms, 57'000u);
    EXPECT_EQ(items[1].region.value(), untold);
    EXPECT_EQ(items[1].hold_ms, 0u);
  }
  EXPECT_EQ(Lent(), 4 * kMiB);
  host_.Pass(57 * kSecondNs);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(RegionReleaseTest, AHoldThatIsOverIsNone) {
  UpstreamClient dead(&host_, "dead");
  const uint64_t region = dead.Alloc();
  ASSERT_TRUE(dead.Register("key", region, 0));
  ASSERT_TRUE(dead.Lookup("key").has_value());
  ASSERT_TRUE(dead.Delete("key"));
  host_.Pass(61 * kSecondNs);
  EXPECT_EQ(Release("dead")[0].hold_ms, 0u);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(RegionReleaseTest, OneRegionByItsId) {
  UpstreamClient a(&host_, ""), there(&host_, "b", "", kEndpoint);
  RmTestClient rm(&host_, "node:1", 1);
  const uint64_t first = a.Alloc(), second = a.Alloc(), elsewhere = there.Alloc();
  const auto of_rm = rm.Alloc(4 * kMiB, 1);
  TestClient tool(&host_);
  const auto release = [&tool](uint64_t region, ReleaseMode mode) {
    return tool.Ask<ReleaseReply>({wire::ReleaseRequest{mode, 0, static_cast<uint32_t>(region)}})
        .items;
  };
  ExpectOne(release(second, ReleaseMode::kRelease), second, ReleaseVerdict::kReleased);
  EXPECT_TRUE(release(second, ReleaseMode::kRelease).empty());
  EXPECT_TRUE(a.Register("key", first, 0));
  EXPECT_FALSE(a.Register("late", second, 0));
  // Another endpoint's is not this one's, and what the resource manager lent is no endpoint's.
  EXPECT_TRUE(release(elsewhere, ReleaseMode::kForce).empty());
  const uint64_t lent = of_rm.handle.region_id;
  ExpectOne(release(lent, ReleaseMode::kRelease), lent, ReleaseVerdict::kConnected);
  ExpectOne(release(lent, ReleaseMode::kForce), lent, ReleaseVerdict::kReleased);
  EXPECT_EQ(Lent(), 8 * kMiB);
}

TEST_F(RegionReleaseTest, ToTellChangesNothing) {
  UpstreamClient dead(&host_, "dead");
  const uint64_t region = dead.Alloc();
  ExpectOne(Release("dead", ReleaseMode::kTell), region, ReleaseVerdict::kReleased);
  EXPECT_TRUE(dead.Register("key", region, 0));
  EXPECT_TRUE(dead.Return(region));
}

TEST_F(RegionReleaseTest, OnlyThatInstanceOfThatEndpoint) {
  UpstreamClient here(&host_, "a"), there(&host_, "a", "", kEndpoint), other(&host_, "b");
  TestClient ours(&host_, {.label = "a"});
  const wire::PageRef page = ours.Put("page", kMiB);
  const uint64_t mine = here.Alloc(), of_another_endpoint = there.Alloc(), others = other.Alloc();
  ExpectOne(Release("a"), mine, ReleaseVerdict::kReleased);
  EXPECT_TRUE(there.Register("key", of_another_endpoint, 0));
  EXPECT_TRUE(other.Register("key", others, 0));
  EXPECT_EQ(host_.State(page).state(), layout::PageState::kLive);
  EXPECT_TRUE(Release("a", ReleaseMode::kForce, "tcp://127.0.0.1:5557").empty());
  ExpectOne(Release("a", ReleaseMode::kRelease, kEndpoint), of_another_endpoint,
            ReleaseVerdict::kReleased);
  EXPECT_FALSE(there.Register("late", of_another_endpoint, 4096));
  EXPECT_TRUE(other.Return(others));
}

TEST_F(RegionReleaseTest, ALongNameIsItsClients) {
  const std::string name(300, 'n');
  UpstreamClient dead(&host_, name), other(&host_, std::string(299, 'n'));
  const uint64_t region = dead.Alloc(), others = other.Alloc();
  ExpectOne(Release(name, ReleaseMode::kTell), region, ReleaseVerdict::kReleased);
  // As it is shown as well.
  ExpectOne(Release(host_.pool().ClientRegions()[0].client.instance_id), region,
            ReleaseVerdict::kReleased);
  EXPECT_TRUE(other.Return(others));
}

TEST_F(RegionReleaseTest, WhatALeaseHoldsIsKept) {
  UpstreamClient a(&host_, "a", "lease-1");
  const uint64_t region = a.Alloc();
  ExpectOne(Release("a", ReleaseMode::kTell), region, ReleaseVerdict::kLeased);
  ExpectOne(Release("a"), region, ReleaseVerdict::kLeased);
  EXPECT_TRUE(a.Register("key", region, 0));
  EXPECT_FALSE(a.Beat().lease_expired);
  host_.Restart();
  ExpectOne(Release("a"), region, ReleaseVerdict::kLeased);
}

TEST_F(RegionReleaseTest, AClientWhoseLeaseWasEndedByForceIsTold) {
  UpstreamClient a(&host_, "a", "lease-1");
  const uint64_t region = a.Alloc(), second = a.Alloc();
  ASSERT_TRUE(a.Register("key", region, 0));
  EXPECT_EQ(Release("a", ReleaseMode::kForce).size(), 2u);
  EXPECT_EQ(Lent(), 4 * kMiB);  // for the key
  EXPECT_TRUE(a.Beat().lease_expired);
  EXPECT_FALSE(a.TryAlloc(kMiB).handle.has_value());
  EXPECT_FALSE(a.Register("late", second, 0));
  host_.Pass(3600 * kSecondNs);  // nothing is left that could lapse
  host_.Restart();
  EXPECT_TRUE(a.Beat().lease_expired);
}

TEST_F(RegionReleaseTest, AClientThatIsConnectedToTheResourceManagerIsKept) {
  RmTestClient client(&host_, "node:1", 1), other(&host_, "node:2", 2);
  const uint64_t region = client.Alloc(2 * kMiB, 1).handle.region_id;
  const auto others = other.Alloc(2 * kMiB, 1);
  ExpectOne(Release("node:1"), region, ReleaseVerdict::kConnected);
  client.Disconnect();
  // Before its time is over.
  ExpectOne(Release("node:1"), region, ReleaseVerdict::kReleased);
  EXPECT_EQ(Lent(), 2 * kMiB);
  // It comes back and asks again: that region is another's by now.
  RmTestClient back(&host_, "node:1", 3);
  EXPECT_NE(back.Alloc(2 * kMiB, 1).handle.region_id, region);
  EXPECT_EQ(other.Free(others.handle, 2), RmStatus::kOk);
  back.Disconnect();
  other.Disconnect();
  host_.Pass(60 * kSecondNs);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(RegionReleaseTest, ByForceAConnectedOneAsWell) {
  const std::string name = "node-" + std::string(80, 'x') + ":1";  // in two texts of its record
  RmTestClient client(&host_, name, 1);
  const auto lent = client.Alloc(2 * kMiB, 1);
  ExpectOne(Release(name, ReleaseMode::kForce), lent.handle.region_id, ReleaseVerdict::kReleased);
  EXPECT_EQ(Lent(), 0u);
  EXPECT_EQ(client.Free(lent.handle, 2), RmStatus::kOk);  // freed before
}

TEST_F(RegionReleaseTest, MoreThanAMessageTakesAreReleasedInSeveral) {
  TestEngine host({.pools = {3 * 1024 * kMiB}});
  UpstreamClient dead(&host, "dead");
  for (uint32_t i = 0; i < wire::kRegionsPerReleaseMax + 3; ++i) dead.Alloc(2 * kMiB);
  TestClient tool(&host);
  wire::ReleaseRequest request{ReleaseMode::kRelease, 0, 0, "dead"};
  const auto first = tool.Ask<ReleaseReply>(request);
  EXPECT_EQ(first.items.size(), wire::kRegionsPerReleaseMax);
  ASSERT_NE(first.next_region, 0u);
  request.from_region = first.next_region;
  const auto second = tool.Ask<ReleaseReply>(request);
  ASSERT_EQ(second.items.size(), 3u);
  EXPECT_EQ(second.items[0].region.value(), first.next_region);
  EXPECT_EQ(second.next_region, 0u);
  EXPECT_EQ(host.pool().usage().client_cut_bytes, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
