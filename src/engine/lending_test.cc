// Regions for clients of upstream's protocols that get their memory in steps.
#include "engine/lending.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

using compat::RmStatus;

constexpr uint64_t kStepBytes = Lending::kUnitsPerStep * layout::kUnitBytes;

class LendingTest : public testing::Test {
 protected:
  ~LendingTest() override { EXPECT_EQ(Offenders(host_.engine()), ""); }

  pool::Pool::Usage usage(size_t pool = 0) { return host_.pool(pool).usage(); }
  std::optional<compat::AllocReply> GoOn(uint64_t number) {
    const auto reply = host_->GoOnMetadata(number, host_.now_ns());
    if (!reply.has_value()) return std::nullopt;
    return std::get<compat::AllocReply>(*reply);
  }
  // A step at a time, with something else before each.
  compat::AllocReply Finish(uint64_t number, const std::function<void()>& meanwhile = [] {}) {
    while (true) {
      meanwhile();
      const auto reply = GoOn(number);
      if (reply.has_value()) return *reply;
    }
  }
  // Of a region that takes several steps.
  uint64_t Begin(UpstreamClient* client, uint64_t bytes) {
    compat::MetadataReply reply;
    const uint64_t number = client->BeginAlloc(bytes, &reply);
    EXPECT_NE(number, 0u);
    return number;
  }
  // Every unit is in one place.
  void ExpectAllCounted() {
    for (size_t i = 0; i < host_.pools(); ++i) {
      const pool::Pool::Usage at = usage(i);
      EXPECT_EQ(at.pool_bytes, at.head_bytes + at.free_bytes + at.pages_bytes +
                                   at.client_cut_bytes + at.records_bytes + at.text_bytes +
                                   at.index_bytes + at.lease_bytes + at.region_table_bytes);
    }
  }

  TestEngine host_{{.pools = {256 * kMiB, 128 * kMiB}, .scarce = true}};
};

TEST_F(LendingTest, OthersAreAnsweredWhileALargeRegionIsUnderWay) {
  UpstreamClient client(&host_, "a"), other(&host_, "b");
  const uint64_t region = other.Alloc();
  ASSERT_TRUE(other.Register("key", region, 0));
  const uint64_t free_bytes = usage().free_bytes;
  const uint64_t number = Begin(&client, 5 * kStepBytes + 1);
  int steps = 0;
  const compat::AllocReply reply = Finish(number, [&] {
    ++steps;
    EXPECT_TRUE(other.Exists("key"));
    // Taken, and nobody's yet.
    EXPECT_EQ(usage().free_bytes, free_bytes - 5 * kStepBytes - layout::kUnitBytes);
    EXPECT_EQ(other.Stats().allocations, 1u);
    EXPECT_EQ(client.List().size(), 1u);
    ExpectAllCounted();
    EXPECT_EQ(Offenders(host_.engine()), "");
  });
  EXPECT_EQ(steps, 5);  // the first one is the request's own
  ASSERT_TRUE(reply.handle.has_value()) << reply.error;
  EXPECT_EQ(reply.handle->length_bytes, 5 * kStepBytes + layout::kUnitBytes);
  EXPECT_EQ(other.Stats().allocations, 2u);
  EXPECT_TRUE(client.Register("mine", reply.handle->region_id, 5 * kStepBytes));
}

TEST_F(LendingTest, OneOfAStepIsAnsweredAtOnce) {
  UpstreamClient client(&host_, "a");
  compat::MetadataReply reply;
  EXPECT_EQ(client.BeginAlloc(kStepBytes, &reply), 0u);
  EXPECT_TRUE(std::get<compat::AllocReply>(reply).handle.has_value());
  EXPECT_EQ(client.BeginAlloc(uint64_t{1} << 50, &reply), 0u);
  EXPECT_FALSE(std::get<compat::AllocReply>(reply).handle.has_value());
}

TEST_F(LendingTest, NothingIsLentThatHasNoMemory) {
  UpstreamClient client(&host_, "a");
  const compat::AllocReply reply = Finish(Begin(&client, 3 * kStepBytes));
  ASSERT_TRUE(reply.handle.has_value());
  const uint64_t first = reply.handle->offset_bytes / layout::kUnitBytes;
  for (uint64_t i = 0; i < reply.handle->length_bytes / layout::kUnitBytes; ++i) {
    EXPECT_TRUE(host_.scarcity().backed.contains(first + i));
  }
}

TEST_F(LendingTest, TwoAtOnceHaveTheirOwnPlaces) {
  UpstreamClient one(&host_, "a"), two(&host_, "b");
  const uint64_t first = Begin(&one, 3 * kStepBytes), second = Begin(&two, 3 * kStepBytes);
  ASSERT_NE(first, second);
  std::optional<compat::AllocReply> of_first, of_second;
  while (!of_first.has_value() || !of_second.has_value()) {
    if (!of_first.has_value()) of_first = GoOn(first);
    if (!of_second.has_value()) of_second = GoOn(second);
  }
  ASSERT_TRUE(of_first->handle.has_value() && of_second->handle.has_value());
  const compat::Handle &low = *of_first->handle, &high = *of_second->handle;
  EXPECT_NE(low.region_id, high.region_id);
  EXPECT_TRUE(low.offset_bytes + low.length_bytes <= high.offset_bytes ||
              high.offset_bytes + high.length_bytes <= low.offset_bytes);
  ExpectAllCounted();
}

// In the middle of a region the machine has no more, in neither pool: all of it goes back.
TEST_F(LendingTest, WhereMemoryEndsEverythingGoesBack) {
  UpstreamClient client(&host_, "a");
  client.Alloc(kStepBytes);
  const uint64_t free_bytes = usage().free_bytes, free_second = usage(1).free_bytes;
  const auto backed = host_.scarcity().backed;
  host_.scarcity(0).units_left = 2 * Lending::kUnitsPerStep + 3;
  host_.scarcity(1).units_left = Lending::kUnitsPerStep;
  const uint64_t number = Begin(&client, 3 * kStepBytes);
  const compat::AllocReply reply = Finish(number, [&] { ExpectAllCounted(); });
  EXPECT_FALSE(reply.handle.has_value());
  EXPECT_EQ(reply.error, "Allocation failed: no memory left");
  EXPECT_EQ(usage().free_bytes, free_bytes);
  EXPECT_EQ(usage(1).free_bytes, free_second);
  // To the machine as well.
  EXPECT_EQ(host_.scarcity(0).units_left, 2 * Lending::kUnitsPerStep + 3);
  EXPECT_EQ(host_.scarcity(1).units_left, Lending::kUnitsPerStep);
  EXPECT_EQ(host_.scarcity().backed, backed);
  EXPECT_EQ(client.Stats().allocations, 1u);
  host_.scarcity(0).units_left = 1000;
  EXPECT_NE(client.Alloc(3 * kStepBytes), 0u);
}

TEST_F(LendingTest, APoolWithoutMemoryLeavesItToTheNext) {
  UpstreamClient client(&host_, "a");
  const uint64_t free_bytes = usage().free_bytes;
  host_.scarcity(0).units_left = Lending::kUnitsPerStep + 1;
  const compat::AllocReply reply = Finish(Begin(&client, 3 * kStepBytes));
  ASSERT_TRUE(reply.handle.has_value()) << reply.error;
  EXPECT_EQ(usage(0).free_bytes, free_bytes);
  EXPECT_EQ(usage(1).client_cut_bytes, 3 * kStepBytes);
}

// A server that ends in the middle: who asked was not answered, and has nothing.
TEST_F(LendingTest, AKillInTheMiddleLeavesNothingLent) {
  host_.Restart();  // the first start after a kill builds a second index table, which stays
  UpstreamClient client(&host_, "a");
  const uint64_t kept = client.Alloc();
  RmTestClient rm(&host_, "node:1", 1);
  const uint64_t free_bytes = usage().free_bytes;
  const uint64_t number = Begin(&client, 4 * kStepBytes);
  compat::RmReply none;
  ASSERT_NE(rm.BeginAlloc(4 * kStepBytes, 1, &none), 0u);
  EXPECT_FALSE(GoOn(number).has_value());
  EXPECT_LT(usage().free_bytes, free_bytes);
  host_.Restart();
  EXPECT_EQ(usage().free_bytes, free_bytes);
  ExpectAllCounted();
  const auto left = host_.pool().ClientRegions();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].id.value(), kept);
  // The same request is a new one.
  RmTestClient again(&host_, "node:1", 1);
  EXPECT_EQ(again.Alloc(4 * kStepBytes, 1).status, RmStatus::kOk);
  EXPECT_EQ(host_.pool().ClientRegions().size(), 2u);
}

TEST_F(LendingTest, WhoIsNotReachedHasNoRegion) {
  UpstreamClient client(&host_, "a", "lease");
  const compat::AllocReply reply = Finish(Begin(&client, 2 * kStepBytes));
  ASSERT_TRUE(reply.handle.has_value());
  const uint64_t free_bytes = usage().free_bytes;
  host_->MetadataUndelivered(reply, host_.now_ns());
  EXPECT_EQ(usage().free_bytes, free_bytes + 2 * kStepBytes);
  EXPECT_EQ(client.Stats().allocations, 0u);
  host_->MetadataUndelivered(reply, host_.now_ns());  // it is nobody's
  host_->MetadataUndelivered(compat::AllocReply{std::nullopt, "none"}, host_.now_ns());
}

TEST_F(LendingTest, WhatIsGivenUpIsFree) {
  UpstreamClient client(&host_, "a");
  const uint64_t free_bytes = usage().free_bytes;
  const uint64_t number = Begin(&client, 4 * kStepBytes);
  EXPECT_FALSE(GoOn(number).has_value());
  host_->GiveUpMetadata(number, host_.now_ns());
  EXPECT_EQ(usage().free_bytes, free_bytes);
  ExpectAllCounted();
}

constexpr uint64_t kLeaseNs = 10'000'000'000;

TEST_F(LendingTest, ALeaseBeginsWithTheAnswer) {
  UpstreamClient client(&host_, "a", "lease");
  client.SetLease(kLeaseNs);
  const uint64_t number = Begin(&client, 2 * kStepBytes);
  host_.Pass(2 * kLeaseNs);
  const compat::AllocReply late = Finish(number);
  ASSERT_TRUE(late.handle.has_value()) << late.error;
  host_.Pass(kLeaseNs / 2);
  EXPECT_EQ(client.Stats().allocations, 1u);
  host_.Pass(kLeaseNs);
  EXPECT_EQ(client.Stats().allocations, 0u);
}

// Who waits for a region may not be able to say that it lives.
TEST_F(LendingTest, NoLeaseLapsesWhileARegionIsUnderWayForIt) {
  UpstreamClient client(&host_, "a", "lease"), other(&host_, "b", "other");
  client.SetLease(kLeaseNs);
  other.SetLease(kLeaseNs);
  const uint64_t first = client.Alloc();
  other.Alloc();
  const uint64_t number = Begin(&client, 2 * kStepBytes);
  for (int i = 0; i < 3; ++i) host_.Pass(kLeaseNs);
  EXPECT_EQ(client.Stats().allocations, 1u);  // the other's is gone
  EXPECT_TRUE(client.Register("key", first, 0));
  const compat::AllocReply lent = Finish(number);
  ASSERT_TRUE(lent.handle.has_value()) << lent.error;
  EXPECT_FALSE(client.Beat().lease_expired);
  EXPECT_EQ(client.Stats().allocations, 2u);
  host_.Pass(kLeaseNs);
  EXPECT_TRUE(client.Beat().lease_expired);
}

TEST_F(LendingTest, ALeaseGoesOnAfterARegionThatWasRefused) {
  UpstreamClient client(&host_, "a", "lease");
  client.SetLease(kLeaseNs);
  client.Alloc();
  const uint64_t number = Begin(&client, 3 * kStepBytes);
  host_.Pass(kLeaseNs);
  for (size_t i = 0; i < host_.pools(); ++i) host_.scarcity(i).units_left = 0;
  EXPECT_FALSE(Finish(number).handle.has_value());
  host_.Pass(kLeaseNs / 2);
  EXPECT_EQ(client.Stats().allocations, 1u);
  host_.Pass(kLeaseNs);
  EXPECT_TRUE(client.Beat().lease_expired);
}

// Who has no room is told what clients that have gone keep by their keys.
TEST_F(LendingTest, ARefusalTellsOfRoomThatKeysOfTheGoneKeep) {
  UpstreamClient gone(&host_, "gone"), other(&host_, "other");
  const uint64_t kept = gone.Alloc(96 * kMiB), empty = gone.Alloc(4 * kMiB);
  ASSERT_TRUE(gone.Register("key", kept, 0));
  EXPECT_EQ(other.TryAlloc(200 * kMiB).error.find("have gone"), std::string::npos);
  ASSERT_TRUE(gone.Return(kept));
  ASSERT_TRUE(gone.Return(empty));
  const std::string error = other.TryAlloc(200 * kMiB).error;
  EXPECT_NE(error.find("keep 96MiB (1 region)"), std::string::npos) << error;
  ASSERT_TRUE(other.Delete("key"));
  EXPECT_TRUE(other.TryAlloc(200 * kMiB).handle.has_value());
}

// Nobody can renew a lease where nobody listens.
TEST_F(LendingTest, LeasesOfAnEndpointThatIsAwayStartAnew) {
  UpstreamClient client(&host_, "a", "lease", "tcp://127.0.0.1:1"), other(&host_, "b", "lease");
  client.SetLease(kLeaseNs);
  other.SetLease(kLeaseNs);
  client.Alloc();
  other.Alloc();
  const uint64_t away_ns = host_.options().engine.region_lease_ns;
  client.MoveEndpoint();
  host_.Pass(away_ns - 1);
  EXPECT_EQ(other.Stats().active_clients, 0u);
  client.MoveEndpoint();  // there again
  host_.Pass(away_ns - 1);
  EXPECT_FALSE(client.Beat().lease_expired);
  host_.Pass(kLeaseNs);
  EXPECT_TRUE(client.Beat().lease_expired);
}

// One that never comes back.
TEST_F(LendingTest, LeasesOfAnEndpointThatStaysAwayLapse) {
  UpstreamClient client(&host_, "a", "lease"), long_one(&host_, "b", "long");
  client.SetLease(kLeaseNs);
  const uint64_t away_ns = host_.options().engine.region_lease_ns;
  long_one.SetLease(2 * away_ns);
  client.Alloc();
  long_one.Alloc();
  client.MoveEndpoint();
  host_.Pass(away_ns);
  EXPECT_EQ(client.Stats().active_clients, 1u);  // with what was left
  host_.Pass(away_ns);
  EXPECT_EQ(client.Stats().active_clients, 0u);
}

// An endpoint that was opened with leases, and then is without.
TEST_F(LendingTest, WhereTheEndpointHasNoLeasesNoneOfBeforeLapses) {
  UpstreamClient client(&host_, "a", "lease"), other(&host_, "b", "lease", "tcp://127.0.0.1:1");
  const uint64_t away_ns = host_.options().engine.region_lease_ns;
  const uint64_t region = client.Alloc();
  client.Alloc();
  client.SetLease(0);
  client.MoveEndpoint();
  other.Alloc();
  host_.Pass(100 * away_ns);
  EXPECT_EQ(other.Stats().allocations, 0u);
  EXPECT_EQ(client.Stats().allocations, 2u);
  EXPECT_EQ(host_.pool().ClientRegions()[0].client.lease_deadline_unix_ns, 0u);
  client.MoveEndpoint();  // while it is away, too
  host_.Pass(100 * away_ns);
  EXPECT_TRUE(client.Register("key", region, 0));
  // The next server does not know before it is open.
  host_.Restart();
  host_.Pass(away_ns - 1);
  client.MoveEndpoint();
  host_.Pass(100 * away_ns);
  EXPECT_EQ(client.Stats().allocations, 2u);
  EXPECT_TRUE(client.Register("more", region, 4096));
  EXPECT_TRUE(client.Return(region));
  EXPECT_EQ(client.Stats().active_clients, 1u);
}

// With leases again, those of before are taken up, as by a new server.
TEST_F(LendingTest, LeasesThatWereSetAsideAreTakenUpWhereTheEndpointHasLeasesAgain) {
  UpstreamClient client(&host_, "a", "lease");
  client.Alloc();
  client.Alloc();
  client.SetLease(0);
  client.MoveEndpoint();
  client.Alloc();  // without, for good
  client.SetLease(kLeaseNs);
  client.MoveEndpoint();
  const uint64_t away_ns = host_.options().engine.region_lease_ns;
  host_.Pass(away_ns - 1);
  EXPECT_FALSE(client.Beat().lease_expired);
  EXPECT_EQ(client.Stats().allocations, 3u);
  host_.Pass(kLeaseNs);
  EXPECT_TRUE(client.Beat().lease_expired);
  EXPECT_EQ(client.Stats().allocations, 1u);
}

// --- The resource manager's.

class RmLendingTest : public LendingTest {
 protected:
  std::optional<compat::RmAllocReply> GoOnRm(uint64_t number) {
    const auto reply = host_->GoOnRm(number, host_.now_ns());
    if (!reply.has_value()) return std::nullopt;
    return std::get<compat::RmAllocReply>(*reply);
  }
  compat::RmAllocReply FinishRm(uint64_t number) {
    while (true) {
      const auto reply = GoOnRm(number);
      if (reply.has_value()) return *reply;
    }
  }
  compat::RmReply reply_;
};

TEST_F(RmLendingTest, ARequestThatComesAgainMakesNoSecondRegion) {
  RmTestClient client(&host_, "node:1", 1);
  const uint64_t number = client.BeginAlloc(3 * kStepBytes, 7, &reply_);
  ASSERT_NE(number, 0u);
  const compat::RmAllocReply lent = FinishRm(number);
  ASSERT_EQ(lent.status, RmStatus::kOk);
  EXPECT_EQ(lent.requested_bytes, 3 * kStepBytes);
  const compat::RmAllocReply again = client.Alloc(3 * kStepBytes, 7);
  EXPECT_EQ(again.handle.region_id, lent.handle.region_id);
  EXPECT_EQ(host_.pool().ClientRegions().size(), 1u);
}

TEST_F(RmLendingTest, AClosedConnectionGetsNoRegion) {
  RmTestClient client(&host_, "node:1", 1), other(&host_, "node:2", 2);
  const uint64_t free_bytes = usage().free_bytes;
  const uint64_t number = client.BeginAlloc(3 * kStepBytes, 7, &reply_);
  ASSERT_NE(number, 0u);
  const uint64_t others = other.BeginAlloc(3 * kStepBytes, 7, &reply_);
  EXPECT_FALSE(GoOnRm(number).has_value());
  client.Disconnect();
  EXPECT_EQ(usage().free_bytes, free_bytes - 3 * kStepBytes);
  EXPECT_EQ(FinishRm(others).status, RmStatus::kOk);
  EXPECT_EQ(host_.pool().ClientRegions().size(), 1u);
  // It comes back and asks again, as if for the first time.
  RmTestClient back(&host_, "node:1", 3);
  EXPECT_EQ(back.Alloc(3 * kStepBytes, 7).status, RmStatus::kOk);
  EXPECT_EQ(host_.pool().ClientRegions().size(), 2u);
}

TEST_F(RmLendingTest, WhereMemoryEndsItIsRefusedAsBefore) {
  RmTestClient client(&host_, "node:1", 1);
  host_.scarcity(0).units_left = Lending::kUnitsPerStep + 1;
  host_.scarcity(1).units_left = Lending::kUnitsPerStep + 1;
  EXPECT_EQ(client.Alloc(3 * kStepBytes, 1).status, RmStatus::kNoMemory);
  EXPECT_EQ(usage().client_cut_bytes + usage(1).client_cut_bytes, 0u);
  host_.scarcity(0).units_left = 1000;
  EXPECT_EQ(client.Alloc(3 * kStepBytes, 1).status, RmStatus::kOk);
}

}  // namespace
}  // namespace maru::engine
