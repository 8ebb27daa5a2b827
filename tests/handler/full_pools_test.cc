// Several pools, of which some have pages and no room for keys.

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

using Road = DirectLink::Road;

struct SecondPoolTest : testing::Test {
  static engine::TestEngine::Options TwoPools() {
    engine::TestEngine::Options options{.pools = {32 * kMiB, 64 * kMiB}};
    options.engine.eviction = engine::Eviction::kNone;
    return options;
  }
  explicit SecondPoolTest(engine::TestEngine::Options options = TwoPools())
      : host(std::move(options)) {
    EXPECT_OK(one->Connect());
    EXPECT_OK(other->Connect());
  }
  ~SecondPoolTest() override { EXPECT_EQ(host.Offenders(), ""); }

  static std::string LongKey(int i) { return std::string(3000, 'k') + std::to_string(i); }
  static bool PutLong(Instance& instance, int i) {
    const std::string bytes = std::to_string(i);
    return instance->Store(LongKey(i), Written(instance, bytes), bytes.size()).value();
  }
  uint64_t LiveIn(uint8_t pool) {
    return host.With(
        [&](engine::TestEngine& engine) { return engine->Count(PoolIndex(pool)).live; });
  }
  // Until the second pool has a key.
  int Fill() {
    int stored = 0;
    while (LiveIn(1) == 0) {
      if (!PutLong(one, stored)) {
        ADD_FAILURE() << "not stored: " << stored;
        break;
      }
      ++stored;
    }
    return stored;
  }

  Host host;
  Instance one{&host, {.page_bytes = 512}};
  Instance other{&host, {.page_bytes = 512}};
};

TEST_F(SecondPoolTest, WhatTheFirstHasNoRoomForIsStoredInTheSecond) {
  const int stored = Fill();
  EXPECT_GT(stored, 4'000);
  EXPECT_EQ(one.counters().failed, 0u);
  EXPECT_EQ(one.counters().refused, 0u);
  for (const int i : {0, stored - 1}) {
    EXPECT_EQ(Get(other, LongKey(i)), std::to_string(i));
  }
}

TEST_F(SecondPoolTest, ARefusedPageIsNotTheNextToTry) {
  int stored = Fill();
  uint64_t messages = 0;
  one.link.road = [&messages](const wire::Request&) {
    ++messages;
    return Road::kWhole;
  };
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(PutLong(one, stored++));
  one.link.road = nullptr;  // it names what lives here
  // A message each, and some for pages.
  EXPECT_LT(messages, 120u);
  EXPECT_EQ(LiveIn(1), 101u);
}

// What each had in hand is refused as well, in one batch with what the other pool takes at once.
TEST_F(SecondPoolTest, ABatchIsStoredInBoth) {
  std::vector<PageHandle> pages;
  for (int i = 0; i < 40; ++i) pages.push_back(Written(other, "other" + std::to_string(i)));
  const int stored = Fill();
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back(LongKey(stored + i));
  std::vector<Handler::StoreItem> items;
  for (int i = 0; i < 40; ++i) items.push_back({keys[i], pages[i], 6});
  const uint64_t before = LiveIn(1);
  const std::vector<bool> done = other->BatchStore(items).value();
  EXPECT_EQ(done, std::vector<bool>(40, true));
  EXPECT_GT(LiveIn(1), before + 20);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(Get(one, keys[i]), ("other" + std::to_string(i)).substr(0, 6)) << i;
  }
  EXPECT_EQ(other.counters().failed, 0u);
}

// Somebody may still write to the refused page: the key's bytes are those of a copy.
TEST_F(SecondPoolTest, APageThatIsHeldOnLingersAndItsKeyIsACopy) {
  const PageHandle page = Written(other, "before");
  const auto hold = other->HoldOn(page).value();
  const int stored = Fill();
  ASSERT_TRUE(other->Store(LongKey(stored), page, 6).value());
  EXPECT_EQ(LiveIn(1), 2u);
  std::memcpy(page.data, "behind", 6);
  EXPECT_EQ(Get(one, LongKey(stored)), "before");
  EXPECT_EQ(other.counters().held, 1u);
  other->LetGo(hold);
  EXPECT_EQ(other.counters().held, 0u);
}

TEST_F(SecondPoolTest, WhereBothAreFullTheAnswerIsFalseAndNothingIsLost) {
  ASSERT_TRUE(Put(one, "short-0").value());  // there is room for names of its length
  int stored = Fill();
  int refused = 0;
  for (; refused < 3; ++stored) {
    const Result<PageHandle> page = one->Alloc(8);
    if (!page.ok()) break;
    if (!one->Store(LongKey(stored), *page, 8).value()) ++refused;
  }
  EXPECT_EQ(one.counters().refused, static_cast<uint64_t>(refused));
  EXPECT_EQ(one.counters().failed, static_cast<uint64_t>(refused));
  EXPECT_EQ(one.counters().unknown, 0u);
  EXPECT_TRUE(Put(one, "short-1").value());
}

// All pages of some callers are held on, until their buffers are let go of.
TEST_F(SecondPoolTest, ARefusedPageThatWasHeldOnIsNotTheNextToTry) {
  int stored = Fill();
  const auto put_held = [&] {
    const PageHandle page = Written(one, "text");
    const auto hold = one->HoldOn(page).value();
    EXPECT_TRUE(one->Store(LongKey(stored++), page, 4).value());
    one->LetGo(hold);
  };
  const PageHandle refused = Written(other, "other");
  const auto hold = other->HoldOn(refused).value();
  EXPECT_TRUE(other->Store(LongKey(stored++), refused, 5).value());
  other->LetGo(hold);
  uint64_t registers = 0;
  for (Instance* instance : {&one, &other}) {
    instance->link.road = [&registers](const wire::Request& request) {
      registers += std::holds_alternative<wire::RegisterRequest>(request) ? 1 : 0;
      return Road::kWhole;
    };
  }
  for (int i = 0; i < 20; ++i) {
    put_held();
    EXPECT_TRUE(PutLong(other, stored++));
  }
  for (Instance* instance : {&one, &other}) instance->link.road = nullptr;
  EXPECT_EQ(registers, 40u);
  // Nor does it stay with its client.
  EXPECT_EQ(
      host.With([](engine::TestEngine& engine) { return engine->Count(PoolIndex(0)).granted; }),
      0u);
}

// As of any page that was stored: its key goes, once.
TEST_F(SecondPoolTest, FreeingAPageWhoseBytesMovedDeletesItsKey) {
  const PageHandle page = Written(other, "other"), other_page = Written(other, "other");
  ASSERT_EQ(page.page.pool, PoolIndex(0));
  const int stored = Fill();
  ASSERT_TRUE(other->Store(LongKey(stored), page, 5).value());
  EXPECT_OK(other->Free(page));
  EXPECT_EQ(Get(one, LongKey(stored)), "");
  EXPECT_CODE(other->Free(page), kFailedPrecondition);
  // Also by its address, which means the page that was handed out last there.
  ASSERT_TRUE(other->Store(LongKey(stored + 1), other_page, 5).value());
  const auto at = other->FromAddress(other_page.region_id, other_page.page_index);
  EXPECT_OK(other->Free(at.value()));
  EXPECT_EQ(Get(one, LongKey(stored + 1)), "");
}

struct ChecksumOfSecondPoolTest : SecondPoolTest {
  static engine::TestEngine::Options Mixed() {
    engine::TestEngine::Options options = TwoPools();
    options.flags_of_pools = {0, layout::kFlagChecksums};
    return options;
  }
  ChecksumOfSecondPoolTest() : SecondPoolTest(Mixed()) {}
};

TEST_F(ChecksumOfSecondPoolTest, IsThatOfThePoolWhereTheKeyIs) {
  const int stored = Fill();
  const Result<View> view = other->Retrieve(LongKey(stored - 1), Verify::kChecksum);
  ASSERT_OK(view);
  EXPECT_EQ(TextOf(*view), std::to_string(stored - 1));
}

struct FullPoolsTest : SecondPoolTest {
  static engine::TestEngine::Options Cache() {
    engine::TestEngine::Options options = TwoPools();
    options.pools = {32 * kMiB, 32 * kMiB};
    options.engine.eviction = engine::Eviction::kLeastRecentlyUsed;
    return options;
  }
  explicit FullPoolsTest(engine::TestEngine::Options options = Cache())
      : SecondPoolTest(std::move(options)) {}

  // Batches of names of that many bytes and more, by turns of both instances. How many are stored.
  uint64_t PutBatches(size_t batches, size_t batch, size_t key_bytes) {
    Random random(TestSeed());
    uint64_t stored = 0;
    for (size_t b = 0; b < batches; ++b) {
      Instance& instance = b % 2 == 0 ? one : other;
      std::vector<std::string> keys;
      std::vector<PageHandle> pages;
      std::vector<Handler::StoreItem> items;
      for (size_t i = 0; i < batch; ++i) {
        keys.push_back(std::string(key_bytes + random.Below(5 * key_bytes), 'k') +
                       std::to_string(b * batch + i));
        pages.push_back(Written(instance, "text"));
      }
      for (size_t i = 0; i < batch; ++i) items.push_back({keys[i], pages[i], 4});
      const std::vector<bool> done = instance->BatchStore(items).value();
      stored += static_cast<uint64_t>(std::ranges::count(done, true));
    }
    return stored;
  }
};

TEST_F(FullPoolsTest, EveryKeyIsStoredWhereOthersMayGo) {
  EXPECT_EQ(PutBatches(60, 60, 6000), 3600u);
  EXPECT_EQ(one.counters().refused + other.counters().refused, 0u);
}

struct ThirdPoolTest : FullPoolsTest {
  static engine::TestEngine::Options ThreePools() {
    engine::TestEngine::Options options = TwoPools();
    options.pools = {32 * kMiB, 32 * kMiB, 128 * kMiB};
    return options;
  }
  ThirdPoolTest() : FullPoolsTest(ThreePools()) {}
};

// A client's hand has pages of the second pool still, which is full meanwhile as well.
TEST_F(ThirdPoolTest, IsTriedAfterTheSecond) {
  constexpr int kItems = 300;  // more than come with an answer
  std::vector<PageHandle> pages, seconds;
  for (int n = 0; n < kItems; ++n) pages.push_back(Written(other, "other"));
  int stored = Fill();
  while (seconds.size() < kItems / 2) {
    const PageHandle page = Written(other, "second");
    if (page.page.pool == PoolIndex(1)) seconds.push_back(page);
  }
  while (LiveIn(2) == 0) ASSERT_TRUE(PutLong(one, stored++));
  ASSERT_EQ(pages.back().page.pool, PoolIndex(0));
  for (const PageHandle& page : seconds) ASSERT_OK(other->Free(page));
  std::vector<std::string> keys;
  for (int n = 0; n < kItems; ++n) keys.push_back(LongKey(stored + n));
  std::vector<Handler::StoreItem> items;
  for (int n = 0; n < kItems; ++n) items.push_back({keys[n], pages[n], 5});
  EXPECT_EQ(other->BatchStore(items).value(), std::vector<bool>(kItems, true));
  for (const std::string& key : keys) EXPECT_EQ(Get(one, key), "other");
}

TEST_F(ThirdPoolTest, TakesWhatTheFirstTwoHaveNoRoomFor) {
  EXPECT_EQ(PutBatches(28, 100, 6000), 2800u);
  EXPECT_EQ(one.counters().refused + other.counters().refused, 0u);
  EXPECT_GT(LiveIn(2), 0u);
}

}  // namespace
}  // namespace maru::handler
