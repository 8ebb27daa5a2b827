// Upstream's resource manager: regions lent, repeated requests, tokens, clients that go.
#include "engine/resource_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/test_upstream.h"

namespace maru::engine {
namespace {

using compat::RmStatus;

constexpr uint64_t kSecondNs = 1'000'000'000;

class ResourceManagerTest : public testing::Test {
 protected:
  ~ResourceManagerTest() override { EXPECT_EQ(Offenders(host_.engine()), ""); }
  uint64_t Lent() {
    uint64_t bytes = 0;
    for (size_t i = 0; i < host_.pools(); ++i) bytes += host_.pool(i).usage().client_cut_bytes;
    return bytes;
  }
  uint64_t Wait(uint64_t by_ns) { return host_.Pass(by_ns); }

  TestEngine host_{{.pools = {64 * kMiB, 64 * kMiB}, .engine = {.handle_key = {std::byte{7}}}}};
};

TEST_F(ResourceManagerTest, ARegionIsLentMappedAndFreed) {
  RmTestClient client(&host_, "node:1", 1), reader(&host_, "node:2", 2);
  const auto lent = client.Alloc(3 * kMiB, 1);
  ASSERT_EQ(lent.status, RmStatus::kOk);
  EXPECT_EQ(lent.handle.length_bytes, 4 * kMiB);
  EXPECT_EQ(lent.requested_bytes, 3 * kMiB);
  EXPECT_EQ(lent.path, "pool0");
  const auto access = reader.Access(lent.handle);
  EXPECT_EQ(access.status, RmStatus::kOk);
  EXPECT_EQ(access.path, "pool0");
  EXPECT_EQ(access.offset_bytes, lent.handle.offset_bytes);
  EXPECT_EQ(access.length_bytes, 4 * kMiB);
  EXPECT_EQ(client.Free(lent.handle, 2), RmStatus::kOk);
  EXPECT_EQ(Lent(), 0u);
  EXPECT_EQ(reader.Error(compat::RmAccessRequest{lent.handle, "node:2"}), RmStatus::kNoEntry);
  EXPECT_EQ(client.Free(lent.handle, 3), RmStatus::kOk);  // freed before
}

TEST_F(ResourceManagerTest, RefusalsHaveTheirNumbers) {
  RmTestClient client(&host_, "node:1", 1);
  EXPECT_EQ(client.Alloc(kMiB, 1, "/dev/dax9.9").status, RmStatus::kNoEntry);
  EXPECT_EQ(client.Alloc(uint64_t{1} << 50, 2).status, RmStatus::kInvalid);
  EXPECT_EQ(client.Alloc(0, 3).status, RmStatus::kInvalid);
  EXPECT_EQ(client.Alloc(62 * kMiB, 4).status, RmStatus::kNoMemory);
  EXPECT_EQ(client.Alloc(kMiB, 5, "pool1").path, "pool1");
  const auto lent = client.Alloc(kMiB, 6);
  compat::Handle forged = lent.handle;
  forged.auth_token ^= 1;
  EXPECT_EQ(client.Error(compat::RmFreeRequest{forged, "node:1", 7}), RmStatus::kAccess);
  EXPECT_EQ(client.Error(compat::RmAccessRequest{forged, "node:1"}), RmStatus::kAccess);
  forged = lent.handle;
  ++forged.region_id;
  EXPECT_EQ(client.Error(compat::RmAccessRequest{forged, "node:1"}), RmStatus::kAccess);
  forged = lent.handle;
  forged.length_bytes *= 2;
  EXPECT_EQ(client.Error(compat::RmAccessRequest{forged, "node:1"}), RmStatus::kAccess);
  // Another client's, and what a lookup told of a region of pages.
  RmTestClient other(&host_, "node:2", 2);
  EXPECT_EQ(other.Error(compat::RmFreeRequest{lent.handle, "node:2", 1}), RmStatus::kAccess);
  TestClient ours(&host_);
  ours.Put("key");
  const auto told = UpstreamClient(&host_, "a").Lookup("key")->handle;
  EXPECT_EQ(other.Access(told).status, RmStatus::kOk);
  EXPECT_EQ(other.Error(compat::RmFreeRequest{told, "node:2", 2}), RmStatus::kAccess);
  EXPECT_EQ(Lent(), 4 * kMiB);
}

TEST_F(ResourceManagerTest, AConnectionIsBoundToItsFirstClientId) {
  RmTestClient client(&host_, "node:1", 1), impostor(&host_, "node:2", 1);
  client.Alloc(kMiB, 1);
  EXPECT_EQ(impostor.Error(compat::RmAllocRequest{kMiB, "", "node:2", 1}), RmStatus::kInvalid);
  EXPECT_EQ(Lent(), 2 * kMiB);
  RmTestClient nameless(&host_, "", 3);
  EXPECT_EQ(nameless.Error(compat::RmAllocRequest{kMiB, "", "", 1}), RmStatus::kInvalid);
  const std::string zero("x\0y", 3);
  EXPECT_EQ(nameless.Error(compat::RmAllocRequest{kMiB, "", zero, 1}), RmStatus::kInvalid);
}

TEST_F(ResourceManagerTest, ARepeatedRequestIsAnsweredAsTheFirstTime) {
  RmTestClient client(&host_, "node:1", 1);
  const auto first = client.Alloc(kMiB, 1);
  EXPECT_EQ(client.Alloc(kMiB, 1).handle, first.handle);
  EXPECT_EQ(Lent(), 2 * kMiB);
  const auto second = client.Alloc(kMiB, 2);
  EXPECT_NE(second.handle, first.handle);
  EXPECT_EQ(client.Free(first.handle, 3), RmStatus::kOk);
  EXPECT_EQ(client.Free(first.handle, 3), RmStatus::kOk);
  EXPECT_EQ(Lent(), 2 * kMiB);
  // Another size is another request: the counting began anew.
  EXPECT_NE(client.Alloc(10 * kMiB, 2).handle, second.handle);
  // After a reconnect.
  client.Disconnect();
  RmTestClient again(&host_, "node:1", 2);
  EXPECT_EQ(again.Alloc(kMiB, 2).handle, second.handle);
  // Another process of that name, while the first is connected.
  RmTestClient twin(&host_, "node:1", 3);
  again.Alloc(kMiB, 7);
  EXPECT_NE(twin.Alloc(kMiB, 7).handle, again.Alloc(kMiB, 7).handle);
}

TEST_F(ResourceManagerTest, WhatWasFreedIsNotHandedOutAgainToARestartedProcess) {
  RmTestClient client(&host_, "node:1", 1), other(&host_, "node:9", 2);
  const auto first = client.Alloc(20 * kMiB, 1);
  EXPECT_EQ(client.Free(first.handle, 2), RmStatus::kOk);
  client.Disconnect();
  const auto others = other.Alloc(20 * kMiB, 1);
  EXPECT_EQ(others.handle.offset_bytes, first.handle.offset_bytes);
  // The name and the counting are those of a container that was started again.
  RmTestClient restarted(&host_, "node:1", 3);
  const auto anew = restarted.Alloc(20 * kMiB, 1);
  ASSERT_EQ(anew.status, RmStatus::kOk);
  EXPECT_NE(anew.handle, first.handle);
  EXPECT_NE(anew.handle.offset_bytes, others.handle.offset_bytes);
  EXPECT_EQ(restarted.Access(anew.handle).offset_bytes, anew.handle.offset_bytes);
  EXPECT_EQ(Lent(), 40 * kMiB);
  // The same when keys keep the region that was freed.
  UpstreamClient a(&host_, "a");
  ASSERT_TRUE(a.Register("key", anew.handle.region_id, 0));
  EXPECT_EQ(restarted.Free(anew.handle, 2), RmStatus::kOk);
  restarted.Disconnect();
  RmTestClient third(&host_, "node:1", 4);
  EXPECT_NE(third.Alloc(20 * kMiB, 1).handle, anew.handle);
}

TEST_F(ResourceManagerTest, WhereAKeyWasRegisteredARestartedProcessGetsARegionOfItsOwn) {
  UpstreamClient a(&host_, "a");
  RmTestClient client(&host_, "node:1", 1);
  const auto first = client.Alloc(4 * kMiB, 1);
  ASSERT_TRUE(a.Register("key", first.handle.region_id, 0));
  EXPECT_EQ(client.Alloc(4 * kMiB, 1).handle, first.handle);  // the process that wrote it
  client.Disconnect();
  RmTestClient second(&host_, "node:1", 2);
  const auto anew = second.Alloc(4 * kMiB, 1);
  ASSERT_EQ(anew.status, RmStatus::kOk);
  EXPECT_NE(anew.handle, first.handle);
  EXPECT_EQ(second.Alloc(4 * kMiB, 1).handle, anew.handle);
  // Nobody knows yet that it came with the second one's name.
  second.Disconnect();
  RmTestClient third(&host_, "node:1", 3);
  EXPECT_EQ(third.Alloc(4 * kMiB, 1).handle, anew.handle);
  EXPECT_EQ(a.Lookup("key")->handle, first.handle);
  // Also when the key has gone.
  ASSERT_TRUE(a.Register("other", anew.handle.region_id, 0));
  ASSERT_TRUE(a.Delete("other"));
  third.Disconnect();
  RmTestClient fourth(&host_, "node:1", 4);
  EXPECT_NE(fourth.Alloc(4 * kMiB, 1).handle, anew.handle);
}

TEST_F(ResourceManagerTest, ANewServerKnowsWhereKeysAreOrWereToldOf) {
  UpstreamClient a(&host_, "a");
  RmTestClient client(&host_, "node:1", 1);
  const auto keyed = client.Alloc(4 * kMiB, 1), told = client.Alloc(6 * kMiB, 2);
  const auto untouched = client.Alloc(8 * kMiB, 3);
  ASSERT_TRUE(a.Register("key", keyed.handle.region_id, 0));
  ASSERT_TRUE(a.Register("told", told.handle.region_id, 0));
  ASSERT_TRUE(a.Lookup("told").has_value());
  ASSERT_TRUE(a.Delete("told"));
  host_.Restart();
  RmTestClient again(&host_, "node:1", 1);
  EXPECT_NE(again.Alloc(4 * kMiB, 1).handle, keyed.handle);
  EXPECT_NE(again.Alloc(6 * kMiB, 2).handle, told.handle);
  // Nor who had the answer: whoever asks may have its name alone.
  EXPECT_NE(again.Alloc(8 * kMiB, 3).handle, untouched.handle);
  EXPECT_EQ(a.Lookup("key")->handle, keyed.handle);
}

TEST_F(ResourceManagerTest, ARestartedProcessDoesNotKeepTheRegionOfTheOneBefore) {
  UpstreamClient a(&host_, "a");
  RmTestClient client(&host_, "node:1", 1);
  const auto first = client.Alloc(4 * kMiB, 1);
  ASSERT_TRUE(a.Register("key", first.handle.region_id, 0));
  client.Disconnect();
  RmTestClient second(&host_, "node:1", 2);
  second.Alloc(4 * kMiB, 1);
  EXPECT_EQ(host_.engine().RmRegionsOf("node:1"), 2u);
  const uint64_t next_ns = Wait(29 * kSecondNs);
  EXPECT_EQ(next_ns, host_.now_ns() + kSecondNs);
  EXPECT_EQ(host_.engine().RmRegionsOf("node:1"), 2u);
  Wait(kSecondNs);
  EXPECT_EQ(host_.engine().RmRegionsOf("node:1"), 1u);
  EXPECT_FALSE(a.Register("late", first.handle.region_id, 8192));
  EXPECT_TRUE(a.Exists("key"));
  ASSERT_TRUE(a.Delete("key"));
  EXPECT_EQ(Lent(), 4 * kMiB);
}

TEST_F(ResourceManagerTest, ProcessesThatAreStartedAgainAndAgainDoNotFillThePool) {
  UpstreamClient a(&host_, "a");
  for (uint64_t life = 1; life <= 20; ++life) {
    RmTestClient client(&host_, "node:1", life);
    for (uint64_t id = 1; id <= 2; ++id) {
      const auto lent = client.Alloc(20 * kMiB, id);
      ASSERT_EQ(lent.status, RmStatus::kOk) << life;
      ASSERT_TRUE(a.Register("key", lent.handle.region_id, 0));
      ASSERT_TRUE(a.Delete("key"));
    }
    Wait(31 * kSecondNs);
    EXPECT_EQ(host_.engine().RmRegionsOf("node:1"), 2u) << life;
    client.Disconnect();
  }
}

TEST_F(ResourceManagerTest, AStartedProcessThatFindsNoRoomGetsThatOfTheOneBefore) {
  UpstreamClient a(&host_, "a");
  RmTestClient client(&host_, "node:1", 1);
  for (uint64_t id = 1; id <= 2; ++id) {
    const uint64_t region = client.Alloc(40 * kMiB, id).handle.region_id;
    ASSERT_TRUE(a.Register("key", region, 0));
    ASSERT_TRUE(a.Delete("key"));
  }
  client.Disconnect();
  RmTestClient anew(&host_, "node:1", 2);
  EXPECT_EQ(anew.Alloc(40 * kMiB, 1).status, RmStatus::kNoMemory);
  Wait(20 * kSecondNs);
  EXPECT_EQ(anew.Alloc(40 * kMiB, 1).status, RmStatus::kNoMemory);
  Wait(10 * kSecondNs);
  EXPECT_EQ(anew.Alloc(40 * kMiB, 1).status, RmStatus::kOk);
}

// Its first connection ended, and it goes on over a second one.
TEST_F(ResourceManagerTest, AClientThatIsConnectedKeepsItsRegionsFromOthersOfItsName) {
  UpstreamClient a(&host_, "a");
  RmTestClient first(&host_, "host:1", 1), second(&host_, "host:1", 2);
  const auto keyed = first.Alloc(4 * kMiB, 1), bare = first.Alloc(6 * kMiB, 2);
  ASSERT_TRUE(a.Register("key", keyed.handle.region_id, 0));
  EXPECT_EQ(second.Access(keyed.handle).status, RmStatus::kOk);
  first.Disconnect();
  RmTestClient other(&host_, "host:1", 3);
  const auto keyed_too = other.Alloc(4 * kMiB, 1), bare_too = other.Alloc(6 * kMiB, 2);
  EXPECT_NE(keyed_too.handle, keyed.handle);
  EXPECT_NE(bare_too.handle, bare.handle);
  for (int i = 0; i < 60; ++i) Wait(kSecondNs);  // served meanwhile
  EXPECT_TRUE(a.Register("more", keyed.handle.region_id, 8192));
  EXPECT_TRUE(a.Register("first", bare.handle.region_id, 0));
  // When it is gone, those of the one that asked stay.
  second.Disconnect();
  Wait(29 * kSecondNs);
  EXPECT_EQ(host_.engine().RmRegionsOf("host:1"), 4u);
  Wait(kSecondNs);
  EXPECT_EQ(host_.engine().RmRegionsOf("host:1"), 2u);
  EXPECT_FALSE(a.Register("late", keyed.handle.region_id, 16384));
  EXPECT_TRUE(a.Register("own", keyed_too.handle.region_id, 0));
}

TEST_F(ResourceManagerTest, AfterARestartAClientKeepsItsRegionsWhenAnotherOfItsNameIsStartedAgain) {
  UpstreamClient a(&host_, "a");
  RmTestClient one(&host_, "host:1", 1), two(&host_, "host:1", 2);
  std::vector<compat::Handle> of_one, of_two;
  for (uint64_t id = 1; id <= 3; ++id) {
    of_one.push_back(one.Alloc(4 * kMiB, id).handle);
    of_two.push_back(two.Alloc(4 * kMiB, id).handle);
    ASSERT_TRUE(a.Register("one" + std::to_string(id), of_one.back().region_id, 0));
    ASSERT_TRUE(a.Register("two" + std::to_string(id), of_two.back().region_id, 0));
  }
  host_.Restart();
  RmTestClient one_again(&host_, "host:1", 1), two_again(&host_, "host:1", 2);
  EXPECT_EQ(one_again.Access(of_one[0]).status, RmStatus::kOk);
  EXPECT_EQ(two_again.Access(of_two[0]).status, RmStatus::kOk);
  two_again.Disconnect();
  RmTestClient anew(&host_, "host:1", 3);
  for (uint64_t id = 1; id <= 3; ++id) {
    const auto lent = anew.Alloc(4 * kMiB, id);
    EXPECT_EQ(std::ranges::count(of_one, lent.handle) + std::ranges::count(of_two, lent.handle), 0);
  }
  Wait(600 * kSecondNs);
  for (const compat::Handle& handle : of_one) {
    EXPECT_TRUE(a.Register("r" + std::to_string(handle.region_id), handle.region_id, 8192));
  }
}

// It says nothing for a while, and has not filled its region yet.
TEST_F(ResourceManagerTest, AfterARestartNobodyGetsARegionWhoseHolderIsNotBackYet) {
  RmTestClient holder(&host_, "host:1", 1);
  const auto held = holder.Alloc(4 * kMiB, 1);
  host_.Restart();
  RmTestClient newcomer(&host_, "host:1", 1), back(&host_, "host:1", 2);
  EXPECT_NE(newcomer.Alloc(4 * kMiB, 1).handle, held.handle);
  EXPECT_EQ(back.Access(held.handle).status, RmStatus::kOk);
  Wait(600 * kSecondNs);
  EXPECT_TRUE(UpstreamClient(&host_, "a").Register("key", held.handle.region_id, 0));
}

TEST_F(ResourceManagerTest, AnAnswerIsOnItsWayForAWhileOnly) {
  RmTestClient holder(&host_, "host:1", 1);
  const auto held = holder.Alloc(4 * kMiB, 1);
  Wait(29 * kSecondNs);
  holder.Disconnect();
  RmTestClient again(&host_, "host:1", 2);
  EXPECT_EQ(again.Alloc(4 * kMiB, 1).handle, held.handle);
  Wait(kSecondNs);
  EXPECT_EQ(again.Alloc(4 * kMiB, 1).handle, held.handle);
  again.Disconnect();
  RmTestClient other(&host_, "host:1", 3);
  EXPECT_NE(other.Alloc(4 * kMiB, 1).handle, held.handle);
}

// Of two lost answers to one request nobody can tell which is whose.
TEST_F(ResourceManagerTest, WhereTwoAnswersWereLostNeitherIsRepeated) {
  RmTestClient one(&host_, "host:1", 1), two(&host_, "host:1", 2);
  const auto first = one.Alloc(4 * kMiB, 1), second = two.Alloc(4 * kMiB, 1);
  one.Disconnect();
  two.Disconnect();
  RmTestClient back(&host_, "host:1", 3);
  const auto anew = back.Alloc(4 * kMiB, 1);
  EXPECT_NE(anew.handle, first.handle);
  EXPECT_NE(anew.handle, second.handle);
  // One was lost, while the other has its own.
  RmTestClient third(&host_, "host:1", 4);
  const auto own = third.Alloc(4 * kMiB, 1);
  Wait(30 * kSecondNs);
  EXPECT_EQ(Lent(), 8 * kMiB);
  EXPECT_EQ(back.Alloc(4 * kMiB, 1).handle, anew.handle);
  EXPECT_EQ(third.Alloc(4 * kMiB, 1).handle, own.handle);
}

TEST_F(ResourceManagerTest, TheOneBeforeKeepsItsRegionWhileItRegistersThere) {
  UpstreamClient a(&host_, "a");
  RmTestClient client(&host_, "node:1", 1);
  const auto first = client.Alloc(4 * kMiB, 1);
  ASSERT_TRUE(a.Register("key", first.handle.region_id, 0));
  client.Disconnect();
  RmTestClient twin(&host_, "node:1", 2), back(&host_, "node:1", 3);
  EXPECT_NE(twin.Alloc(4 * kMiB, 1).handle, first.handle);
  Wait(20 * kSecondNs);
  ASSERT_TRUE(a.Register("more", first.handle.region_id, 8192));
  Wait(40 * kSecondNs);
  EXPECT_EQ(host_.engine().RmRegionsOf("node:1"), 2u);
  // It is freed while that time runs once more.
  RmTestClient third(&host_, "node:1", 4);
  third.Alloc(4 * kMiB, 1);
  EXPECT_EQ(back.Free(first.handle, 2), RmStatus::kOk);
  Wait(60 * kSecondNs);
  EXPECT_EQ(host_.engine().RmRegionsOf("node:1"), 2u);
}

// Two processes of one name, as containers of one network have it, in the orders in which they can
// come back. None of them may have the other's region.

TEST_F(ResourceManagerTest, AfterARestartTwoOfOneNameDoNotShareAnAnswer) {
  RmTestClient one(&host_, "host:1", 1), two(&host_, "host:1", 2);
  const auto first = one.Alloc(4 * kMiB, 1), second = two.Alloc(4 * kMiB, 1);
  ASSERT_NE(first.handle, second.handle);
  host_.Restart();
  RmTestClient one_again(&host_, "host:1", 1), two_again(&host_, "host:1", 2);
  const auto to_one = one_again.Alloc(4 * kMiB, 1), to_two = two_again.Alloc(4 * kMiB, 1);
  EXPECT_NE(to_one.handle, to_two.handle);
  EXPECT_EQ(one_again.Alloc(4 * kMiB, 1).handle, to_one.handle);
  EXPECT_EQ(two_again.Alloc(4 * kMiB, 1).handle, to_two.handle);
  for (const auto& of_before : {first.handle, second.handle}) {
    EXPECT_NE(to_one.handle, of_before);
    EXPECT_NE(to_two.handle, of_before);
  }
  // A third one has nothing of theirs; who loses its connection has its own again.
  RmTestClient third(&host_, "host:1", 3);
  const auto to_third = third.Alloc(4 * kMiB, 1);
  EXPECT_NE(to_third.handle, to_one.handle);
  EXPECT_NE(to_third.handle, to_two.handle);
  two_again.Disconnect();
  RmTestClient back(&host_, "host:1", 4);
  EXPECT_EQ(back.Alloc(4 * kMiB, 1).handle, to_two.handle);
  // Those of before nobody asked for but processes that have others now.
  Wait(30 * kSecondNs);
  EXPECT_EQ(Lent(), 12 * kMiB);
}

TEST_F(ResourceManagerTest, AfterARestartNobodyGetsARegionWhoseHolderIsBack) {
  RmTestClient holder(&host_, "host:1", 1);
  const auto held = holder.Alloc(4 * kMiB, 1);
  host_.Restart();
  RmTestClient back(&host_, "host:1", 1), newcomer(&host_, "host:1", 2);
  EXPECT_EQ(back.Access(held.handle).status, RmStatus::kOk);
  const auto own = newcomer.Alloc(4 * kMiB, 1);
  ASSERT_EQ(own.status, RmStatus::kOk);
  EXPECT_NE(own.handle, held.handle);
  // Who reads there by a name that is the same has not asked for it.
  EXPECT_EQ(newcomer.Access(held.handle).status, RmStatus::kOk);
  EXPECT_EQ(newcomer.Alloc(4 * kMiB, 1).handle, own.handle);
  EXPECT_EQ(newcomer.Free(own.handle, 2), RmStatus::kOk);
  EXPECT_EQ(back.Access(held.handle).status, RmStatus::kOk);
}

TEST_F(ResourceManagerTest, AReconnectedHolderKeepsItsRegionToItself) {
  for (const bool frees : {false, true}) {
    RmTestClient holder(&host_, "host:1", 1);
    const auto held = holder.Alloc(4 * kMiB, 1), other = holder.Alloc(6 * kMiB, 2);
    EXPECT_EQ(holder.Access(held.handle).status, RmStatus::kOk);
    EXPECT_EQ(holder.Alloc(4 * kMiB, 1).handle, held.handle);  // on its own connection
    holder.Disconnect();
    RmTestClient back(&host_, "host:1", 2), newcomer(&host_, "host:1", 3);
    if (frees) {
      EXPECT_EQ(back.Free(other.handle, 3), RmStatus::kOk);
    } else {
      EXPECT_EQ(back.Access(other.handle).status, RmStatus::kOk);
    }
    const auto own = newcomer.Alloc(4 * kMiB, 1), more = newcomer.Alloc(6 * kMiB, 2);
    EXPECT_NE(own.handle, held.handle);
    EXPECT_NE(more.handle, other.handle);
    EXPECT_EQ(newcomer.Free(own.handle, 3), RmStatus::kOk);
    EXPECT_EQ(back.Access(held.handle).status, RmStatus::kOk);
    back.Disconnect();
    newcomer.Disconnect();
    Wait(60 * kSecondNs);
    EXPECT_EQ(Lent(), 0u);
  }
}

TEST_F(ResourceManagerTest, ARefusalIsNotRemembered) {
  RmTestClient client(&host_, "node:1", 1), other(&host_, "node:9", 2);
  const auto taken = other.Alloc(40 * kMiB, 1), taken_too = other.Alloc(40 * kMiB, 2);
  EXPECT_EQ(client.Alloc(40 * kMiB, 1).status, RmStatus::kNoMemory);
  client.Disconnect();
  EXPECT_EQ(other.Free(taken.handle, 3), RmStatus::kOk);
  RmTestClient restarted(&host_, "node:1", 3);
  EXPECT_EQ(restarted.Alloc(40 * kMiB, 1).status, RmStatus::kOk);
  // FREE of what is not the client's, repeated.
  EXPECT_EQ(restarted.Error(compat::RmFreeRequest{taken_too.handle, "node:1", 2}),
            RmStatus::kAccess);
  EXPECT_EQ(other.Free(taken_too.handle, 4), RmStatus::kOk);
  EXPECT_EQ(restarted.Free(taken_too.handle, 2), RmStatus::kOk);
}

TEST_F(ResourceManagerTest, AClientThatIsGoneForLongLosesItsRegions) {
  RmTestClient client(&host_, "node:1", 1), second(&host_, "node:1", 2);
  const auto handle = client.Alloc(kMiB, 1).handle;
  EXPECT_EQ(second.Access(handle).status, RmStatus::kOk);
  client.Disconnect();
  Wait(60 * kSecondNs);
  EXPECT_EQ(Lent(), 2 * kMiB);  // it has another connection
  second.Disconnect();
  const uint64_t next_ns = Wait(29 * kSecondNs);
  EXPECT_EQ(next_ns, host_.now_ns() + kSecondNs);
  RmTestClient back(&host_, "node:1", 3);
  EXPECT_EQ(back.Access(handle).status, RmStatus::kOk);
  Wait(60 * kSecondNs);
  EXPECT_EQ(Lent(), 2 * kMiB);
  back.Disconnect();
  Wait(30 * kSecondNs);
  EXPECT_EQ(Lent(), 0u);
  // Its counting begins anew.
  RmTestClient anew(&host_, "node:1", 4);
  EXPECT_NE(anew.Alloc(kMiB, 1).handle, handle);
}

TEST_F(ResourceManagerTest, AClientGoesWithTheLastOfItsConnectionsAlsoWithoutARegion) {
  RmTestClient client(&host_, "node:1", 1), second(&host_, "node:1", 2);
  const auto lent = RmTestClient(&host_, "node:2", 3).Alloc(kMiB, 1);
  EXPECT_EQ(client.Access(lent.handle).status, RmStatus::kOk);
  EXPECT_EQ(second.Access(lent.handle).status, RmStatus::kOk);
  second.Disconnect();
  EXPECT_EQ(client.Alloc(kMiB, 1).status, RmStatus::kOk);
  client.Disconnect();
  EXPECT_EQ(Lent(), 4 * kMiB);
  Wait(30 * kSecondNs);
  EXPECT_EQ(Lent(), 2 * kMiB);
}

TEST_F(ResourceManagerTest, APauseOfTheServerCountsAgainstNoClient) {
  RmTestClient client(&host_, "node:1", 1);
  client.Alloc(kMiB, 1);
  client.Disconnect();
  Wait(20 * kSecondNs);
  host_.Advance(600 * kSecondNs);
  host_.Tick();
  EXPECT_EQ(Lent(), 2 * kMiB);
  Wait(11 * kSecondNs);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(ResourceManagerTest, ARegionWithKeysOutlivesItsClient) {
  RmTestClient client(&host_, "node:1", 1);
  UpstreamClient a(&host_, "a");
  const auto lent = client.Alloc(kMiB, 1);
  ASSERT_TRUE(a.Register("key", lent.handle.region_id, 0));
  EXPECT_EQ(client.Free(lent.handle, 2), RmStatus::kOk);
  EXPECT_EQ(client.Free(lent.handle, 3), RmStatus::kOk);
  EXPECT_EQ(a.Lookup("key")->handle, lent.handle);
  EXPECT_FALSE(a.Return(lent.handle.region_id));
  EXPECT_EQ(Lent(), 2 * kMiB);
  EXPECT_TRUE(a.Delete("key"));
  Wait(61 * kSecondNs);
  EXPECT_EQ(Lent(), 0u);
  // Regions of the resource manager are no instance's.
  EXPECT_TRUE(a.List().empty());
  EXPECT_EQ(a.Stats().allocations, 0u);
}

TEST_F(ResourceManagerTest, ANewServerKnowsClientsRequestsAndTokens) {
  const std::string id = std::string(100, 'h') + ":6943";
  RmTestClient client(&host_, id, 1);
  const auto lent = client.Alloc(3 * kMiB, 41);
  host_.Restart();
  RmTestClient again(&host_, id, 1);
  EXPECT_EQ(again.Access(lent.handle).offset_bytes, lent.handle.offset_bytes);
  const auto more = again.Alloc(kMiB, 42);
  EXPECT_EQ(Lent(), 6 * kMiB);
  host_.Restart();
  RmTestClient third(&host_, id, 5);
  EXPECT_EQ(third.Free(more.handle, 43), RmStatus::kOk);
  EXPECT_EQ(Lent(), 4 * kMiB);
  host_.Restart();
  Wait(29 * kSecondNs);
  EXPECT_EQ(Lent(), 4 * kMiB);
  Wait(kSecondNs);
  EXPECT_EQ(Lent(), 0u);
}

TEST_F(ResourceManagerTest, LongIdsAreToldApartAlsoByANewServer) {
  const std::string host(250, 'h');
  RmTestClient one(&host_, host + ":1", 1), two(&host_, host + ":2", 2);
  const auto lent = one.Alloc(kMiB, 1);
  ASSERT_EQ(lent.status, RmStatus::kOk);
  EXPECT_EQ(host_.engine().RmRegionsOf(one.client_id()), 1u);
  EXPECT_EQ(host_.engine().RmRegionsOf(two.client_id()), 0u);
  EXPECT_NE(two.Alloc(kMiB, 1).handle, lent.handle);
  EXPECT_EQ(two.Error(compat::RmFreeRequest{lent.handle, two.client_id(), 2}), RmStatus::kAccess);
  host_.Restart();
  RmTestClient again(&host_, host + ":1", 1);
  EXPECT_EQ(two.Error(compat::RmFreeRequest{lent.handle, two.client_id(), 3}), RmStatus::kAccess);
  EXPECT_EQ(again.Free(lent.handle, 2), RmStatus::kOk);
  EXPECT_EQ(Lent(), 2 * kMiB);
}

TEST_F(ResourceManagerTest, StatsShowEachPool) {
  RmTestClient client(&host_, "node:1", 1);
  const auto before = client.Ask<compat::RmStatsReply>(compat::RmStatsRequest{});
  ASSERT_EQ(before.pools.size(), 2u);
  EXPECT_EQ(before.pools[1].path, "pool1");
  EXPECT_EQ(before.pools[1].type, compat::RmPoolType::kFsDax);
  EXPECT_EQ(before.pools[1].total_bytes, 64 * kMiB);
  EXPECT_EQ(before.pools[1].align_bytes, 2 * kMiB);
  client.Alloc(kMiB, 1, "pool1");
  const auto after = client.Ask<compat::RmStatsReply>(compat::RmStatsRequest{});
  EXPECT_EQ(after.pools[1].free_bytes, before.pools[1].free_bytes - 2 * kMiB);
}

TEST_F(ResourceManagerTest, NamesThatComeAndGoKeepNobodyOut) {
  RmTestClient owner(&host_, "owner:1", 1), first(&host_, "first:1", 2);
  const auto kept = owner.Alloc(kMiB, 1);
  owner.Disconnect();
  const auto freed = first.Alloc(kMiB, 1);
  first.Free(freed.handle, 2);
  first.Disconnect();
  host_.Advance(kSecondNs);
  for (uint64_t i = 0; i < RmClients::kClientsMax + 100; ++i) {
    RmTestClient made_up(&host_, "x:" + std::to_string(i), 100 + i);
    const auto lent = made_up.Alloc(kMiB, 1);
    ASSERT_EQ(lent.status, RmStatus::kOk) << i;
    ASSERT_EQ(made_up.Free(lent.handle, 2), RmStatus::kOk);
    made_up.Disconnect();
  }
  // Who has a region is remembered, the others from the one that has been gone for longest.
  RmTestClient back(&host_, "owner:1", 50), gone(&host_, "first:1", 51);
  EXPECT_EQ(back.Alloc(kMiB, 1).handle, kept.handle);
  EXPECT_EQ(gone.Free(freed.handle, 2), RmStatus::kOk);
  EXPECT_EQ(Lent(), 2 * kMiB);
}

TEST_F(ResourceManagerTest, WhatIsRememberedIsBounded) {
  RmTestClient client(&host_, "node:1", 1);
  const auto first = client.Alloc(kMiB, 1), freed = client.Alloc(kMiB, 1000);
  for (uint64_t i = 2; i < 2 + RmClients::kAnsweredMax; ++i) client.Free(freed.handle, i);
  EXPECT_NE(client.Alloc(kMiB, 1).handle, first.handle);
  for (uint64_t i = 0; i < RmClients::kClientsMax - 1; ++i) {
    RmTestClient other(&host_, "other:" + std::to_string(i), 100 + i);
    EXPECT_EQ(other.Access(client.Alloc(kMiB, 500).handle).status, RmStatus::kOk);
  }
  RmTestClient last(&host_, "last:1", 99'999);
  EXPECT_EQ(last.Error(compat::RmAllocRequest{kMiB, "", "last:1", 1}), RmStatus::kInvalid);
  RmTestClient(&host_, "other:7", 107).Disconnect();
  EXPECT_EQ(last.Alloc(kMiB, 1).status, RmStatus::kOk);
}

}  // namespace
}  // namespace maru::engine
