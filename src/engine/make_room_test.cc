// What a full pool makes the engine do beside eviction: idle grants recalled, regions freed and cut
// anew for another page size, a namespace trimmed to a quota.
#include <gtest/gtest.h>

#include "engine/evict.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;

// The client says that so many pages lie idle in its hand.
void SayIdle(TestClient* client, uint64_t pages) {
  client->leases().Publish({.free_pages = pages, .last_request = client->last_request()});
}

TEST(RecallTest, ClientsAreAskedForNoMoreThanLiesIdle) {
  TestEngine host;
  TestClient a(&host), b(&host), c(&host);
  a.Grant(4096, 4);
  b.Grant(4096, 4);
  c.Grant(8192, 4);
  SayIdle(&a, 2);
  SayIdle(&b, 100);  // more than it has
  SayIdle(&c, 4);    // of another size
  EXPECT_EQ(host->RecallIdle(4096, 5, host.now_ns()), 5u);
  EXPECT_EQ(a.leases().recall(), 2u);
  EXPECT_EQ(b.leases().recall(), 3u);
  EXPECT_EQ(c.leases().recall(), 0u);
  EXPECT_EQ(host->RecallIdle(4096, 50, host.now_ns()), 6u);
  EXPECT_EQ(b.leases().recall(), 4u);
}

TEST(RecallTest, TheWishEndsWithThePagesOrWhenTheClientNeedsMore) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 4);
  SayIdle(&client, 4);
  host->RecallIdle(4096, 3, host.now_ns());
  EXPECT_EQ(client.GiveBack({pages[0], pages[1]}), 2u);
  EXPECT_EQ(client.leases().recall(), 1u);
  client.Grant(4096);
  EXPECT_EQ(client.leases().recall(), 0u);
  host->RecallIdle(4096, 2, host.now_ns());
  EXPECT_EQ(client.leases().recall(), 2u);
  EXPECT_EQ(host->RecallIdle(4096, 0, host.now_ns()), 0u);
  EXPECT_EQ(client.leases().recall(), 0u);
}

TEST(RecallTest, ANewServerWantsNothingBack) {
  TestEngine host;
  TestClient client(&host);
  client.Grant(4096, 4);
  SayIdle(&client, 4);
  host->RecallIdle(4096, 3, host.now_ns());
  host.Restart();
  EXPECT_EQ(client.leases().recall(), 0u);
}

TEST(RecutTest, AnIdleRegionIsCutAnewAndGenerationsGoOn) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  std::vector<wire::PageRef> pages;
  while (true) {
    auto granted = client.TryGrant(kMiB, 64);
    if (!granted.ok()) break;
    pages.insert(pages.end(), granted->begin(), granted->end());
  }
  EXPECT_FALSE(client.TryGrant(4096).ok());
  // One region keeps a page in use.
  const wire::PageRef used = pages.back();
  pages.pop_back();
  client.GiveBack(pages);
  EXPECT_EQ(host->FreeIdleRegions(kMiB, host.now_ns()), 0u);
  const uint64_t before = host->Count(PoolIndex(0)).pages;
  EXPECT_GT(host->FreeIdleRegions(4096, host.now_ns()), 0u);
  EXPECT_LT(host->Count(PoolIndex(0)).pages, before);
  EXPECT_EQ(host.State(used).state(), PageState::kGranted);
  EXPECT_EQ(Offenders(host.engine()), "");

  const wire::PageRef small = client.Grant(4096)[0];
  for (const wire::PageRef& page : pages) {
    if (page.record == small.record) {
      EXPECT_GT(small.generation, page.generation);
    }
  }
  // Names of the region's former life mean nobody.
  EXPECT_EQ(client.GiveBack(pages), 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
  host.Restart();
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RecutTest, WornPagesDoNotHoldTheirRegion) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const wire::PageRef page = client.Grant(kMiB)[0];
  client.GiveBack({page});
  host.SetGeneration(page, layout::kGenerationMax);
  client.GiveBack(client.Grant(kMiB, 2));
  ASSERT_EQ(host.State(page).state(), PageState::kWorn);
  EXPECT_GT(host->FreeIdleRegions(0, host.now_ns()), 0u);
  EXPECT_EQ(host->Count(PoolIndex(0)).pages, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// The client may still hold an array over the page, and write there.
TEST(RecutTest, APageThatBecameWornInAClientsHandsHoldsItsRegionAsLongAsTheClientIsThere) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const wire::PageRef page = client.Grant(kMiB)[0];
  host.SetGeneration(page, layout::kGenerationMax);
  ASSERT_EQ(client.Settle({page}).items[0].verdict, wire::SettleVerdict::kGone);
  ASSERT_EQ(host.State(page).state(), PageState::kWorn);
  EXPECT_EQ(host->FreeIdleRegions(0, host.now_ns()), 0u);
  host.Restart();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(host->FreeIdleRegions(0, host.now_ns()), 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
  client.Die();
  EXPECT_GT(host->FreeIdleRegions(0, host.now_ns()), 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// To the end, however many steps it takes.
uint64_t Trim(TestEngine* host, std::string_view name_space, uint64_t bytes_max) {
  Engine::Trimmed trimmed;
  do {
    trimmed = (*host)->TrimNamespace(name_space, bytes_max, host->now_ns());
    EXPECT_EQ(trimmed.rest == Engine::Trimmed::Rest::kNone, trimmed.bytes_left <= bytes_max);
  } while (trimmed.rest == Engine::Trimmed::Rest::kLater);
  return trimmed.bytes_left;
}

TEST(QuotaTest, TheLeastRecentlyUsedKeysOfTheNamespaceGo) {
  TestEngine host;
  TestClient client(&host, {.name_space = "ours"}), other(&host);
  other.Put("theirs");
  const wire::PageRef oldest = client.Put("oldest");
  for (const char* key : {"b", "c", "d"}) client.Put(key);
  ASSERT_TRUE(client.Pin(oldest));
  EXPECT_EQ(Trim(&host, "ours", 4 * 4096), 4u * 4096);
  EXPECT_TRUE(client.Exists("b"));
  EXPECT_EQ(Trim(&host, "ours", 2 * 4096), 2u * 4096);
  EXPECT_TRUE(client.Exists("oldest"));
  EXPECT_FALSE(client.Exists("b"));
  EXPECT_FALSE(client.Exists("c"));
  EXPECT_TRUE(client.Exists("d"));
  // What is pinned stays.
  EXPECT_EQ(Trim(&host, "ours", 0), 4096u);
  EXPECT_TRUE(client.Exists("oldest"));
  EXPECT_TRUE(other.Exists("theirs"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

// So many keys, in requests of a batch.
constexpr uint32_t kBatch = 512;
void PutMany(TestClient* client, const std::string& prefix, uint32_t count) {
  for (uint32_t at = 0; at < count; at += kBatch) {
    const std::vector<wire::PageRef> pages = client->Grant(512, std::min(kBatch, count - at));
    std::vector<std::string> keys;
    for (size_t i = 0; i < pages.size(); ++i) keys.push_back(prefix + std::to_string(at + i));
    wire::RegisterRequest request;
    for (size_t i = 0; i < pages.size(); ++i) request.entries.push_back({pages[i], 1, 0, keys[i]});
    for (const auto& item : client->Ask<wire::RegisterReply>(request).items) {
      MARU_CHECK_EQ(item.outcome, wire::RegisterOutcome::kRegistered);
    }
  }
}

TEST(QuotaTest, AStepOfATrimIsBoundedAndTheNextGoesOn) {
  TestEngine host({.pools = {256 * kMiB}});
  TestClient other(&host), client(&host, {.name_space = "ours"});
  constexpr uint32_t kTheirs = 3 * Evictor::kTrimLooksMax + kBatch;
  PutMany(&other, "theirs", kTheirs);
  PutMany(&client, "ours", 3'000);
  using Rest = Engine::Trimmed::Rest;
  // Three steps look at keys of others alone; each must go on where the last one stood, though what
  // it stood at has gone.
  for (int step = 0; step < 3; ++step) {
    const Engine::Trimmed trimmed = host->TrimNamespace("ours", 512, host.now_ns());
    EXPECT_EQ(trimmed.rest, Rest::kLater);
    EXPECT_EQ(trimmed.bytes_left, 3'000u * 512);
    // Of one request the last key is the least recently used.
    const uint32_t stands = (step + 1u) * static_cast<uint32_t>(Evictor::kTrimLooksMax);
    for (uint32_t i = stands - 5; i < stands + 5; ++i) {
      const uint32_t request = i / kBatch * kBatch;
      other.Delete("theirs" + std::to_string(request + kBatch - 1 - (i - request)));
    }
  }
  uint64_t before = 3'000;
  int steps = 0;
  for (Engine::Trimmed trimmed{.rest = Rest::kLater}; trimmed.rest == Rest::kLater; ++steps) {
    trimmed = host->TrimNamespace("ours", 512, host.now_ns());
    EXPECT_LE(before - trimmed.bytes_left / 512, Evictor::kTrimKeysMax);
    before = trimmed.bytes_left / 512;
  }
  EXPECT_EQ(before, 1u);
  EXPECT_GE(steps, 3);
  // Requests are in the order of their keys backwards: of the last one the first stays.
  EXPECT_TRUE(client.Exists("ours2560"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

// Its walk through the lists ends with it: the next trim begins another.
TEST(QuotaTest, ATrimThatOthersFinishLeavesNothingBehind) {
  TestEngine host({.pools = {256 * kMiB}});
  TestClient other(&host), client(&host, {.name_space = "ours"});
  PutMany(&other, "theirs", 2 * Evictor::kTrimLooksMax);
  PutMany(&client, "ours", 3);
  using Rest = Engine::Trimmed::Rest;
  EXPECT_EQ(host->TrimNamespace("ours", 512, host.now_ns()).rest, Rest::kLater);
  for (int i = 0; i < 3; ++i) client.Delete("ours" + std::to_string(i));
  EXPECT_EQ(host->TrimNamespace("ours", 512, host.now_ns()).rest, Rest::kNone);
  PutMany(&client, "again", 3);
  Engine::Trimmed trimmed{.rest = Rest::kLater};
  for (int step = 0; step < 10 && trimmed.rest == Rest::kLater; ++step) {
    trimmed = host->TrimNamespace("ours", 512, host.now_ns());
  }
  EXPECT_EQ(trimmed.rest, Rest::kNone);
  EXPECT_EQ(trimmed.bytes_left, 512u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(QuotaTest, WhatIsHeldIsLookedAtOnce) {
  TestEngine host;
  TestClient client(&host, {.name_space = "ours"});
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(client.Lease(client.Put("key" + std::to_string(i), 512)));
  }
  const Engine::Trimmed trimmed = host->TrimNamespace("ours", 0, host.now_ns());
  EXPECT_EQ(trimmed.rest, Engine::Trimmed::Rest::kHeld);
  EXPECT_EQ(trimmed.bytes_left, 200u * 512);
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
