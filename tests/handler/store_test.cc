// Stores: what a caller hears, and where its pages are afterwards, whatever the road did.

#include <algorithm>

#include "handler_fixture.h"

namespace maru::handler {
namespace {

using Road = DirectLink::Road;

struct StoreTest : HandlerFixture {
  std::vector<bool> Batch(Instance& instance, const std::vector<std::string_view>& keys) {
    std::vector<Handler::StoreItem> items;
    for (const std::string_view key : keys) {
      items.push_back({key, Written(instance, key), key.size()});
    }
    const Result<std::vector<bool>> stored = instance->BatchStore(items);
    EXPECT_OK(stored);
    return stored.value_or(std::vector<bool>());
  }
};

TEST_F(StoreTest, WhatOneStoresTheOtherReadsAndNobodyHoldsAPage) {
  EXPECT_TRUE(Put(one, "key").value());
  EXPECT_EQ(Get(other, "key"), "key");
  EXPECT_EQ(one.counters().held, 0u);
  EXPECT_EQ(other.counters().leases, 0u);
  EXPECT_EQ(host.Count().live, 1u);
}

TEST_F(StoreTest, TheLosersPageIsInItsHandBeforeTheCallReturns) {
  ASSERT_TRUE(Put(one, "key").value());
  const PageHandle page = Written(other, "another");
  const uint64_t in_hand = other.counters().free_in_hand;
  EXPECT_TRUE(other->Store("key", page, 7).value());
  EXPECT_EQ(other.counters().duplicates, 1u);
  EXPECT_GE(other.counters().free_in_hand, in_hand + 1);
  EXPECT_EQ(Get(one, "key"), "key");
  // Its generation is another one, so that nothing late hits the page's next use.
  const auto word = host.With([&](engine::TestEngine& engine) { return engine.State(page.page); });
  EXPECT_EQ(word.state(), layout::PageState::kGranted);
  EXPECT_GT(word.generation().value(), page.page.generation.value());
  EXPECT_CODE(other->Free(page), kFailedPrecondition);
  EXPECT_CODE(other->Store("again", page, 7), kFailedPrecondition);
}

TEST_F(StoreTest, TheSameKeyTwiceInOneBatchIsADuplicate) {
  EXPECT_EQ(Batch(one, {"a", "b", "a"}), std::vector<bool>({true, true, true}));
  EXPECT_EQ(one.counters().duplicates, 1u);
  EXPECT_EQ(host.Count().live, 2u);
}

TEST_F(StoreTest, TheCommonStoreIsOneMessage) {
  constexpr uint64_t kStores = 100;
  uint64_t messages = 0;
  one.link.road = [&messages](const wire::Request&) {
    ++messages;
    return Road::kWhole;
  };
  for (uint64_t i = 0; i < kStores; ++i) ASSERT_TRUE(Put(one, "key-" + std::to_string(i)).value());
  one.link.road = nullptr;
  // The first page is asked for; the answers to stores bring the others.
  EXPECT_EQ(one.counters().alloc_messages, 1u);
  EXPECT_EQ(messages, kStores + 1);
}

TEST_F(StoreTest, OnePageTwiceInOneBatchIsStoredOnce) {
  const PageHandle page = Written(one, "text");
  const Handler::StoreItem items[] = {{"a", page, 4}, {"b", page, 4}};
  EXPECT_EQ(one->BatchStore(items).value(), std::vector<bool>({true, false}));
  EXPECT_EQ(Get(one, "a"), "text");
  EXPECT_EQ(Get(one, "b"), "");
}

TEST_F(StoreTest, WhatDoesNotFitIsFalseAndItsPageIsFreeAgain) {
  const std::string over(layout::kKeyBytesMax + 1, 'k');
  const Handler::StoreItem items[] = {
      {over, Written(one, "1"), 1},      {"zero", Written(one, "2"), 0},
      {"long", Written(one, "3"), 4097}, {"wide", Written(one, "3"), ~uint64_t{0}},
      {"more", Written(one, "4"), 2},    {"fits", Written(one, std::string(4096, '5')), 4096}};
  EXPECT_EQ(one->BatchStore(items).value(),
            std::vector<bool>({false, false, false, false, false, true}));
  EXPECT_EQ(one.counters().held, 0u);
  // One at a time it is an error that names the length, and the page stays the caller's.
  const PageHandle page = Written(one, "5");
  const Status status = one->Store("long", page, 4097).status();
  EXPECT_CODE(status, kInvalidArgument);
  EXPECT_NE(status.message().find("4097"), std::string::npos);
  EXPECT_OK(one->Free(page));
}

// Behind what was asked for lies what the page's former keys left there.
TEST_F(StoreTest, NoMoreIsStoredThanWasAskedOfAlloc) {
  const PageHandle page = Written(one, "0123456789");
  const Status status = one->Store("key", page, 11).status();
  EXPECT_CODE(status, kInvalidArgument);
  for (const char* const number : {"11 bytes", "10", "4096"}) {
    EXPECT_NE(status.message().find(number), std::string::npos) << status.message();
  }
  EXPECT_TRUE(one->Store("key", page, 10).value());
  // By its address the page alone is known, as upstream's adapters have it.
  const PageHandle other_page = Written(one, "0123456789");
  const PageHandle named = one->FromAddress(other_page.region_id, other_page.page_index).value();
  EXPECT_TRUE(one->Store("by address", named, 4096).value());
}

TEST_F(StoreTest, AfterALostReplyTheKeyIsFoundToBeIn) {
  LoseOnce<wire::RegisterRequest>(one, Road::kReplyLost);
  EXPECT_FALSE(Put(one, "key").value());
  EXPECT_EQ(one.counters().unknown, 1u);
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one.counters().settled_live, 1u);
  EXPECT_EQ(one.counters().unknown, 0u);
  EXPECT_EQ(Get(one, "key"), "key");
}

TEST_F(StoreTest, AfterALostRequestThePageIsFreeAgain) {
  LoseOnce<wire::RegisterRequest>(one, Road::kRequestLost);
  EXPECT_FALSE(Put(one, "key").value());
  EXPECT_EQ(one.counters().unknown, 1u);
  EXPECT_TRUE(Put(one, "key").value());
  EXPECT_EQ(one.counters().unknown, 0u);
  EXPECT_EQ(one.counters().settled_live, 0u);
  EXPECT_EQ(one.counters().reconnects, 1u);
}

TEST_F(StoreTest, WhatWasNotSentIsSentAgain) {
  LoseOnce<wire::RegisterRequest>(one, Road::kNotSent);
  EXPECT_TRUE(Put(one, "key").value());
  EXPECT_EQ(one.counters().unknown, 0u);
  EXPECT_EQ(one.counters().reconnects, 1u);
}

TEST_F(StoreTest, TheMissingEntriesOfAShortReplyAreFalseAndSettled) {
  EditOnce<wire::RegisterRequest>(one, [](Status*, wire::Reply* reply) {
    std::get<wire::RegisterReply>(*reply).items.resize(2);
  });
  EXPECT_EQ(Batch(one, {"a", "b", "c", "d"}), std::vector<bool>({true, true, false, false}));
  EXPECT_EQ(one.counters().unknown, 2u);
  EXPECT_TRUE(Put(one, "e").value());
  EXPECT_EQ(one.counters().unknown, 0u);
  EXPECT_EQ(one.counters().settled_live, 2u);
  EXPECT_EQ(Get(other, "d"), "d");
}

TEST_F(StoreTest, MoreEntriesThanAskedForAreNotBelieved) {
  EditOnce<wire::RegisterRequest>(one, [](Status*, wire::Reply* reply) {
    std::get<wire::RegisterReply>(*reply).items.resize(5);
  });
  EXPECT_EQ(Batch(one, {"a", "b"}), std::vector<bool>({true, true}));
}

TEST_F(StoreTest, AnErrorIsFalseForAllAndNoPageIsUsedBeforeItsFateIsKnown) {
  EditOnce<wire::RegisterRequest>(one, [](Status* status, wire::Reply* reply) {
    *status = Internal("made up");
    reply->emplace<std::monostate>();
  });
  EXPECT_EQ(Batch(one, {"a", "b", "c"}), std::vector<bool>({false, false, false}));
  EXPECT_EQ(one.counters().unknown, 3u);
  // Everything in hand is handed out, and none of it is a page whose fate is unknown.
  std::vector<PageHandle> pages;
  for (uint64_t left = one.counters().free_in_hand; left > 0; --left) {
    pages.push_back(Written(one, "x"));
  }
  EXPECT_EQ(one.counters().unknown, 3u);
  EXPECT_EQ(Get(other, "b"), "b");
  for (const PageHandle& page : pages) EXPECT_OK(one->Free(page));
}

TEST_F(StoreTest, AnAnswerOfAnotherKindIsFalseAndSettled) {
  EditOnce<wire::RegisterRequest>(
      one, [](Status*, wire::Reply* reply) { reply->emplace<wire::PingReply>(); });
  EXPECT_EQ(Batch(one, {"a", "b"}), std::vector<bool>({false, false}));
  EXPECT_EQ(one.counters().unknown, 2u);
}

TEST_F(StoreTest, WithoutAServerABatchIsRefusedBeforeItConsumesAPage) {
  const PageHandle pages[] = {Written(one, "a"), Written(one, "b")};
  host.Kill();
  const Handler::StoreItem items[] = {{"a", pages[0], 1}, {"b", pages[1], 1}};
  one.link.Probe();
  EXPECT_CODE(one->BatchStore(items), kUnavailable);
  EXPECT_EQ(one.counters().held, 2u);
  host.Start();
  EXPECT_EQ(one->BatchStore(items).value(), std::vector<bool>({true, true}));
}

TEST_F(StoreTest, AServerThatIsFoundGoneOnlyAtTheSendMakesEveryAnswerFalse) {
  const PageHandle page = Written(one, "a");
  host.Kill();
  EXPECT_FALSE(one->Store("a", page, 1).value());
  host.Start();
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one.counters().unknown, 0u);
  EXPECT_EQ(one.counters().held, 0u);
  EXPECT_FALSE(other->Exists("a").value());
}

TEST_F(StoreTest, AStoreThatARestartCutInTwoIsSettledByPageAndGeneration) {
  LoseOnce<wire::RegisterRequest>(one, Road::kReplyLost);
  EXPECT_FALSE(Put(one, "key").value());
  host.Restart();
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one.counters().settled_live, 1u);
  EXPECT_EQ(Get(other, "key"), "key");
}

TEST_F(StoreTest, AStoreOfUnknownFateMayHaveGoneAgainBeforeItIsSettled) {
  LoseOnce<wire::RegisterRequest>(one, Road::kReplyLost);
  EXPECT_FALSE(Put(one, "key").value());
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one.counters().settled_gone, 1u);
}

TEST_F(StoreTest, ARepeatedKeyOfALostReplyIsADuplicateOfItself) {
  LoseOnce<wire::RegisterRequest>(one, Road::kReplyLost);
  EXPECT_FALSE(Put(one, "key").value());
  EXPECT_TRUE(Put(one, "key").value());
  EXPECT_EQ(one.counters().duplicates, 1u);
  EXPECT_EQ(host.Count().live, 1u);
}

// Recency orders of keys that several messages take.
struct FullPoolTest : testing::Test {
  Host host{{.pools = {32 * kMiB}}};
  Instance one{&host};
  std::vector<std::string> names;

  FullPoolTest() { EXPECT_OK(one->Connect()); }
  ~FullPoolTest() override { ExpectNothingLost(host, {&one}); }

  std::vector<std::string_view> Keys() const { return {names.begin(), names.end()}; }
  void StoreAll() {
    std::vector<Handler::StoreItem> items;
    for (const std::string_view key : Keys()) items.push_back({key, Written(one, key), key.size()});
    const Result<std::vector<bool>> stored = one->BatchStore(items);
    ASSERT_OK(stored);
    EXPECT_EQ(std::ranges::count(*stored, true), static_cast<ptrdiff_t>(items.size()));
  }
  uint64_t Present() { return std::ranges::count(*one->BatchExists(Keys()), true); }
  // Stores other keys until about half of the batch has gone.
  void EvictHalf() {
    for (uint64_t i = 0; Present() > names.size() / 2; ++i) {
      ASSERT_LT(i, 64 * kMiB / 4096) << "nothing is evicted";
      ASSERT_TRUE(Put(one, "other " + std::to_string(i)).value());
    }
  }
};

TEST_F(FullPoolTest, OfABatchOfSeveralFramesTheTailIsEvictedFirst) {
  for (int i = 0; i < 3000; ++i) names.push_back(std::string(100, 'k') + std::to_string(i));
  uint64_t frames = 0;
  one.link.road = [&frames](const wire::Request& request) {
    frames += std::holds_alternative<wire::RegisterRequest>(request);
    return Road::kWhole;
  };
  StoreAll();
  one.link.road = nullptr;
  EXPECT_GE(frames, 3u);
  EvictHalf();
  EXPECT_EQ(one->MatchPrefix(Keys()).value(), Present());
}

TEST_F(FullPoolTest, OfABatchOfPinsTheTailIsEvictedFirst) {
  for (int i = 0; i < 1000; ++i) names.push_back("key " + std::to_string(i));
  std::ranges::reverse(names);
  StoreAll();
  std::ranges::reverse(names);
  ASSERT_OK(one->BatchPin(Keys()));
  ASSERT_OK(one->BatchUnpin(Keys()));
  EvictHalf();
  EXPECT_EQ(one->MatchPrefix(Keys()).value(), Present());
}

}  // namespace
}  // namespace maru::handler
