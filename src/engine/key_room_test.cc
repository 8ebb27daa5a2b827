// Pools in which keys find no room while pages are left: which pool is granted from, and what is
// freed before anything is refused.
#include <gtest/gtest.h>

#include "engine/evict.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using wire::RegisterOutcome;

constexpr uint64_t kSmall = layout::kPageBytesMin;

// Far longer than what is kept for each page.
std::string LongKey(uint64_t i) { return std::string(3000, 'k') + std::to_string(i); }

TestEngine::Options OptionsOf(std::vector<uint64_t> pools, Eviction eviction) {
  TestEngine::Options options{.pools = std::move(pools)};
  options.engine.eviction = eviction;
  return options;
}

uint64_t LiveIn(TestEngine& host) {
  uint64_t live = 0;
  for (size_t i = 0; i < host.pools(); ++i) {
    live += host->Count(PoolIndex(static_cast<uint8_t>(i))).live;
  }
  return live;
}

// Stores as a client does: a page that was refused goes back, and one of another pool comes for it.
// Counts what was refused for the first page.
bool Store(TestClient* client, const std::string& key, uint64_t* refused) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto granted = client->TryGrant(kSmall);
    if (!granted.ok()) return false;
    wire::PageRef page = granted->front();
    const wire::RegisterReply::Item item = client->Register(key, page);
    if (item.outcome == RegisterOutcome::kRegistered) return true;
    page.generation = item.generation;
    client->GiveBack({page});
    if (attempt == 0) ++*refused;
  }
  return false;
}

class KeyRoomTest : public testing::TestWithParam<Eviction> {};

TEST_P(KeyRoomTest, APoolWithoutRoomForKeysIsPassedOverWhileALaterOneHasIt) {
  constexpr uint64_t kKeys = 12'000;  // more than twice what the first takes
  TestEngine host(OptionsOf({32 * kMiB, 96 * kMiB}, GetParam()));
  TestClient client(&host);
  uint64_t refused = 0;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(Store(&client, LongKey(i), &refused)) << i;
  // That the first pool is full is found out once, and no key has gone for another.
  EXPECT_EQ(refused, 1u);
  EXPECT_EQ(LiveIn(host), kKeys);
  EXPECT_GT(host->Count(PoolIndex(0)).live, 4'000u);
  EXPECT_GT(host->Count(PoolIndex(0)).free, 0u);
  // With a good part of its keys gone the first is the first again.
  for (uint64_t i = 0; i < 1'000; ++i) client.Delete(LongKey(i));
  EXPECT_EQ(client.Grant(kSmall)[0].pool, PoolIndex(0));
  EXPECT_EQ(Offenders(host.engine()), "");
}

INSTANTIATE_TEST_SUITE_P(Evictions, KeyRoomTest,
                         testing::Values(Eviction::kNone, Eviction::kLeastRecentlyUsed));

TEST(FullPools, APageWithoutRoomForLongKeysTakesAShortOne) {
  TestEngine host(OptionsOf({32 * kMiB, 32 * kMiB}, Eviction::kNone));
  TestClient client(&host);
  client.Put("short-0", kSmall);  // has a slab for those of its length
  uint64_t refused = 0, stored = 0;
  while (Store(&client, LongKey(stored), &refused)) ++stored;
  EXPECT_GT(stored, 9'000u);
  for (int i = 1; i < 10; ++i) {
    EXPECT_TRUE(Store(&client, "short-" + std::to_string(i), &refused));
  }
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(FullPools, KeysGoByTheirAgeWhicheverPoolTheyAreIn) {
  TestEngine host(OptionsOf({32 * kMiB, 48 * kMiB}, Eviction::kLeastRecentlyUsed));
  TestClient client(&host);
  uint64_t refused = 0, stored = 0;
  while (LiveIn(host) == stored) {
    ASSERT_TRUE(Store(&client, LongKey(stored++), &refused));
  }
  const uint64_t fit = stored;
  for (; stored < 4 * fit; ++stored) ASSERT_TRUE(Store(&client, LongKey(stored), &refused));
  // Both are used to the end, and the newest half of what fits is there.
  for (uint64_t i = stored - fit / 2; i < stored; ++i) {
    ASSERT_TRUE(client.Exists(LongKey(i))) << stored - i;
  }
  for (uint64_t i = 0; i < fit; ++i) ASSERT_FALSE(client.Exists(LongKey(i))) << i;
  EXPECT_EQ(Offenders(host.engine()), "");
}

// Cuts all that is left into pages of 1 MiB, which nobody uses then.
void FillWithIdlePages(TestClient* client) {
  std::vector<wire::PageRef> pages;
  for (auto granted = client->TryGrant(kMiB); granted.ok(); granted = client->TryGrant(kMiB)) {
    pages.push_back(granted->front());
  }
  ASSERT_EQ(client->GiveBack(pages), pages.size());
}

class IdleRegionsTest : public testing::TestWithParam<Eviction> {};

TEST_P(IdleRegionsTest, AreFreedBeforeAKeyIsRefusedOrGoesForRoomForText) {
  constexpr uint64_t kKeys = 8'000;
  TestEngine host(OptionsOf({64 * kMiB}, GetParam()));
  TestClient client(&host);
  for (int i = 0; i < 10; ++i) client.Put("short" + std::to_string(i), kSmall);
  FillWithIdlePages(&client);
  uint64_t refused = 0;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(Store(&client, LongKey(i), &refused)) << i;
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(LiveIn(host), kKeys + 10);
  EXPECT_EQ(Offenders(host.engine()), "");
}

INSTANTIATE_TEST_SUITE_P(Evictions, IdleRegionsTest,
                         testing::Values(Eviction::kNone, Eviction::kLeastRecentlyUsed));

TEST(IdleRegions, AreFreedBeforeAClientIsRefused) {
  TestEngine host;
  TestClient first(&host);
  FillWithIdlePages(&first);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 140; ++i) clients.push_back(std::make_unique<TestClient>(&host));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(IdleRegions, AreFreedBeforeALeaseBlockIsRefused) {
  TestEngine host;
  TestClient client(&host);
  FillWithIdlePages(&client);
  size_t blocks = 0;
  for (int i = 0; i < 4; ++i) {
    const auto grown = client.Ask<wire::GrowLeasesReply>(
        wire::GrowLeasesRequest{.pool = PoolIndex(0), .blocks = 64});
    blocks += grown.offsets.size();
  }
  EXPECT_EQ(blocks, 4u * 64);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// --- Page sizes.

TEST(PageSizes, OneThatHasNoPagesAnyMoreGivesItsPlaceToAnother) {
  TestEngine host({.pools = {64 * kMiB}});
  TestClient client(&host);
  for (uint64_t i = 1; i <= Stock::kPageSizesMax + 100; ++i) {
    const uint64_t page_bytes = i * layout::kPageAlignBytes;
    const auto page = client.TryGrant(page_bytes);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    client.GiveBack(*page);
    if (i % 200 == 0) {
      ASSERT_EQ(Offenders(host.engine()), "");
    }
  }
  client.Put("key", kSmall);
  host.Restart();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_TRUE(client.Exists("key"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(PageSizes, WhereThereAreTooManyTheRefusalSaysSo) {
  TestEngine::Options options{.pools = {4 * kGiB}};
  options.engine.region_bytes_min = layout::kUnitBytes;
  options.engine.region_pages_min = 1;
  TestEngine host(options);
  TestClient client(&host);
  std::vector<wire::PageRef> pages;
  for (uint64_t i = 1; i <= Stock::kPageSizesMax; ++i) {
    pages.push_back(client.Grant(i * layout::kPageAlignBytes)[0]);
  }
  const uint64_t another = (Stock::kPageSizesMax + 1) * layout::kPageAlignBytes;
  const Status refused = client.TryGrant(another).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("pages of 1024 sizes already"), std::string::npos)
      << refused.ToString();
  host.EndCuts();
  client.GiveBack({pages[500]});
  EXPECT_TRUE(client.TryGrant(another).ok());
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
