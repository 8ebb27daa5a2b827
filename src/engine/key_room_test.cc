// Pools in which keys find no room while pages are left: which pool is granted from, and what is
// freed before anything is refused.
#include <gtest/gtest.h>

#include "engine/evict.h"
#include "engine/test_engine.h"
#include "engine/test_upstream.h"

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

// Keys of another page size do not go for a page, whichever pool has the oldest.
TEST(FullPools, KeysOfAnotherPageSizeStayInTheOtherPool) {
  TestEngine host(OptionsOf({32 * kMiB, 32 * kMiB}, Eviction::kLeastRecentlyUsed));
  TestClient client(&host);
  uint64_t refused = 0, stored = 0;
  while (refused == 0) ASSERT_TRUE(Store(&client, LongKey(stored++), &refused));
  constexpr int kLarge = 8;
  for (int i = 0; i < kLarge; ++i) {
    ASSERT_EQ(client.Put("large-" + std::to_string(i), kMiB).pool, PoolIndex(1));
  }
  // The second pool has no page left, and room for text.
  for (int i = 0; client.Put("short-" + std::to_string(i), kSmall).pool == PoolIndex(1); ++i) {
  }
  // By age it is the turn of that pool's keys after those of the first.
  const uint64_t fit = stored;
  while (client.Exists("short-0")) {
    ASSERT_LT(stored, 4 * fit);
    ASSERT_TRUE(Store(&client, LongKey(stored++), &refused));
  }
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Store(&client, LongKey(stored++), &refused));
  for (int i = 0; i < kLarge; ++i) {
    EXPECT_TRUE(client.Exists("large-" + std::to_string(i))) << i;
  }
  EXPECT_EQ(Offenders(host.engine()), "");
}

// The page that the other pool had may be somebody else's by the time a client asks for it.
TEST(FullPools, AKeyThatWasSentToAnotherPoolIsStoredWhereItIsAskedForAgain) {
  TestEngine host(OptionsOf({32 * kMiB, 96 * kMiB}, Eviction::kLeastRecentlyUsed));
  TestClient client(&host);
  wire::PageRef page = client.Grant(kSmall)[0];
  const wire::PageRef other = client.Grant(kSmall)[0];
  uint64_t refused = 0, stored = 0;
  while (refused == 0) ASSERT_TRUE(Store(&client, LongKey(stored++), &refused));
  const wire::RegisterReply::Item item = client.Register("long" + LongKey(1), page);
  EXPECT_EQ(item.outcome, RegisterOutcome::kRejected);
  // Of another page nothing follows from that.
  EXPECT_EQ(client.Register("long" + LongKey(2), other).outcome, RegisterOutcome::kRejected);
  page.generation = item.generation;
  EXPECT_EQ(client.Register("long" + LongKey(1), page).outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// --- Refills.

// Registers a key in that page and asks for the next one on the way.
std::vector<wire::PageRef> RegisterAndRefill(TestClient* client, const std::string& key,
                                             const wire::PageRef& page, uint64_t page_bytes) {
  wire::RegisterRequest request;
  request.entries.push_back({page, 1, 0, key});
  request.refill_page_bytes = page_bytes;
  request.refill_count = 1;
  const auto reply = client->Ask<wire::RegisterReply>(request);
  EXPECT_EQ(reply.items[0].outcome, RegisterOutcome::kRegistered);
  return reply.refill;
}

TEST(Refills, TakeWhatAPassedOverPoolHasFreeBeforeAKeyGoes) {
  TestEngine host(OptionsOf({32 * kMiB, 32 * kMiB}, Eviction::kLeastRecentlyUsed));
  TestClient client(&host);
  uint64_t refused = 0, stored = 0;
  while (refused == 0) ASSERT_TRUE(Store(&client, LongKey(stored++), &refused));
  ASSERT_GT(host->Count(PoolIndex(0)).free, 1'000u);
  // The second pool is full of short names.
  std::vector<wire::PageRef> page = client.Grant(kSmall);
  uint64_t shorts = 0;
  while (page.at(0).pool == PoolIndex(1)) {
    page = RegisterAndRefill(&client, "short-" + std::to_string(shorts++), page[0], kSmall);
    ASSERT_EQ(page.size(), 1u);
  }
  EXPECT_EQ(LiveIn(host), stored + shorts);  // none went
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(Refills, TakePagesThatNobodyLeasesAnyMoreBeforeAKeyGoes) {
  TestEngine host(OptionsOf({64 * kMiB}, Eviction::kLeastRecentlyUsed));
  TestClient client(&host), reader(&host);
  std::vector<wire::PageRef> pages, page;
  while (true) {
    page = client.Grant(kMiB);
    if (LiveIn(host) < pages.size()) break;  // it has cost a key
    pages.push_back(page[0]);
    ASSERT_EQ(client.Register("key-" + std::to_string(pages.size()), page[0]).outcome,
              RegisterOutcome::kRegistered);
  }
  ASSERT_GT(pages.size(), 20u);
  for (size_t i = pages.size() - 8; i < pages.size(); ++i) {
    ASSERT_TRUE(reader.Lease(pages[i]));
    ASSERT_EQ(client.Delete("key-" + std::to_string(i + 1)), wire::DeleteOutcome::kDeleted);
  }
  for (size_t i = pages.size() - 8; i < pages.size(); ++i) reader.Release(pages[i]);
  const uint64_t live = LiveIn(host);
  for (int i = 0; i < 8; ++i) {
    page = RegisterAndRefill(&client, "new-" + std::to_string(i), page.at(0), kMiB);
  }
  EXPECT_EQ(LiveIn(host), live + 8);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// --- Regions that nobody uses.

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

// Those of the page size that the keys have themselves.
TEST_P(IdleRegionsTest, OfTheSamePageSizeAreFreedAsWell) {
  constexpr uint64_t kKeys = 8'000;
  TestEngine host(OptionsOf({64 * kMiB}, GetParam()));
  TestClient client(&host);
  std::vector<wire::PageRef> pages;
  while (pages.size() < 60'000) {
    const auto granted = client.TryGrant(kSmall, 1'000);
    ASSERT_TRUE(granted.ok());
    pages.insert(pages.end(), granted->begin(), granted->end());
  }
  for (size_t i = 0; i < pages.size(); i += 1'000) {
    client.GiveBack({pages.begin() + i, pages.begin() + std::min(i + 1'000, pages.size())});
  }
  uint64_t refused = 0;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(Store(&client, LongKey(i), &refused)) << i;
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(LiveIn(host), kKeys);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST_P(IdleRegionsTest, AreFreedBeforeAKeyOfAnExtentIsRefused) {
  constexpr uint64_t kKeys = 8'000;
  TestEngine host(OptionsOf({64 * kMiB}, GetParam()));
  UpstreamClient upstream(&host, "upstream");
  const uint64_t region = upstream.Alloc();
  TestClient client(&host);
  client.Put("short", kSmall);
  FillWithIdlePages(&client);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(upstream.Register(LongKey(i), region, i, 1)) << i;
  }
  EXPECT_TRUE(client.Exists("short"));  // nothing was evicted for them
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
