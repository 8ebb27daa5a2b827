#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/test_engine.h"
#include "engine/text_room.h"

namespace maru::engine {
namespace {

using layout::PageState;
using wire::RegisterOutcome;

TEST(RegisterTest, APageBecomesItsKeys) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  const auto item = client.Register("key", page, 1000, 42);
  EXPECT_EQ(item.outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(item.generation, page.generation);
  EXPECT_EQ(other.Find("key").page, page);
  catalogue::Found found;
  const catalogue::Namespace space;
  ASSERT_EQ(catalogue::Reader(host.view()).Find(catalogue::MakeKeyRef(space, "key"), &found),
            catalogue::FindVerdict::kLive);
  EXPECT_EQ(found.length_bytes, 1000u);
  EXPECT_EQ(found.checksum, 42u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, NamespacesArePartOfTheKey) {
  TestEngine host;
  TestClient a(&host, {.name_space = "a"}), b(&host, {.name_space = "b"});
  a.Put("key");
  EXPECT_FALSE(b.Exists("key"));
  b.Put("key");
  EXPECT_EQ(a.Delete("key"), wire::DeleteOutcome::kDeleted);
  EXPECT_TRUE(b.Exists("key"));
}

TEST(RegisterTest, TheLoserKeepsItsPageInANewLife) {
  TestEngine host;
  TestClient winner(&host), loser(&host);
  const wire::PageRef won = winner.Put("key");
  const wire::PageRef page = loser.Grant(4096)[0];
  const auto item = loser.Register("key", page);
  EXPECT_EQ(item.outcome, RegisterOutcome::kDuplicate);
  EXPECT_EQ(item.generation.value(), page.generation.value() + 1);
  EXPECT_EQ(loser.Find("key").page, won);
  // A late repeat of the same request hits nothing.
  EXPECT_EQ(loser.Register("fresh", page).outcome, RegisterOutcome::kStale);
  EXPECT_EQ(loser.Register("fresh", {page.pool, page.record, item.generation}).outcome,
            RegisterOutcome::kRegistered);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, ALosersPageAtItsLastGenerationIsGone) {
  TestEngine host;
  TestClient client(&host);
  client.Put("key");
  wire::PageRef page = client.Grant(4096)[0];
  host.SetGeneration(page, layout::kGenerationMax);
  page.generation = Generation(layout::kGenerationMax);
  const auto item = client.Register("key", page);
  EXPECT_EQ(item.outcome, RegisterOutcome::kDuplicate);
  EXPECT_EQ(item.generation, Generation(0));
  EXPECT_EQ(host.State(page).state(), PageState::kWorn);
  EXPECT_EQ(client.GiveBack({page}), 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, TheSameKeyTwiceInOneBatchIsADuplicate) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 3);
  wire::RegisterRequest request;
  request.entries.push_back({pages[0], 1, 0, "key"});
  request.entries.push_back({pages[1], 2, 0, "key"});
  request.entries.push_back({pages[2], 3, 0, "other"});
  const auto reply = client.Ask<wire::RegisterReply>(request);
  ASSERT_EQ(reply.items.size(), 3u);
  EXPECT_EQ(reply.items[0].outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(reply.items[1].outcome, RegisterOutcome::kDuplicate);
  EXPECT_EQ(reply.items[2].outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(client.Find("key").page, pages[0]);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, TheSamePageTwiceInOneBatchIsStale) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  wire::RegisterRequest request;
  request.entries.push_back({page, 1, 0, "key"});
  request.entries.push_back({page, 1, 0, "other"});
  const auto reply = client.Ask<wire::RegisterReply>(request);
  EXPECT_EQ(reply.items[0].outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(reply.items[1].outcome, RegisterOutcome::kStale);
  EXPECT_FALSE(client.Exists("other"));
}

TEST(RegisterTest, ARepeatAnswersAsTheFirstTime) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef page = client.Put("key");
  const auto again = client.Register("key", page);
  EXPECT_EQ(again.outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(again.generation, page.generation);
  EXPECT_EQ(client.Register("another", page).outcome, RegisterOutcome::kStale);
  EXPECT_EQ(other.Register("key", page).outcome, RegisterOutcome::kStale);
  client.Delete("key");
  EXPECT_EQ(client.Register("key", page).outcome, RegisterOutcome::kStale);
  EXPECT_FALSE(client.Exists("key"));
}

TEST(RegisterTest, WhatIsNotGrantedToTheClientIsStale) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef others = other.Grant(4096)[0];
  const wire::PageRef own = client.Grant(4096)[0];
  EXPECT_EQ(client.Register("key", others).outcome, RegisterOutcome::kStale);
  const wire::PageRef earlier{own.pool, own.record, Generation(own.generation.value() - 1)};
  EXPECT_EQ(client.Register("key", earlier).outcome, RegisterOutcome::kStale);
  EXPECT_EQ(client.Register("key", {PoolIndex(9), own.record, own.generation}).outcome,
            RegisterOutcome::kStale);
  EXPECT_EQ(client.Register("key", {own.pool, RecordNumber(0xFFFFFFFE), own.generation}).outcome,
            RegisterOutcome::kStale);
  client.GiveBack({own});
  EXPECT_EQ(client.Register("key", own).outcome, RegisterOutcome::kStale);
  EXPECT_FALSE(client.Exists("key"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, WhatDoesNotFitIsRejectedAndThePageStays) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 3);
  const std::string longest(layout::kKeyBytesMax, 'k');
  const std::string longer = longest + "k";
  wire::RegisterRequest request;
  request.entries.push_back({pages[0], 4097, 0, "length"});
  request.entries.push_back({pages[1], 1, 0, longer});
  request.entries.push_back({pages[2], 4096, 0, longest});
  const auto reply = client.Ask<wire::RegisterReply>(request);
  EXPECT_EQ(reply.items[0].outcome, RegisterOutcome::kRejected);
  EXPECT_EQ(reply.items[1].outcome, RegisterOutcome::kRejected);
  EXPECT_EQ(reply.items[2].outcome, RegisterOutcome::kRegistered);
  // As with a duplicate: the old request, read again, must not meet the page's next use.
  EXPECT_EQ(reply.items[0].generation.value(), pages[0].generation.value() + 1);
  EXPECT_EQ(client.GiveBack({pages[0], pages[1]}), 0u);
  EXPECT_EQ(client.GiveBack({{pages[0].pool, pages[0].record, reply.items[0].generation},
                             {pages[1].pool, pages[1].record, reply.items[1].generation}}),
            2u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, AKeyInAnotherPoolIsADuplicate) {
  TestEngine host({.pools = {32 * kMiB, 64 * kMiB}});
  TestClient client(&host);
  const wire::PageRef first = client.Put("key", kMiB);
  ASSERT_EQ(first.pool, PoolIndex(0));
  wire::PageRef page = first;
  while (page.pool == PoolIndex(0)) page = client.Grant(kMiB)[0];
  EXPECT_EQ(client.Register("key", page).outcome, RegisterOutcome::kDuplicate);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// --- Room for the key.

// Pages that take little, keys that take much: the key text runs out first.
std::string LongKey(uint64_t i) { return std::to_string(i) + std::string(60'000, 'k'); }

TEST(RegisterTest, WithoutRoomForTheKeyABatchGoesFirst) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  for (uint64_t i = 0; i < 600; ++i) {
    const wire::PageRef page = client.Grant(512)[0];
    ASSERT_EQ(client.Register(LongKey(i), page).outcome, RegisterOutcome::kRegistered) << i;
  }
  EXPECT_FALSE(client.Exists(LongKey(0)));
  EXPECT_TRUE(client.Exists(LongKey(599)));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RegisterTest, WithoutEvictionAKeyWithoutRoomIsRejected) {
  TestEngine::Options options{.pools = {32 * kMiB}};
  options.engine.eviction = Eviction::kNone;
  TestEngine host(options);
  TestClient client(&host);
  uint64_t registered = 0;
  wire::PageRef page = client.Grant(512)[0];
  auto rejected = client.Register(LongKey(registered), page);
  while (rejected.outcome == RegisterOutcome::kRegistered) {
    ++registered;
    ASSERT_LT(registered, 1000u);
    page = client.Grant(512)[0];
    rejected = client.Register(LongKey(registered), page);
  }
  EXPECT_EQ(rejected.outcome, RegisterOutcome::kRejected);
  EXPECT_EQ(host.State(page).state(), PageState::kGranted);
  for (uint64_t i = 0; i < registered; ++i) ASSERT_TRUE(client.Exists(LongKey(i)));
  client.Delete(LongKey(0));
  // The request that was answered, read once more, adds nothing now that there is room.
  EXPECT_EQ(client.Register(LongKey(registered), page).outcome, RegisterOutcome::kStale);
  const wire::PageRef again{page.pool, page.record, rejected.generation};
  EXPECT_EQ(client.Register(LongKey(registered), again).outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// The room of a text that goes serves texts of about its length only, until its slab is empty.
TEST(RegisterTest, WithEvictionEveryKeyFindsRoomWhateverItsLength) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  Random random(7);
  std::vector<wire::PageRef> hand;
  for (int stored = 0; stored < 200'000; ++stored) {
    if (hand.empty()) hand = client.Grant(512, 64);
    // Short texts take all room first, then come some of all lengths.
    const uint64_t longer = stored < 80'000 ? 0 : random.Below(900);
    const std::string key = std::to_string(stored) + std::string(longer, 'x');
    ASSERT_EQ(client.Register(key, hand.back()).outcome, RegisterOutcome::kRegistered) << stored;
    hand.pop_back();
  }
  EXPECT_EQ(Offenders(host.engine()), "");
}

// A pool whose room for text is full of keys of one length, which were read in another order than
// they were stored, so that they go from all slabs alike.
class FullOfText {
 public:
  FullOfText(uint64_t pool_bytes, size_t key_bytes) : host_({.pools = {pool_bytes}}) {
    // Long names fill the room for text before the pages are used up.
    size_t stored = 0;
    do {
      for (size_t i = 0; i < kBatch; ++i) {
        keys_.push_back(std::to_string(keys_.size()));
        keys_.back().resize(key_bytes, 'n');
      }
      stored += Store(std::span(keys_).subspan(stored)).size();
    } while (live() == stored);
    Random random(9);
    for (size_t i = keys_.size(); i > 1; --i) std::swap(keys_[i - 1], keys_[random.Below(i)]);
    for (size_t first = 0; first < keys_.size(); first += kBatch) {
      Store(std::span(keys_).subspan(first, kBatch));
    }
  }

  // One batch; what was granted for it and not used goes back.
  std::vector<wire::RegisterReply::Item> Store(std::span<const std::string> keys) {
    wire::RegisterRequest request;
    const std::vector<wire::PageRef> hand = client_.Grant(512, static_cast<uint32_t>(keys.size()));
    for (size_t i = 0; i < hand.size(); ++i) request.entries.push_back({hand[i], 1, 0, keys[i]});
    const auto reply = client_.Ask<wire::RegisterReply>(request);
    for (size_t i = 0; i < reply.items.size(); ++i) {
      if (reply.items[i].outcome == RegisterOutcome::kRegistered) continue;
      client_.GiveBack({{hand[i].pool, hand[i].record, reply.items[i].generation}});
    }
    return reply.items;
  }

  uint64_t live() { return host_->Count(PoolIndex(0)).live; }
  TestClient& client() { return client_; }
  Engine& engine() { return host_.engine(); }

 private:
  static constexpr size_t kBatch = 64;

  TestEngine host_;
  TestClient client_{&host_};
  std::vector<std::string> keys_;
};

TEST(RegisterTest, ATextOfAnotherLengthTakesOneSlabAndNotHalfOfTheKeys) {
  FullOfText pool(128 * kMiB, 248);
  ASSERT_GT(pool.live(), 60'000u);
  const uint64_t before = pool.live();
  const std::string other(700, 'o');
  EXPECT_EQ(pool.Store(std::span(&other, 1))[0].outcome, RegisterOutcome::kRegistered);
  EXPECT_GT(pool.live(), before / 100 * 98);
  EXPECT_EQ(Offenders(pool.engine()), "");
}

// The slab that a rare length has opened is the emptiest of all, and its key belongs to the batch
// that needs the next one.
TEST(RegisterTest, TextsOfSeveralOtherLengthsInOneBatchDoNotDriveEachOtherOut) {
  FullOfText pool(32 * kMiB, 600);
  std::vector<std::string> others;
  for (const size_t length : {3000, 5000, 7000, 9000}) others.emplace_back(length, 'o');
  const auto items = pool.Store(others);
  ASSERT_EQ(items.size(), others.size());
  for (size_t i = 0; i < others.size(); ++i) {
    EXPECT_EQ(items[i].outcome == RegisterOutcome::kRegistered, pool.client().Exists(others[i]))
        << others[i].size();
  }
  EXPECT_EQ(items[0].outcome, RegisterOutcome::kRegistered);
  EXPECT_EQ(Offenders(pool.engine()), "");
  // One to a slab.
  std::vector<std::string> large;
  for (const char letter : {'a', 'b', 'c', 'd'}) large.emplace_back(60'000, letter);
  const auto one_a_slab = pool.Store(large);
  for (size_t i = 0; i < large.size(); ++i) {
    EXPECT_EQ(one_a_slab[i].outcome == RegisterOutcome::kRegistered, pool.client().Exists(large[i]))
        << i;
  }
  EXPECT_EQ(Offenders(pool.engine()), "");
  // A key that is there already and in the same batch as one that needs room.
  const auto there = std::ranges::find_if(
      large, [&](const std::string& key) { return pool.client().Exists(key); });
  ASSERT_NE(there, large.end());
  const std::vector<std::string> again = {*there, std::string(11'000, 'o'), others[1]};
  const auto more = pool.Store(again);
  ASSERT_EQ(more.size(), again.size());
  EXPECT_EQ(more[0].outcome, RegisterOutcome::kDuplicate);
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(more[i].outcome != RegisterOutcome::kRejected, pool.client().Exists(again[i])) << i;
  }
  EXPECT_EQ(Offenders(pool.engine()), "");
}

// More lengths than a walk looks at slabs, each of a class of its own.
constexpr size_t kRareLengths = TextRoom::kSlabsMax + 1;
std::vector<std::string> RareKeys(char letter) {
  std::vector<std::string> keys;
  for (size_t bytes = 800; keys.size() < kRareLengths; bytes += bytes / 3) {
    keys.emplace_back(bytes, letter);
  }
  return keys;
}

// Each opens a slab, in which it lies alone and stays.
std::vector<wire::PageRef> StorePinned(FullOfText& pool, std::span<const std::string> keys) {
  std::vector<wire::PageRef> pages;
  for (const std::string& key : keys) {
    pages.push_back(pool.client().Grant(512)[0]);
    EXPECT_EQ(pool.client().Register(key, pages.back()).outcome, RegisterOutcome::kRegistered)
        << key.size();
    EXPECT_TRUE(pool.client().Pin(pages.back()));
  }
  return pages;
}

TEST(RegisterTest, SlabsWhoseKeysStayDoNotHideTheOthers) {
  FullOfText pool(32 * kMiB, 600);
  const std::vector<std::string> rare = RareKeys('r');
  StorePinned(pool, rare);
  const std::string next(20'000, 'n');
  EXPECT_EQ(pool.Store(std::span(&next, 1))[0].outcome, RegisterOutcome::kRegistered);
  EXPECT_GT(pool.live(), 10'000u);
  for (const std::string& key : rare) EXPECT_TRUE(pool.client().Exists(key)) << key.size();
  EXPECT_EQ(Offenders(pool.engine()), "");
}

TEST(RegisterTest, SlabsOfTheRequestUnderWayDoNotHideTheOthers) {
  FullOfText pool(32 * kMiB, 600);
  const std::vector<std::string> rare = RareKeys('r');
  const std::vector<wire::PageRef> pages = StorePinned(pool, rare);
  for (size_t i = 0; i < rare.size(); ++i) {
    EXPECT_TRUE(pool.client().Unpin(pages[i]));
    EXPECT_EQ(pool.client().Delete(rare[i]), wire::DeleteOutcome::kDeleted);
  }
  // As many take the slabs that are empty now; for the last of the batch one has to be emptied.
  std::vector<std::string> batch = RareKeys('b');
  batch.emplace_back(20'000, 'b');
  const auto items = pool.Store(batch);
  ASSERT_EQ(items.size(), batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(items[i].outcome, RegisterOutcome::kRegistered) << batch[i].size();
    EXPECT_TRUE(pool.client().Exists(batch[i])) << batch[i].size();
  }
  EXPECT_EQ(Offenders(pool.engine()), "");
}

// --- Refill.

TEST(RefillTest, PagesRideAlong) {
  TestEngine host;
  TestClient client(&host);
  wire::RegisterRequest request;
  request.entries.push_back({client.Grant(4096)[0], 1, 0, "key"});
  request.refill_page_bytes = 4096;
  request.refill_count = 10;
  const auto reply = client.Ask<wire::RegisterReply>(request);
  ASSERT_EQ(reply.refill.size(), 10u);
  EXPECT_EQ(client.GiveBack(reply.refill), 10u);
}

TEST(RefillTest, InAFullPoolABatchGoesForThemButNoKeyOfTheRequest) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host);
  std::vector<wire::PageRef> hand = client.Grant(kMiB, 4);
  uint64_t stored = 0;
  for (int round = 0; round < 40; ++round) {
    wire::RegisterRequest request;
    std::vector<std::string> keys;
    for (size_t i = 0; i < hand.size(); ++i) keys.push_back("key" + std::to_string(stored++));
    for (size_t i = 0; i < hand.size(); ++i) request.entries.push_back({hand[i], 1, 0, keys[i]});
    request.refill_page_bytes = kMiB;
    request.refill_count = 4;
    const auto reply = client.Ask<wire::RegisterReply>(request);
    for (const std::string& key : keys) EXPECT_TRUE(client.Exists(key)) << key;
    ASSERT_GE(reply.refill.size(), 1u) << round;
    hand = reply.refill;
  }
  EXPECT_GT(stored, 40u);  // more than the pool holds
  EXPECT_FALSE(client.Exists("key0"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

// A store under `key` to the page, with a wish for `count` pages of 1 MiB.
wire::RegisterReply StoreAndRefill(TestClient* client, const std::string& key,
                                   const wire::PageRef& page, uint32_t count) {
  wire::RegisterRequest request;
  request.entries.push_back({page, 1, 0, key});
  request.refill_page_bytes = kMiB;
  request.refill_count = count;
  return client->Ask<wire::RegisterReply>(request);
}

TEST(RefillTest, NoKeyOfTheClientsGoesForItsBudget) {
  TestEngine host;
  TestClient client(&host, {.budget_bytes = 16 * kMiB});
  std::vector<wire::PageRef> hand;
  while (hand.size() < 16) hand.push_back(client.Grant(kMiB)[0]);
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(StoreAndRefill(&client, "key" + std::to_string(i), hand[i], 16).refill.empty());
  }
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(client.Exists("key" + std::to_string(i))) << i;
  // A page that a call waits for takes one key, however many pages it would like.
  EXPECT_EQ(client.Grant(kMiB, 16).size(), 1u);
  EXPECT_EQ(host->Count(PoolIndex(0)).live, 15u);
  EXPECT_FALSE(client.Exists("key0"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RefillTest, InAFullPoolNoKeyGoesWhileTheClientHasPages) {
  TestEngine host({.pools = {64 * kMiB}});
  TestClient client(&host), other(&host);
  const std::vector<wire::PageRef> pages = client.Grant(kMiB, 2);
  uint64_t stored = 0;
  do {
    other.Put("other" + std::to_string(stored++), kMiB);
  } while (host->Count(PoolIndex(0)).live == stored);
  while (host->Count(PoolIndex(0)).free > 0) other.Grant(kMiB);
  const uint64_t live = host->Count(PoolIndex(0)).live;
  ASSERT_GT(live, 32u);
  EXPECT_TRUE(StoreAndRefill(&client, "first", pages[0], 32).refill.empty());
  EXPECT_EQ(host->Count(PoolIndex(0)).live, live + 1);
  // With the last one gone the next call would wait: a sixteenth of the keys goes, not 32.
  EXPECT_EQ(StoreAndRefill(&client, "second", pages[1], 32).refill.size(), (live + 1) / 16);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RefillTest, IdleRegionsOfOtherSizesGoBeforeKeys) {
  TestEngine host({.pools = {128 * kMiB}});
  TestClient client(&host), other(&host);
  constexpr uint64_t kSmall = 256 * kKiB;
  for (int i = 0; i < 160; ++i) other.Put("small" + std::to_string(i), kSmall);
  uint64_t stored = 0;
  do {
    client.Put("large" + std::to_string(stored++), kMiB);
  } while (host->Count(PoolIndex(0)).live == 160 + stored);
  for (int i = 0; i < 160; ++i) other.Delete("small" + std::to_string(i));
  host.EndCuts();
  // Each store takes the one page that the client has, and wishes for another.
  uint64_t live = host->Count(PoolIndex(0)).live;
  wire::PageRef page = client.Grant(kMiB)[0];
  for (int i = 0; i < 20; ++i) {
    const auto reply = StoreAndRefill(&client, "more" + std::to_string(i), page, 1);
    ASSERT_EQ(reply.refill.size(), 1u) << i;
    page = reply.refill[0];
    EXPECT_EQ(host->Count(PoolIndex(0)).live, ++live) << i;
  }
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(RefillTest, WithoutAnyTheReplyIsAsGood) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host, {.budget_bytes = kMiB});
  wire::RegisterRequest request;
  request.entries.push_back({client.Grant(kMiB)[0], 1, 0, "key"});
  request.refill_page_bytes = kMiB;
  request.refill_count = 10;
  const auto reply = client.Ask<wire::RegisterReply>(request);
  EXPECT_EQ(reply.items[0].outcome, RegisterOutcome::kRegistered);
  EXPECT_TRUE(reply.refill.empty());
  EXPECT_TRUE(client.Exists("key"));
}

TEST(RefillTest, AConfirmedKeyDoesNotGoForIt) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host, {.budget_bytes = 2 * kMiB});
  client.Put("key", kMiB);
  wire::RegisterRequest request;
  request.entries.push_back({client.Grant(kMiB)[0], 1, 0, "key"});
  request.refill_page_bytes = kMiB;
  request.refill_count = 1;
  const auto reply = client.Ask<wire::RegisterReply>(request);
  EXPECT_EQ(reply.items[0].outcome, RegisterOutcome::kDuplicate);
  EXPECT_TRUE(reply.refill.empty());
  EXPECT_TRUE(client.Exists("key"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
