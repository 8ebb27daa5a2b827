// Pages in hand and with the application: alloc, free, addresses, budgets, full pools.

#include <algorithm>
#include <thread>

#include "base/sequence_point.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

struct PagesTest : HandlerFixture {};

bool Names(const Status& status, const std::string& word) {
  return status.message().find(word) != std::string::npos;
}

TEST_F(PagesTest, SizesOutOfBoundsAreNamedWithThePageSize) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{4097}, ~uint64_t{0}}) {
    const Status status = one->Alloc(size).status();
    EXPECT_CODE(status, kInvalidArgument);
    EXPECT_TRUE(Names(status, std::to_string(size))) << status.message();
  }
  EXPECT_TRUE(Names(one->Alloc(4097).status(), "4096"));
  const PageHandle page = Written(one, std::string(4096, 'x'));
  EXPECT_OK(one->Free(page));
}

TEST_F(PagesTest, FreeingTwiceIsAnErrorThatChangesNothing) {
  const PageHandle page = Written(one, "x");
  EXPECT_OK(one->Free(page));
  const uint64_t in_hand = one.counters().free_in_hand;
  EXPECT_CODE(one->Free(page), kFailedPrecondition);
  EXPECT_EQ(one.counters().free_in_hand, in_hand);
}

TEST_F(PagesTest, PagesOfAGrantLieOneAfterTheOther) {
  PageHandle former = Written(one, "x");
  for (uint64_t left = one.counters().free_in_hand; left > 0; --left) {
    const PageHandle next = Written(one, "x");
    EXPECT_EQ(next.page.record.value(), former.page.record.value() + 1);
    former = next;
  }
}

TEST_F(PagesTest, AHandleOfAnEarlierHandingOutIsOver) {
  const PageHandle page = Written(one, "x");
  EXPECT_OK(one->Free(page));
  const PageHandle again = Written(one, "x");
  ASSERT_EQ(again.page, page.page);
  EXPECT_CODE(one->Free(page), kFailedPrecondition);
  EXPECT_CODE(one->Store("key", page, 1), kFailedPrecondition);
  EXPECT_TRUE(one->Store("key", again, 1).value());
}

// Handlers that have done the same have handles with the same numbers.
TEST_F(PagesTest, APageOfAnotherHandlerIsRefusedAndNothingChanges) {
  Host elsewhere;
  Instance far(&elsewhere);
  EXPECT_OK(far->Connect());
  const PageHandle theirs = Written(far, "theirs");
  const PageHandle own = Written(one, "own");
  ASSERT_EQ(theirs.page, own.page);
  ASSERT_EQ(theirs.session, own.session);
  ASSERT_EQ(theirs.handout, own.handout);
  const PageHandle beside = Written(other, "beside");
  for (const PageHandle& page : {theirs, beside}) {
    const Handler::StoreItem items[] = {{"a", own, 3}, {"b", page, 6}};
    for (const Status& status :
         {one->Store("a", page, 6).status(), one->BatchStore(items).status(), one->Free(page),
          one->Free(page, Handler::IfStored::kIsOver), one->HoldOn(page).status()}) {
      EXPECT_CODE(status, kInvalidArgument);
      EXPECT_TRUE(Names(status, "another client")) << status.message();
    }
  }
  EXPECT_EQ(one.counters().held, 1u);
  EXPECT_EQ(host.Count().live, 0u);
  EXPECT_TRUE(one->Store("own", own, 3).value());
  EXPECT_TRUE(far->Store("theirs", theirs, 6).value());
  EXPECT_TRUE(other->Store("beside", beside, 6).value());
  EXPECT_EQ(Get(one, "own"), "own");
  EXPECT_EQ(Get(far, "theirs"), "theirs");
  // One whose page is a key's by now.
  EXPECT_CODE(one->Free(theirs), kInvalidArgument);
  EXPECT_EQ(Get(one, "own"), "own");
}

TEST_F(PagesTest, APageOfAFormerHandlerIsRefused) {
  Host elsewhere;
  PageHandle former;
  {
    Instance first(&elsewhere);
    EXPECT_OK(first->Connect());
    former = Written(first, "former");
  }
  Instance second(&elsewhere);
  EXPECT_OK(second->Connect());
  const PageHandle own = Written(second, "own");
  EXPECT_CODE(second->Store("key", former, 6), kInvalidArgument);
  EXPECT_CODE(second->Free(former), kInvalidArgument);
  EXPECT_TRUE(second->Store("key", own, 3).value());
  EXPECT_EQ(Get(second, "key"), "own");
}

TEST_F(PagesTest, FreeingAStoredPageRetiresItsKeyFirst) {
  const PageHandle page = Written(one, "key");
  ASSERT_TRUE(one->Store("key", page, 3).value());
  EXPECT_OK(one->Free(page));
  EXPECT_FALSE(other->Exists("key").value());
  EXPECT_CODE(one->Free(page), kFailedPrecondition);
  EXPECT_EQ(host.Count().live, 0u);
}

TEST_F(PagesTest, FreeingAPageWhoseKeyIsPinnedIsRefused) {
  const PageHandle page = Written(one, "key");
  ASSERT_TRUE(one->Store("key", page, 3).value());
  ASSERT_TRUE(other->Pin("key").value());
  EXPECT_TRUE(Names(one->Free(page), "pinned"));
  EXPECT_EQ(Get(one, "key"), "key");
  EXPECT_TRUE(other->Unpin("key").value());
  EXPECT_OK(one->Free(page));
}

TEST_F(PagesTest, FreeingAStoredPageThatLivesAnotherLifeChangesNothing) {
  const PageHandle page = Written(one, "key");
  ASSERT_TRUE(one->Store("key", page, 3).value());
  ASSERT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  // It becomes another key's.
  std::vector<PageHandle> pages;
  do {
    pages.push_back(Written(other, "innocent"));
  } while (pages.back().page.record != page.page.record);
  ASSERT_TRUE(other->Store("innocent", pages.back(), 8).value());
  pages.pop_back();
  EXPECT_CODE(one->Free(page), kFailedPrecondition);
  EXPECT_EQ(Get(one, "innocent"), "innocent");
  for (const PageHandle& held : pages) EXPECT_OK(other->Free(held));
}

TEST_F(PagesTest, AnAddressMeansTheLifeThatThisHandlerLastHeld) {
  const PageHandle page = Written(one, "key");
  const PageHandle named = one->FromAddress(page.region_id, page.page_index).value();
  EXPECT_EQ(named.page, page.page);
  EXPECT_EQ(named.data, page.data);
  EXPECT_TRUE(one->Store("key", named, 3).value());
  EXPECT_OK(one->Free(one->FromAddress(page.region_id, page.page_index).value()));
  EXPECT_CODE(other->FromAddress(page.region_id, page.page_index), kNotFound);
  EXPECT_CODE(one->FromAddress(page.region_id, ~0u), kNotFound);
  EXPECT_CODE(one->FromAddress(~0u, 0), kNotFound);
}

TEST_F(PagesTest, IdleGrantsGoBackAndNotBefore) {
  EXPECT_OK(one->Free(Written(one, "x")));
  ASSERT_GT(one.counters().free_in_hand, 0u);
  one->Tick();
  EXPECT_GT(one.counters().free_in_hand, 0u);
  one.clock.AdvanceMillis(1001);
  one->Tick();
  EXPECT_EQ(one.counters().free_in_hand, 0u);
  EXPECT_EQ(host.Count().granted, 0u);
}

TEST_F(PagesTest, GrantsOfALostReplyComeBack) {
  LoseOnce<wire::GrantRequest>(one, DirectLink::Road::kReplyLost);
  EXPECT_CODE(one->Alloc(1), kUnavailable);
  EXPECT_GT(host.Count().granted, 0u);
  EXPECT_OK(one->Ping());
  EXPECT_EQ(host.Count().granted, 0u);
}

TEST_F(PagesTest, AGiveBackOfUnknownFateIsSettled) {
  for (const auto how : {DirectLink::Road::kReplyLost, DirectLink::Road::kRequestLost}) {
    EXPECT_OK(one->Free(Written(one, "x")));
    one.clock.AdvanceMillis(1001);
    LoseOnce<wire::GiveBackRequest>(one, how);
    one->Tick();
    EXPECT_GT(one.counters().unknown, 0u);
    ExpectNothingLost(host, {&one});
  }
}

TEST_F(PagesTest, AGrantOfWhatIsNoPageIsRefusedAndSettled) {
  EditOnce<wire::GrantRequest>(one, [](Status*, wire::Reply* reply) {
    std::get<wire::GrantReply>(*reply).pages = {
        {PoolIndex(0), RecordNumber(0xFFFFFF), Generation(1)}};
  });
  EXPECT_CODE(one->Alloc(1), kDataLoss);
  EditOnce<wire::GrantRequest>(
      one, [](Status*, wire::Reply* reply) { std::get<wire::GrantReply>(*reply).pages.clear(); });
  EXPECT_CODE(one->Alloc(1), kDataLoss);
  EXPECT_OK(one->Free(Written(one, "x")));
}

TEST_F(PagesTest, APageThatCannotBeMappedIsNotLost) {
  EXPECT_OK(one->Free(Written(one, "x")));
  one.link.pool().RefuseNextMapping();
  EXPECT_CODE(one->Alloc(1), kResourceExhausted);
  EXPECT_EQ(one.counters().held, 0u);
}

TEST_F(PagesTest, APageThatWasPoppedWhileAnotherPoolCameIsNoPageOfThatPool) {
  EXPECT_OK(one->Free(Written(one, "x")));
  SequenceGate gate("handler:page-popped");
  Result<PageHandle> page = Unavailable("not yet");
  std::thread allocating([&] { page = one->Alloc(1); });
  gate.AwaitArrival();
  host.RestartOnAnotherPool();
  ASSERT_TRUE(Put(other, "other's").ok());
  ASSERT_TRUE(Put(other, "other's").value());  // takes a page with the same record
  ASSERT_OK(one->Ping());
  gate.Open();
  allocating.join();
  if (page.ok()) {
    page->data[0] = std::byte{'!'};
    EXPECT_CODE(one->Store("key", *page, 1), kFailedPrecondition);
  }
  EXPECT_EQ(Get(other, "other's"), "other's");
}

TEST(Close, GivesEverythingBackAndEndsTheCalls) {
  Host host;
  Instance one(&host);
  EXPECT_CODE(one->Exists("key"), kUnavailable);
  ASSERT_OK(one->Connect());
  ASSERT_TRUE(Put(one, "key").value());
  View view = one->Retrieve("key", Verify::kNo).value();
  const PageHandle page = Written(one, "x");
  one->Close();
  EXPECT_EQ(host.Count().granted, 0u);
  EXPECT_CODE(one->Free(page), kUnavailable);
  EXPECT_CODE(one->Alloc(1), kUnavailable);
  EXPECT_CODE(one->Retrieve("key", Verify::kNo), kUnavailable);
  // The view holds its page, though the handler is closed and the key is deleted.
  Instance other(&host);
  ASSERT_OK(other->Connect());
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  EXPECT_EQ(TextOf(view), "key");
  EXPECT_EQ(host.Count().condemned, 1u);
  view.Release();
  host.With([](engine::TestEngine& engine) { engine.Tick(); });
  EXPECT_EQ(host.Count().condemned, 0u);
  EXPECT_EQ(host.Offenders(), "");
}

TEST(Budget, IsNamedWhenItIsFull) {
  engine::TestEngine::Options options;
  options.engine.eviction = engine::Eviction::kNone;
  Host host(options);
  Instance one(&host, {.budget_bytes = 4 * 4096});
  ASSERT_OK(one->Connect());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(Put(one, "key-" + std::to_string(i)).value());
  const Status status = one->Alloc(1).status();
  EXPECT_CODE(status, kResourceExhausted);
  EXPECT_TRUE(Names(status, "16KiB")) << status.message();
  EXPECT_TRUE(Names(status, "pool_size")) << status.message();
  EXPECT_EQ(one->Delete("key-0").value(), wire::DeleteOutcome::kDeleted);
  EXPECT_TRUE(Put(one, "key-4").value());
  ExpectNothingLost(host, {&one});
}

TEST(Budget, OwnIdlePagesAreUsedBeforeOwnKeysGo) {
  Host host;
  Instance one(&host, {.budget_bytes = 16 * 4096});
  ASSERT_OK(one->Connect());
  std::vector<PageHandle> pages;
  for (int i = 0; i < 16; ++i) pages.push_back(Written(one, "x"));
  for (const PageHandle& page : pages) ASSERT_OK(one->Free(page));
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Put(one, "key-" + std::to_string(i)).value());
    EXPECT_EQ(host.Count().live, std::min<uint64_t>(i + 1, 16));
  }
  ExpectNothingLost(host, {&one});
}

TEST(FullPool, TheCommonStoreIsOneMessageToo) {
  engine::TestEngine::Options options;
  options.pools = {32 * kMiB};
  Host host(options);
  Instance one(&host, {.page_bytes = 64 * 1024});
  ASSERT_OK(one->Connect());
  uint64_t stored = 0;
  do {
    ASSERT_TRUE(Put(one, "key-" + std::to_string(stored++)).value());
  } while (host.Count().live == stored);
  const uint64_t messages = one.counters().alloc_messages;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Put(one, "key-" + std::to_string(stored++)).value());
  }
  EXPECT_EQ(one.counters().alloc_messages, messages);
  // And most of the pages hold keys.
  EXPECT_GE(host.Count().live, host.Count().pages / 8 * 7);
  ExpectNothingLost(host, {&one});
}

TEST(FullPool, HandsLeaveMostOfItToKeys) {
  engine::TestEngine::Options options;
  options.pools = {80 * kMiB};
  Host host(options);
  Instance one(&host, {.page_bytes = kMiB / 2}), other(&host, {.page_bytes = kMiB / 2});
  for (Instance* instance : {&one, &other}) ASSERT_OK((*instance)->Connect());
  for (int round = 0; round < 8; ++round) {
    for (Instance* instance : {&one, &other}) {
      std::vector<std::string> keys;
      std::vector<Handler::StoreItem> items;
      for (int i = 0; i < 32; ++i) {
        keys.push_back(std::to_string(round * 32 + i) + (instance == &one ? "a" : "b"));
      }
      for (const std::string& key : keys) items.push_back({key, Written(*instance, key), 1});
      ASSERT_OK((*instance)->BatchStore(items));
      EXPECT_LE(host.Count().granted, 20u) << round;  // ten each
    }
  }
  // And what is left of the sixteenth that went for a page.
  EXPECT_LE(host.Count().pages - host.Count().live, 30u);
  for (Instance* instance : {&one, &other}) {
    EXPECT_TRUE((*instance)->Exists(instance == &one ? "255a" : "255b").value());
  }
  ExpectNothingLost(host, {&one, &other});
}

// A page of several units is there after several answers, and its region after many.
TEST(FullPool, LargePagesCostNoKeyBeforeThePoolIsFull) {
  constexpr uint64_t kPageBytes = 16 * kMiB;
  engine::TestEngine::Options options;
  options.pools = {512 * kMiB};
  Host host(options);
  Instance one(&host, {.page_bytes = kPageBytes});
  ASSERT_OK(one->Connect());
  uint64_t stored = 0;
  do {
    ASSERT_TRUE(Put(one, "key-" + std::to_string(stored++)).value());
  } while (host.Count().live == stored);
  EXPECT_GE(stored, 24u);
  ExpectNothingLost(host, {&one});
}

// Each answer without a page has brought memory in, and another client has taken the page.
TEST(FullPool, WhoseLargePageOthersTakeAsksAgain) {
  engine::TestEngine::Options options;
  options.pools = {512 * kMiB};
  Host host(options);
  Instance one(&host, {.page_bytes = 16 * kMiB}), other(&host, {.page_bytes = 16 * kMiB});
  for (Instance* instance : {&one, &other}) ASSERT_OK((*instance)->Connect());
  std::vector<PageHandle> taken;
  one.link.road = [&](const wire::Request& request) {
    if (std::holds_alternative<wire::GrantRequest>(request) && taken.size() < 12) {
      const Result<PageHandle> page = other->Alloc(1);
      if (page.ok()) taken.push_back(*page);
    }
    return DirectLink::Road::kWhole;
  };
  const Result<PageHandle> page = one->Alloc(1);
  one.link.road = nullptr;  // it names what lives here
  EXPECT_OK(page);
  EXPECT_EQ(taken.size(), 12u);
  EXPECT_EQ(one.counters().unknown, 0u);
  ExpectNothingLost(host, {&one, &other});
}

TEST_F(PagesTest, CountsThatArePublishedBeforeAnAnswerIsTakenInAreOfTheOneBefore) {
  const PageHandle page = Written(one, "x");
  while (one.counters().free_in_hand > 0) Written(one, "y");
  bool looked = false;
  EditOnce<wire::GrantRequest>(one, [&](Status*, wire::Reply*) {
    EXPECT_OK(one->Free(page));  // as another thread does, and publishes
    EXPECT_EQ(host.Offenders(), "");
    looked = true;
  });
  Written(one, "z");
  Written(one, "z");
  EXPECT_TRUE(looked);
}

TEST(FullPool, SaysSoAndWhatMayNotGo) {
  engine::TestEngine::Options options;
  options.pools = {32 * kMiB};
  Host host(options);
  Instance one(&host, {.page_bytes = 256 * 1024});
  ASSERT_OK(one->Connect());
  std::vector<std::string> pinned;
  Status status;
  while (status.ok()) {
    const Result<PageHandle> page = one->Alloc(1);
    status = page.status();
    if (!page.ok()) break;
    pinned.push_back("key-" + std::to_string(pinned.size()));
    ASSERT_TRUE(one->Store(pinned.back(), *page, 1).value());
    ASSERT_TRUE(one->Pin(pinned.back()).value());
  }
  EXPECT_CODE(status, kResourceExhausted);
  EXPECT_TRUE(Names(status, "full")) << status.message();
  EXPECT_TRUE(Names(status, "pinned")) << status.message();
  for (const std::string& key : pinned) EXPECT_TRUE(one->Unpin(key).value());
  EXPECT_TRUE(Put(one, "one more").value());  // in the place of others, a sixteenth at most
  const std::vector<std::string_view> keys(pinned.begin(), pinned.end());
  const std::vector<bool> there = one->BatchExists(keys).value();
  const auto gone = std::count(there.begin(), there.end(), false);
  EXPECT_GE(gone, 1);
  EXPECT_LE(gone, static_cast<ptrdiff_t>(pinned.size() / 16 + 1));
  ExpectNothingLost(host, {&one});
}

TEST(Hand, KeepsToItsBytes) {
  Host host;
  Instance one(&host, {.hand_bytes_max = 8 * 4096});
  ASSERT_OK(one->Connect());
  std::vector<PageHandle> pages;
  for (int i = 0; i < 100; ++i) pages.push_back(Written(one, "x"));
  for (const PageHandle& page : pages) {
    EXPECT_OK(one->Free(page));
    EXPECT_LE(one.counters().free_in_hand, 8u);
  }
  ExpectNothingLost(host, {&one});
}

TEST_F(PagesTest, ABatchWithAKeyThatIsTooLongPinsAndUnpinsNothing) {
  ASSERT_TRUE(Put(one, "key").value());
  const std::string over(70'000, 'k');
  const std::string_view keys[] = {"key", over};
  EXPECT_CODE(one->BatchPin(keys), kInvalidArgument);
  EXPECT_EQ(one.counters().pins, 0u);
  ASSERT_TRUE(one->Pin("key").value());
  EXPECT_CODE(one->BatchUnpin(keys), kInvalidArgument);
  EXPECT_EQ(one.counters().pins, 1u);
  EXPECT_TRUE(one->Unpin("key").value());
}

}  // namespace
}  // namespace maru::handler
