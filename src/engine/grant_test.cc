#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/sequence_point.h"
#include "base/test_log.h"
#include "engine/grant.h"
#include "engine/stock.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;
using testing::HasSubstr;

constexpr uint64_t kPage = 1 * kMiB;

std::string Key(uint64_t i) { return "key" + std::to_string(i); }

// Stores under key0, key1, ... until one key had to go for the last of them; the number.
uint64_t Fill(TestClient* client, TestEngine* host, uint64_t page_bytes = kPage) {
  const uint64_t before = host->engine().Count(PoolIndex(0)).live;
  uint64_t keys = 0;
  do {
    client->Put(Key(keys++), page_bytes);
  } while (host->engine().Count(PoolIndex(0)).live == before + keys);
  return keys;
}

TEST(GrantTest, PageSizesAreRoundedUp) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(layout::kPageAlignBytes + 1)[0];
  catalogue::PoolView::PageExtent extent;
  ASSERT_TRUE(host.view().Page(page.record, &extent));
  EXPECT_EQ(extent.page_bytes, 2 * layout::kPageAlignBytes);
  EXPECT_EQ(host.State(page),
            layout::StateWord::Make(PageState::kGranted, page.generation, client.slot()));
}

TEST(GrantTest, SenselessRequestsAreRefused) {
  TestEngine host;
  TestClient client(&host);
  EXPECT_EQ(client.TryGrant(0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client.TryGrant(4096, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client.TryGrant(~uint64_t{0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client.TryGrant(layout::kPoolBytesMax).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(client.TryGrant(64 * kMiB).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, ABatchIsOneMessageAndHasNoPageTwice) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 500);
  ASSERT_EQ(pages.size(), 500u);
  std::set<RecordNumber> records;
  for (const wire::PageRef& page : pages) records.insert(page.record);
  EXPECT_EQ(records.size(), 500u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, ASmallPoolIsCutALittleAtATime) {
  TestEngine host({.pools = {64 * kMiB}});
  TestClient client(&host);
  client.Grant(kPage);
  EXPECT_LE(host.pool().usage().pages_bytes, 4 * kMiB);
  client.Grant(64 * kKiB);  // another size finds room as well
  client.Grant(3 * kMiB);
  EXPECT_LE(host.pool().usage().pages_bytes, 16 * kMiB);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, RegionsGrowWithWhatAPageSizeHas) {
  TestEngine::Options options{.pools = {2 * kGiB}};
  options.engine.region_bytes_min = 16 * kMiB;
  options.engine.region_bytes_max = 64 * kMiB;
  TestEngine host(options);
  TestClient client(&host);
  std::vector<uint64_t> cuts;
  for (int i = 0; i < 5; ++i) {
    host.EndCuts();
    while (host->Count(PoolIndex(0)).free > 0) client.Grant(kPage);
    const uint64_t before = host.pool().usage().pages_bytes;
    client.Grant(kPage);
    cuts.push_back(host.pool().usage().pages_bytes - before);
  }
  EXPECT_EQ(cuts, (std::vector<uint64_t>{16 * kMiB, 16 * kMiB, 32 * kMiB, 64 * kMiB, 64 * kMiB}));
}

TEST(GrantTest, ARegionHasAtLeastSixteenPagesWhereThePoolAllowsIt) {
  TestEngine host({.pools = {4 * kGiB}});
  TestClient client(&host);
  client.Grant(16 * kMiB);
  host.EndCuts();
  EXPECT_EQ(host->Count(PoolIndex(0)).pages, 16u);
}

TEST(GrantTest, TheCatalogueKeepsRoomToGrow) {
  // Small pages: their records, keys and index need room that pages must not take for good.
  TestEngine::Options options{.pools = {64 * kMiB}};
  options.engine.eviction = Eviction::kNone;
  TestEngine host(options);
  TestClient client(&host);
  uint64_t keys = 0;
  for (auto page = client.TryGrant(layout::kPageBytesMin); page.ok();
       page = client.TryGrant(layout::kPageBytesMin)) {
    const std::string key = "a key of a hundred bytes " + std::string(70, 'x') + Key(keys++);
    ASSERT_EQ(client.Register(key, (*page)[0]).outcome, wire::RegisterOutcome::kRegistered) << keys;
  }
  EXPECT_GT(keys, 40'000u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, PoolsAreUsedInOrder) {
  TestEngine host({.pools = {32 * kMiB, 64 * kMiB}});
  TestClient client(&host);
  bool second = false;
  for (int i = 0; i < 40; ++i) {
    const wire::PageRef page = client.Grant(kPage)[0];
    EXPECT_FALSE(second && page.pool == PoolIndex(0));
    second = page.pool == PoolIndex(1);
  }
  EXPECT_TRUE(second);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, APageThatIsDueBehindManyOthersIsGrantedAtOnce) {
  TestEngine::Options options;
  options.engine.eviction = Eviction::kNone;
  TestEngine host(options);
  TestClient dead(&host), client(&host);
  for (uint64_t pages = 0; pages <= Stock::kQuarantinesEndedMax; pages += 1024) {
    ASSERT_EQ(dead.Grant(512, 1024).size(), 1024u);
  }
  dead.Grant(kMiB);
  while (client.TryGrant(kMiB).ok()) continue;
  dead.Die();
  host.Advance(host.options().engine.quarantine_ns);
  EXPECT_TRUE(client.TryGrant(kMiB).ok());
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, WhatWasGivenBackComesFirstAndTheQuarantinedLast) {
  TestEngine host;
  TestClient client(&host), dying(&host);
  const auto old = dying.Grant(4096, 2);
  host.EndCuts();
  dying.Die();
  host.Advance(host.options().engine.quarantine_ns);
  host.Tick();
  EXPECT_EQ(host.State(old[0]).state(), PageState::kFree);
  const wire::PageRef back = client.Grant(4096)[0];
  client.GiveBack({back});
  EXPECT_EQ(client.Grant(4096)[0].record, back.record);
  const uint64_t free = host->Count(PoolIndex(0)).free;
  const auto pages = client.Grant(4096, static_cast<uint32_t>(free));
  EXPECT_EQ(pages[free - 2].record, old[0].record);
  EXPECT_EQ(pages[free - 1].record, old[1].record);
}

TEST(GrantTest, EachGrantIsANewLife) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef first = client.Grant(4096)[0];
  client.GiveBack({first});
  const wire::PageRef second = client.Grant(4096)[0];
  ASSERT_EQ(first.record, second.record);
  EXPECT_EQ(second.generation.value(), first.generation.value() + 1);
  EXPECT_EQ(client.GiveBack({first}), 0u);  // repeated late: harmless
  EXPECT_EQ(client.GiveBack({second, second}), 1u);
}

TEST(GrantTest, APageAtItsLastGenerationIsWorn) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  client.GiveBack({page});
  host.SetGeneration(page, layout::kGenerationMax);
  EXPECT_NE(client.Grant(4096)[0].record, page.record);
  EXPECT_EQ(host.State(page).state(), PageState::kWorn);
  EXPECT_EQ(host->Count(PoolIndex(0)).worn, 1u);

  const wire::PageRef last = client.Grant(4096)[0];
  host.SetGeneration(last, layout::kGenerationMax);
  EXPECT_EQ(client.GiveBack({{last.pool, last.record, Generation(layout::kGenerationMax)}}), 1u);
  EXPECT_EQ(host.State(last).state(), PageState::kWorn);
  EXPECT_EQ(Offenders(host.engine()), "");
  host.Restart();
  EXPECT_EQ(host->Count(PoolIndex(0)).worn, 2u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, OnlyTheClientsOwnPagesInTheirLifeAreGivenBack) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef page = other.Grant(4096)[0];
  EXPECT_EQ(client.GiveBack({page}), 0u);
  EXPECT_EQ(client.GiveBack({{PoolIndex(3), page.record, page.generation},
                             {page.pool, RecordNumber(0), page.generation},
                             {page.pool, RecordNumber(0xFFFFFFFF), page.generation},
                             {page.pool, RecordNumber(12345), page.generation}}),
            0u);
  EXPECT_EQ(other.GiveBack({page}), 1u);
}

// --- Full.

TEST(EvictionTest, TheLeastRecentlyUsedGoFirst) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const uint64_t keys = Fill(&client, &host);
  EXPECT_FALSE(client.Exists(Key(0)));
  EXPECT_TRUE(client.Exists(Key(1)));
  // A touch, not yet drained when the room is needed.
  client.leases().Touch(client.Find(Key(1)).page.record);
  client.Put(Key(keys), kPage);
  EXPECT_TRUE(client.Exists(Key(1)));
  EXPECT_FALSE(client.Exists(Key(2)));
  EXPECT_EQ(Offenders(host.engine()), "");
}

// Stores other keys until all of `keys` have gone; they must go from the last to the first.
void ExpectTailGoesFirst(TestClient* client, const std::vector<std::string>& keys) {
  size_t there = keys.size();
  for (int n = 0; there > 0 && n < 100; ++n) {
    client->Put("other" + std::to_string(n), kPage);
    size_t still = 0;
    while (still < there && client->Exists(keys[still])) ++still;
    for (size_t i = still; i < keys.size(); ++i) EXPECT_FALSE(client->Exists(keys[i])) << i;
    EXPECT_GE(still + 1, there) << "more than one went for one page";
    there = still;
  }
  EXPECT_EQ(there, 0u);
}

wire::RegisterRequest Batch(const std::vector<std::string>& keys,
                            const std::vector<wire::PageRef>& pages) {
  wire::RegisterRequest request;
  for (size_t i = 0; i < keys.size(); ++i) request.entries.push_back({pages[i], 1, 0, keys[i]});
  return request;
}

TEST(EvictionTest, TheTailOfAPrefixGoesBeforeItsHead) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const std::vector<std::string> keys{"p0", "p1", "p2", "p3"};
  client.Ask<wire::RegisterReply>(Batch(keys, client.Grant(kPage, 4)));
  ExpectTailGoesFirst(&client, keys);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(EvictionTest, ABatchThatConfirmsKeysOrdersThemToo) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const std::vector<std::string> keys{"p0", "p1", "p2", "p3"};
  for (const std::string& key : keys) client.Put(key, kPage);
  const auto pages = client.Grant(kPage, 4);
  for (const auto& item : client.Ask<wire::RegisterReply>(Batch(keys, pages)).items) {
    EXPECT_EQ(item.outcome, wire::RegisterOutcome::kDuplicate);
  }
  ExpectTailGoesFirst(&client, keys);
}

TEST(EvictionTest, LeasedAndPinnedKeysStay) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const wire::PageRef leased = client.Put("leased", kPage), pinned = client.Put("pinned", kPage);
  ASSERT_TRUE(client.Lease(leased));
  ASSERT_TRUE(client.Pin(pinned));
  for (int i = 0; i < 100; ++i) client.Put("other" + std::to_string(i), kPage);
  EXPECT_TRUE(client.Exists("leased"));
  EXPECT_TRUE(client.Exists("pinned"));
  client.Release(leased);
  EXPECT_TRUE(client.Unpin(pinned));
  for (int i = 0; i < 100; ++i) client.Put("more" + std::to_string(i), kPage);
  EXPECT_FALSE(client.Exists("leased"));
  EXPECT_FALSE(client.Exists("pinned"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(EvictionTest, AGlobalPinCountsAsOne) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const wire::PageRef page = client.Put("pinned", kPage);
  host.pool().writer().SetGlobalPins(page.record, 1);
  for (int i = 0; i < 100; ++i) client.Put("other" + std::to_string(i), kPage);
  EXPECT_EQ(client.Delete("pinned"), wire::DeleteOutcome::kPinned);
  host.pool().writer().SetGlobalPins(page.record, 0);
  EXPECT_EQ(client.Delete("pinned"), wire::DeleteOutcome::kDeleted);
}

TEST(EvictionTest, NothingMayGoIsSaidAtOnce) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const uint64_t keys = Fill(&client, &host);
  std::vector<wire::PageRef> held;
  for (uint64_t i = 0; i < keys; ++i) {
    const auto found = client.Find(Key(i));
    if (found.found && client.Lease(found.page)) held.push_back(found.page);
  }
  ASSERT_GT(held.size(), 8u);
  const Status status = client.TryGrant(kPage).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("none may go"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1MiB"));
  // All but one are held: that one goes.
  client.Release(held[held.size() / 2]);
  EXPECT_TRUE(client.TryGrant(kPage).ok());
  EXPECT_EQ(host.State(held.front()).state(), PageState::kLive);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, AnEmptyPoolIsNotFullForAnotherPageSize) {
  TestEngine host({.pools = {64 * kMiB}});
  TestClient client(&host);
  const uint64_t keys = Fill(&client, &host);
  for (uint64_t i = 0; i < keys; ++i) client.Delete(Key(i));
  host.EndCuts();
  ASSERT_EQ(host->Count(PoolIndex(0)).free, host->Count(PoolIndex(0)).pages);
  for (int i = 0; i < 512; ++i) client.Put("small" + std::to_string(i), 64 * kKiB);
  for (int i = 0; i < 512; ++i) {
    EXPECT_EQ(client.Delete("small" + std::to_string(i)), wire::DeleteOutcome::kDeleted) << i;
  }
  // And back again, for pages of more than one unit.
  client.Put("large", 3 * kMiB);
  EXPECT_TRUE(client.Exists("large"));
  EXPECT_EQ(Offenders(host.engine()), "");
  host.Restart();
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(EvictionTest, TheRefusalNamesThePageSizesThatAreThere) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const uint64_t keys = Fill(&client, &host);
  for (uint64_t i = 0; i < keys; ++i) {
    if (const auto found = client.Find(Key(i)); found.found) client.Pin(found.page);
  }
  const Status status = client.TryGrant(4096).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  const std::string pages = std::to_string(host->Count(PoolIndex(0)).pages);
  EXPECT_THAT(std::string(status.message()), HasSubstr("that are there: " + pages + " of 1MiB"));
}

TEST(GrantTest, WhyThereIsNoMemoryIsSaidAndLogged) {
  TestEngine host({.pools = {64 * kMiB}, .scarce = true});
  TestClient client(&host);
  host.scarcity().units_left = 0;
  const RecordedLog log;
  const Status status = client.TryGrant(4096).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no memory left"));
  EXPECT_EQ(log.LinesWith("no memory left").size(), 1u);
  host.scarcity().units_left = 1000;
  EXPECT_TRUE(client.TryGrant(4096).ok());
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(EvictionTest, GrantsOfOthersDoNotGo) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient hoarder(&host), client(&host);
  std::vector<wire::PageRef> hoard;
  for (auto pages = hoarder.TryGrant(kPage); pages.ok(); pages = hoarder.TryGrant(kPage)) {
    hoard.push_back((*pages)[0]);
  }
  const Status status = client.TryGrant(kPage).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no key of that page size"));
  hoarder.GiveBack({hoard[0]});
  EXPECT_TRUE(client.TryGrant(kPage).ok());
}

TEST(EvictionTest, NoneMeansNone) {
  TestEngine::Options options{.pools = {32 * kMiB}};
  options.engine.eviction = Eviction::kNone;
  TestEngine host(options);
  TestClient client(&host);
  uint64_t keys = 0;
  for (auto page = client.TryGrant(kPage); page.ok(); page = client.TryGrant(kPage)) {
    client.Register(Key(keys++), (*page)[0]);
  }
  const Status status = client.TryGrant(kPage).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("eviction is off"));
  for (uint64_t i = 0; i < keys; ++i) EXPECT_TRUE(client.Exists(Key(i)));
}

TEST(EvictionTest, ABatchIsBoundedAndGentle) {
  TestEngine::Options options{.pools = {64 * kMiB}};
  options.engine.evict_batch = 64;
  TestEngine host(options);
  TestClient client(&host);
  Fill(&client, &host, 4096);
  const uint64_t live = host->Count(PoolIndex(0)).live;
  ASSERT_GT(live, 64u * 16);
  while (host->Count(PoolIndex(0)).free > 0) client.Grant(4096);
  const uint64_t before = host->Count(PoolIndex(0)).live;
  EXPECT_EQ(client.Grant(4096, 8192).size(), 64u);
  EXPECT_EQ(host->Count(PoolIndex(0)).live, before - 64);
  // Of a few pages one goes, not all.
  TestEngine small({.pools = {32 * kMiB}});
  TestClient few(&small);
  Fill(&few, &small);
  const uint64_t few_live = small->Count(PoolIndex(0)).live;
  few.Grant(kPage);
  EXPECT_EQ(small->Count(PoolIndex(0)).live, few_live - 1);
}

TEST(EvictionTest, KeysOfDeadClientsGoByTheirAgeToo) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  {
    TestClient dying(&host, {.label = "dying"});
    dying.Put("old", kPage);
    client.Put("middle", kPage);
    dying.Put("new", kPage);
    dying.Die();
  }
  Fill(&client, &host);
  EXPECT_FALSE(client.Exists("old"));
  EXPECT_TRUE(client.Exists("middle"));
  client.Put("a", kPage);
  EXPECT_FALSE(client.Exists("middle"));
  EXPECT_TRUE(client.Exists("new"));
  client.Put("b", kPage);
  EXPECT_FALSE(client.Exists("new"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(EvictionTest, RecencySurvivesARestart) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  const uint64_t keys = Fill(&client, &host);
  client.leases().Touch(client.Find(Key(1)).page.record);
  host.Advance(2'000'000'000);
  host.Tick();
  host.Restart();
  ASSERT_TRUE(client.Attach().ok());
  client.Put(Key(keys), kPage);
  EXPECT_TRUE(client.Exists(Key(1)));
  EXPECT_FALSE(client.Exists(Key(2)));
  EXPECT_TRUE(client.Exists(Key(3)));
}

// --- Budget.

TEST(BudgetTest, GrantedAndOwnLivePagesCount) {
  TestEngine host;
  TestClient client(&host, {.budget_bytes = 4 * kPage});
  client.Put("a", kPage);
  EXPECT_EQ(client.Grant(kPage, 64).size(), 3u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(BudgetTest, TheClientsOwnLeastRecentlyUsedKeysGo) {
  TestEngine host;
  TestClient client(&host, {.budget_bytes = 3 * kPage}), other(&host);
  other.Put("others", kPage);
  for (int i = 0; i < 5; ++i) client.Put(Key(i), kPage);
  EXPECT_TRUE(client.Exists("others"));
  EXPECT_FALSE(client.Exists(Key(0)));
  EXPECT_FALSE(client.Exists(Key(1)));
  EXPECT_TRUE(client.Exists(Key(2)));
  EXPECT_TRUE(client.Exists(Key(4)));
  // A key that another client has stored does not count for this one.
  EXPECT_EQ(other.TryGrant(kPage, 8)->size(), 8u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(BudgetTest, SmallKeysMakeRoomForALargePage) {
  TestEngine host;
  TestClient client(&host, {.budget_bytes = 1 * kMiB});
  for (int i = 0; i < 256; ++i) client.Put(Key(i), 4096);
  EXPECT_TRUE(client.TryGrant(512 * kKiB).ok());
  EXPECT_TRUE(client.Exists(Key(255)));
  EXPECT_FALSE(client.Exists(Key(127)));
}

TEST(BudgetTest, TheRefusalNamesTheNumbers) {
  TestEngine host;
  TestClient client(&host, {.budget_bytes = 3 * kPage});
  ASSERT_TRUE(client.Pin(client.Put("a", kPage)));
  const auto granted = client.Grant(kPage, 2);
  const Status status = client.TryGrant(kPage).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("3MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2MiB are granted"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1MiB hold"));
  EXPECT_TRUE(client.Exists("a"));

  // A page that the budget cannot hold costs no key.
  ASSERT_TRUE(client.Unpin(client.Find("a").page));
  EXPECT_EQ(client.TryGrant(2 * kPage).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Exists("a"));
}

TEST(BudgetTest, WithoutEvictionTheClientsKeysStay) {
  TestEngine::Options options;
  options.engine.eviction = Eviction::kNone;
  TestEngine host(options);
  TestClient client(&host, {.budget_bytes = kPage});
  client.Put("a", kPage);
  EXPECT_EQ(client.TryGrant(kPage).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(client.Exists("a"));
}

TEST(BudgetTest, IsRecountedAfterARestart) {
  TestEngine host;
  TestClient client(&host, {.budget_bytes = 3 * kPage});
  client.Put("a", kPage);
  client.Grant(kPage);
  host.Restart();
  EXPECT_EQ(Offenders(host.engine()), "");
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(client.Grant(kPage, 5).size(), 1u);
}

// Units that get memory within a step: others wait for each of them.
int UnitsOf(const std::function<void()>& step) {
  int units = 0;
  const ScopedHook hook([&](std::string_view name) { units += name == "carve:reserved"; });
  step();
  return units;
}

TEST(GrantTest, NoStepBringsInMoreThanItsShareOfARegion) {
  for (const uint64_t page_bytes : {uint64_t{512}, kMiB, 3 * kMiB, 40 * kMiB}) {
    SCOPED_TRACE(page_bytes);
    TestEngine host({.pools = {4 * kGiB}});
    TestClient client(&host);
    // And a chunk of records for each.
    constexpr int kMost = 2 * Granting::kCutUnitsPerGrant;
    uint64_t granted = 0;
    for (int i = 0; i < 40; ++i) {
      wire::Reply reply;
      EXPECT_LE(UnitsOf([&] {
                  MARU_CHECK_OK(client.TryAsk(wire::GrantRequest{page_bytes, 64}, &reply));
                }),
                kMost);
      granted += std::get<wire::GrantReply>(reply).pages.size();
    }
    EXPECT_GE(granted, 7u);
    for (int i = 0; i < 600; ++i) EXPECT_LE(UnitsOf([&] { host.Tick(); }), 2);
    EXPECT_EQ(UnitsOf([&] { host.Tick(); }), 0);
    // All of each region, but for the part of a unit that holds no page.
    const uint64_t in_pages = host->Count(PoolIndex(0)).pages * page_bytes;
    EXPECT_LE(in_pages, host.pool().usage().pages_bytes);
    EXPECT_GT(in_pages + host.pool().PageRegions().size() * layout::kUnitBytes,
              host.pool().usage().pages_bytes);
    EXPECT_EQ(Offenders(host.engine()), "");
  }
}

TEST(GrantTest, ARegionBegunForAnotherSizeIsFreedWithThoseThatAreIdle) {
  TestEngine host({.pools = {kGiB}});
  TestClient client(&host);
  const uint64_t before = host.pool().usage().free_bytes;
  wire::Reply reply;
  MARU_CHECK_OK(client.TryAsk(wire::GrantRequest{40 * kMiB, 1}, &reply));
  EXPECT_TRUE(std::get<wire::GrantReply>(reply).pages.empty());
  EXPECT_LT(host.pool().usage().free_bytes, before);
  host->FreeIdleRegions(kMiB, host.now_ns());
  EXPECT_EQ(host.pool().usage().free_bytes, before);

  client.GiveBack(client.Grant(kMiB));
  host->FreeIdleRegions(kMiB, host.now_ns());
  EXPECT_EQ(host->Count(PoolIndex(0)).pages, 2u);
  host->FreeIdleRegions(0, host.now_ns());
  EXPECT_EQ(host->Count(PoolIndex(0)).pages, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(GrantTest, ARestartEndsARegionWithThePagesThatItHas) {
  TestEngine host({.pools = {kGiB}});
  TestClient client(&host);
  client.Put("key", kMiB);
  const uint64_t pages = host->Count(PoolIndex(0)).pages;
  EXPECT_GT(host.pool().usage().pages_bytes, pages * kMiB);
  host.Restart();
  EXPECT_EQ(host->Count(PoolIndex(0)).pages, pages);
  EXPECT_EQ(host.pool().usage().pages_bytes, pages * kMiB);
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
