// What a handler makes of a server that is gone, comes back, comes back with another pool, or lies.

#include "base/sequence_point.h"
#include "catalogue/publication_points.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

struct ReconnectTest : HandlerFixture {
  struct Killed {};
  // The server dies in the middle of deleting: the key stays RETIRING until somebody serves it.
  void KillWhileDeleting(std::string_view key) {
    {
      const ScopedHook death(catalogue::points::kRetiring, [] { throw Killed(); });
      EXPECT_THROW(other->Delete(key).ok(), Killed);
    }
    host.Kill();
  }
  wire::PageRef PageOf(Instance& instance, std::string_view key) {
    return instance->Retrieve(key, Verify::kNo).value().page();
  }
};

TEST_F(ReconnectTest, TheSameClientGoesOnWithItsPagesItsPinsAndItsViews) {
  ASSERT_TRUE(Put(one, "key").value());
  ASSERT_TRUE(one->Pin("key").value());
  const View view = one->Retrieve("key", Verify::kNo).value();
  const PageHandle page = Written(one, "held");
  host.Restart();
  EXPECT_TRUE(one->Store("held", page, 4).value());
  EXPECT_EQ(one.counters().reconnects, 1u);
  EXPECT_EQ(one->epoch_changes(), 0u);
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kPinned);
  EXPECT_TRUE(one->Unpin("key").value());
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  EXPECT_EQ(TextOf(view), "key");
  EXPECT_EQ(host.Count().condemned, 1u);
}

TEST_F(ReconnectTest, WithoutAServerLooksGoOnAndChangesAreUnavailable) {
  ASSERT_TRUE(Put(one, "key").value());
  const PageHandle page = Written(one, "x");
  host.Kill();
  EXPECT_EQ(Get(one, "key"), "key");
  EXPECT_TRUE(one->Pin("key").value());
  EXPECT_TRUE(one->Unpin("key").value());
  EXPECT_CODE(one->Ping(), kUnavailable);
  EXPECT_CODE(one->Delete("key"), kUnavailable);
  EXPECT_OK(one->Free(page));
  one.link.Probe();
  EXPECT_FALSE(one->connected());
  host.Start();
  one->Tick();
  EXPECT_TRUE(one->connected());
}

TEST_F(ReconnectTest, OfAnotherPoolNothingOldIsBelieved) {
  ASSERT_TRUE(Put(one, "key").value());
  const View view = one->Retrieve("key", Verify::kNo).value();
  const PageHandle page = Written(one, "x");
  host.RestartOnAnotherPool();
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one->epoch_changes(), 1u);
  EXPECT_EQ(one.counters().held, 0u);
  EXPECT_EQ(one.counters().free_in_hand, 0u);
  EXPECT_EQ(TextOf(view), "key");
  EXPECT_EQ(Get(one, "key"), "");
  EXPECT_CODE(one->Store("x", page, 1), kFailedPrecondition);
  EXPECT_CODE(one->Free(page), kFailedPrecondition);
  EXPECT_CODE(one->FromAddress(page.region_id, page.page_index), kNotFound);
  EXPECT_TRUE(Put(one, "key").value());
}

TEST_F(ReconnectTest, KeysLieBelowTheEndpointsNamespace) {
  HandlerOptions options;
  options.name_space = "team";
  Instance here(&host, options), there(&host, options);
  there.link.endpoint = "tcp://127.0.0.1:5556";
  options.name_space = "tcp://127.0.0.1:5556/team";
  ASSERT_OK(here->Connect());
  ASSERT_OK(there->Connect());
  ASSERT_TRUE(Put(there, "key").value());
  EXPECT_EQ(Get(there, "key"), "key");
  EXPECT_EQ(Get(here, "key"), "");
  EXPECT_EQ(here->Delete("key").value(), wire::DeleteOutcome::kMissing);
  Instance refused(&host, options);
  EXPECT_CODE(refused->Connect(), kInvalidArgument);
  EXPECT_FALSE(refused->connected());
}

// The server that comes back is the same, but it is found by an endpoint of another namespace.
TEST_F(ReconnectTest, InAnotherNamespaceNothingOldIsBelieved) {
  ASSERT_TRUE(Put(one, "key").value());
  View view = one->Retrieve("key", Verify::kNo).value();
  PageHandle page = Written(one, "x");
  one.link.endpoint = "tcp://127.0.0.1:5556";
  host.Restart();
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one->epoch_changes(), 1u);
  EXPECT_EQ(TextOf(view), "key");
  EXPECT_EQ(Get(one, "key"), "");
  EXPECT_EQ(Get(other, "key"), "key");
  EXPECT_CODE(one->Store("x", page, 1), kFailedPrecondition);
  EXPECT_TRUE(Put(one, "key").value());
  EXPECT_EQ(one->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  EXPECT_EQ(Get(other, "key"), "key");
  // With its last view and the last handle of a page the former client is gone, and its pages come
  // back.
  view.Release();
  page = PageHandle();
  host.With([](engine::TestEngine& engine) { engine.Tick(); });
}

TEST_F(ReconnectTest, AStoredPageOfTheOldPoolIsNotFreedInTheNewOne) {
  const PageHandle page = Written(one, "key");
  ASSERT_TRUE(one->Store("key", page, 3).value());
  host.RestartOnAnotherPool();
  Instance third(&host);
  ASSERT_OK(third->Connect());
  ASSERT_TRUE(Put(third, "innocent").value());
  ASSERT_EQ(PageOf(third, "innocent"), page.page);
  EXPECT_CODE(one->Free(page), kFailedPrecondition);
  EXPECT_EQ(Get(third, "innocent"), "innocent");
  third->Close();
}

TEST_F(ReconnectTest, WhatAnotherPoolsServerSaysIsNotLookedUpInTheOldPool) {
  ASSERT_TRUE(Put(one, "first").value());
  ASSERT_TRUE(Put(one, "second").value());
  const wire::PageRef firsts = PageOf(one, "first");
  KillWhileDeleting("second");
  host.RestartOnAnotherPool();
  Instance third(&host);
  ASSERT_OK(third->Connect());
  ASSERT_TRUE(Put(third, "second").value());
  ASSERT_EQ(PageOf(third, "second"), firsts);
  // The old catalogue says RETIRING, so the server is asked, and it is another one.
  EXPECT_CODE(one->Retrieve("second", Verify::kNo), kUnavailable);
  EXPECT_EQ(Get(one, "second"), "second");
  third->Close();
}

TEST_F(ReconnectTest, AnotherPoolsServerDoesNotConfirmALeaseInTheOldPool) {
  ASSERT_TRUE(Put(one, "key").value());
  const wire::PageRef keys = PageOf(one, "key");
  KillWhileDeleting("key");
  host.RestartOnAnotherPool();
  Instance third(&host);
  ASSERT_OK(third->Connect());
  ASSERT_TRUE(Put(third, "innocent").value());
  ASSERT_EQ(PageOf(third, "innocent"), keys);
  EXPECT_CODE(one->Exists("key"), kUnavailable);
  EXPECT_FALSE(one->Exists("key").value());
  third->Close();
}

TEST_F(ReconnectTest, AKeyThatADeadServerLeftRetiringIsThereAgainAfterItsRestart) {
  ASSERT_TRUE(Put(one, "key").value());
  KillWhileDeleting("key");
  one.link.Probe();
  EXPECT_CODE(one->Exists("key"), kUnavailable);
  host.Start();
  EXPECT_TRUE(one->Exists("key").value());
  EXPECT_EQ(Get(one, "key"), "key");
}

TEST_F(ReconnectTest, OfABatchOfPinsThatFailsNoneIsLeft) {
  ASSERT_TRUE(Put(one, "before").value());
  ASSERT_TRUE(Put(one, "dying").value());
  ASSERT_TRUE(one->Pin("before").value());
  KillWhileDeleting("dying");
  one.link.Probe();
  const std::string_view keys[] = {"before", "missing", "dying"};
  EXPECT_CODE(one->BatchPin(keys), kUnavailable);
  EXPECT_EQ(one.counters().pins, 1u);
  host.Start();
  EXPECT_EQ(one->BatchPin(keys).value(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(one->BatchUnpin(keys).value(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(one->BatchUnpin(keys).value(), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(one.counters().pins, 0u);
}

// Leases beyond the first block: the server's count of blocks and the client's must not part, or
// the server does not scan the client's last one.
struct ManyLeases : testing::Test {
  static constexpr size_t kKeys = layout::kLeaseSlotsPerBlock + 500;
  Host host;
  Instance one{&host, {.page_bytes = 512}};
  std::vector<std::string> keys;
  std::vector<std::string_view> texts;

  void SetUp() override {
    ASSERT_OK(one->Connect());
    for (size_t i = 0; i < kKeys; ++i) keys.push_back("key-" + std::to_string(i));
    for (const std::string& key : keys) {
      ASSERT_TRUE(Put(one, key).value());
      texts.push_back(key);
    }
  }
  void ExpectAllHeld(const std::vector<View>& views) {
    ASSERT_EQ(views.size(), kKeys);
    const auto outcomes = one->BatchDelete(texts).value();
    EXPECT_EQ(outcomes, std::vector<wire::DeleteOutcome>(kKeys, wire::DeleteOutcome::kDeleted));
    EXPECT_EQ(host.Count().condemned, kKeys);
    for (size_t i = 0; i < kKeys; ++i) ASSERT_EQ(TextOf(views[i]), keys[i]);
  }
};

TEST_F(ManyLeases, AllAreSeenByTheServer) {
  const std::vector<View> views = one->BatchRetrieve(texts, Verify::kNo).value();
  ExpectAllHeld(views);
}

TEST_F(ManyLeases, AllAreSeenByTheServerAfterAnAnswerWithBlocksWasLost) {
  LoseOnce<wire::GrowLeasesRequest>(one, DirectLink::Road::kReplyLost);
  EXPECT_CODE(one->BatchRetrieve(texts, Verify::kNo), kUnavailable);
  const std::vector<View> views = one->BatchRetrieve(texts, Verify::kNo).value();
  ExpectAllHeld(views);
}

TEST_F(ManyLeases, AllAreSeenByTheServerAfterItsBlocksCouldNotBeMapped) {
  one.link.pool().RefuseNextBlocks();
  EXPECT_CODE(one->BatchRetrieve(texts, Verify::kNo), kResourceExhausted);
  const std::vector<View> views = one->BatchRetrieve(texts, Verify::kNo).value();
  ExpectAllHeld(views);
}

// --- Answers that no server gives: an error that names what is wrong, and nothing else changes.

struct LiesTest : HandlerFixture {
  LiesTest() { EXPECT_TRUE(Put(one, "key").value()); }
  template <typename Request, typename Reply, typename Edit>
  void Lie(Edit edit) {
    EditOnce<Request>(one, [edit](Status*, wire::Reply* reply) { edit(std::get<Reply>(*reply)); });
  }
};

TEST_F(LiesTest, NumbersOfEntriesThatAreNotThoseAskedFor) {
  Lie<wire::DeleteRequest, wire::DeleteReply>([](auto& reply) { reply.outcomes.clear(); });
  EXPECT_CODE(one->Delete("key"), kDataLoss);
  ASSERT_TRUE(Put(one, "key").value());
  LoseOnce<wire::RegisterRequest>(one, DirectLink::Road::kReplyLost);
  EXPECT_FALSE(Put(one, "x").value());
  Lie<wire::SettleRequest, wire::SettleReply>([](auto& reply) { reply.items.resize(100'000); });
  EXPECT_CODE(one->Ping(), kDataLoss);
  EXPECT_OK(one->Ping());
}

TEST_F(LiesTest, NumbersOfPools) {
  for (const size_t pools : {size_t{0}, size_t{layout::kPoolsMax} + 1}) {
    one.link.Disconnect();
    Lie<wire::AttachRequest, wire::AttachReply>([=](auto& reply) { reply.pools.resize(pools); });
    EXPECT_CODE(one->Ping(), kDataLoss);
    EXPECT_OK(one->Ping());
  }
}

TEST_F(LiesTest, AServerThatGoesOnWithNothingButLiesGetsANewClient) {
  ASSERT_TRUE(one->Pin("key").value());
  one.link.Disconnect();
  // Whenever it says that the client goes on, what it says of its leases is wrong.
  one.link.edit = [](const wire::Request&, Status*, wire::Reply* reply) {
    auto* attached = std::get_if<wire::AttachReply>(reply);
    if (attached != nullptr && attached->same_client) attached->pools[0].lease_blocks.clear();
  };
  EXPECT_CODE(one->Ping(), kDataLoss);
  EXPECT_CODE(one->Ping(), kDataLoss);
  EXPECT_OK(one->Ping());
  EXPECT_EQ(one->epoch_changes(), 1u);
  EXPECT_EQ(one.counters().pins, 0u);
  EXPECT_TRUE(Put(one, "another").value());
  EXPECT_EQ(Get(one, "key"), "key");
  host.With([](engine::TestEngine& engine) { engine.Tick(); });  // buries the former one
}

TEST_F(LiesTest, FewerLeaseBlocksThanTheClientHas) {
  one.link.Disconnect();
  Lie<wire::AttachRequest, wire::AttachReply>(
      [](auto& reply) { reply.pools.front().lease_blocks.resize(1); });
  EXPECT_CODE(one->Ping(), kDataLoss);
  EXPECT_OK(one->Ping());
}

}  // namespace
}  // namespace maru::handler
