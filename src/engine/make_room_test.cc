// What a full pool makes the engine do beside eviction: idle grants recalled, regions freed and cut
// anew for another page size, a namespace trimmed to a quota.
#include <gtest/gtest.h>

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

TEST(QuotaTest, TheLeastRecentlyUsedKeysOfTheNamespaceGo) {
  TestEngine host;
  TestClient client(&host, {.name_space = "ours"}), other(&host);
  other.Put("theirs");
  const wire::PageRef oldest = client.Put("oldest");
  for (const char* key : {"b", "c", "d"}) client.Put(key);
  ASSERT_TRUE(client.Pin(oldest));
  EXPECT_EQ(host->TrimNamespace("ours", 4 * 4096, host.now_ns()), 4u * 4096);
  EXPECT_TRUE(client.Exists("b"));
  EXPECT_EQ(host->TrimNamespace("ours", 2 * 4096, host.now_ns()), 2u * 4096);
  EXPECT_TRUE(client.Exists("oldest"));
  EXPECT_FALSE(client.Exists("b"));
  EXPECT_FALSE(client.Exists("c"));
  EXPECT_TRUE(client.Exists("d"));
  // What is pinned stays.
  EXPECT_EQ(host->TrimNamespace("ours", 0, host.now_ns()), 4096u);
  EXPECT_TRUE(client.Exists("oldest"));
  EXPECT_TRUE(other.Exists("theirs"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
