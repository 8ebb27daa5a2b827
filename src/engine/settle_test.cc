#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;
using wire::SettleVerdict;

TEST(SettleTest, NamedPagesAreKeptInANewLifeTheOthersComeBack) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 3);
  client.Disconnect();
  ASSERT_TRUE(client.Attach().ok());
  const auto reply = client.Settle({pages[0], pages[2]});
  ASSERT_EQ(reply.items.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(reply.items[i].verdict, SettleVerdict::kKept);
    EXPECT_EQ(reply.items[i].generation.value(), pages[2 * i].generation.value() + 1);
  }
  EXPECT_EQ(host.State(pages[1]).state(), PageState::kFree);
  // A register that was on its way when the connection broke hits nothing.
  EXPECT_EQ(client.Register("late", pages[0]).outcome, wire::RegisterOutcome::kStale);
  EXPECT_EQ(
      client.Register("new", {pages[0].pool, pages[0].record, reply.items[0].generation}).outcome,
      wire::RegisterOutcome::kRegistered);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(SettleTest, AStoreWhoseReplyWasLostIsToldWhetherTheKeyIsIn) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef done = client.Put("done");
  const wire::PageRef deleted = client.Put("deleted");
  other.Delete("deleted");
  const wire::PageRef lost_race = client.Grant(4096)[0];
  other.Put("raced");
  client.Register("raced", lost_race);  // its reply is lost: the client knows the old life
  const wire::PageRef not_arrived = client.Grant(4096)[0];
  ASSERT_TRUE(client.Attach().ok());
  const auto reply = client.Settle({done, deleted, lost_race, not_arrived});
  ASSERT_EQ(reply.items.size(), 4u);
  EXPECT_EQ(reply.items[0].verdict, SettleVerdict::kLive);
  EXPECT_EQ(reply.items[0].generation, done.generation);
  EXPECT_EQ(reply.items[1].verdict, SettleVerdict::kGone);
  EXPECT_EQ(reply.items[2].verdict, SettleVerdict::kKept);
  EXPECT_EQ(reply.items[2].generation.value(), lost_race.generation.value() + 2);
  EXPECT_EQ(reply.items[3].verdict, SettleVerdict::kKept);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(SettleTest, APageThatTheClientMayBeWritingIsNotTakenFromIt) {
  // The reply of a first settlement is lost: the client names the life before it.
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  ASSERT_TRUE(client.Attach().ok());
  client.Settle({page});
  ASSERT_TRUE(client.Attach().ok());
  const auto reply = client.Settle({page});
  EXPECT_EQ(reply.items[0].verdict, SettleVerdict::kKept);
  EXPECT_EQ(host.State(page),
            layout::StateWord::Make(PageState::kGranted, reply.items[0].generation, client.slot()));
}

TEST(SettleTest, ComesInParts) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 4);
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(client.Settle({pages[0]}, false).items[0].verdict, SettleVerdict::kKept);
  EXPECT_EQ(host.State(pages[3]).state(), PageState::kGranted);  // not before the last part
  EXPECT_EQ(client.Settle({pages[1]}, false).items[0].verdict, SettleVerdict::kKept);
  EXPECT_EQ(Offenders(host.engine()), "");
  EXPECT_EQ(client.Settle({pages[2]}).items[0].verdict, SettleVerdict::kKept);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(host.State(pages[i]).state(), PageState::kGranted) << i;
  EXPECT_EQ(host.State(pages[3]).state(), PageState::kFree);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(SettleTest, PartsOfABrokenConnectionAreForgotten) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 2);
  client.Settle({pages[0]}, false);
  client.Disconnect();
  ASSERT_TRUE(client.Attach().ok());
  client.Settle({pages[1]});
  EXPECT_EQ(host.State(pages[0]).state(), PageState::kFree);
  EXPECT_EQ(host.State(pages[1]).state(), PageState::kGranted);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(SettleTest, WhatIsGrantedBetweenPartsStays) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  client.Settle({}, false);
  const wire::PageRef between = client.Grant(4096)[0];
  client.Settle({});
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
  EXPECT_EQ(host.State(between).state(), PageState::kGranted);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(SettleTest, OthersPagesAndNonsenseAreGone) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef granted = other.Grant(4096)[0];
  const wire::PageRef live = other.Put("key");
  const auto reply = client.Settle({granted,
                                    live,
                                    {PoolIndex(5), granted.record, granted.generation},
                                    {PoolIndex(0), RecordNumber(0), Generation(1)},
                                    {PoolIndex(0), RecordNumber(777777), Generation(1)}});
  for (const auto& item : reply.items) EXPECT_EQ(item.verdict, SettleVerdict::kGone);
  EXPECT_EQ(host.State(granted).state(), PageState::kGranted);
  EXPECT_TRUE(other.Exists("key"));
}

TEST(SettleTest, APageAtItsLastGenerationIsGone) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  host.SetGeneration(page, layout::kGenerationMax);
  EXPECT_EQ(client.Settle({page}).items[0].verdict, SettleVerdict::kGone);
  EXPECT_EQ(host.State(page).state(), PageState::kWorn);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(SettleTest, WorksAcrossARestart) {
  TestEngine host;
  TestClient client(&host);
  const auto pages = client.Grant(4096, 2);
  const wire::PageRef stored = client.Put("key");
  host.Restart();
  ASSERT_TRUE(client.Attach().ok());
  const auto reply = client.Settle({stored, pages[1]});
  EXPECT_EQ(reply.items[0].verdict, SettleVerdict::kLive);
  EXPECT_EQ(reply.items[1].verdict, SettleVerdict::kKept);
  EXPECT_EQ(host.State(pages[0]).state(), PageState::kFree);
  EXPECT_EQ(Offenders(host.engine()), "");
}

}  // namespace
}  // namespace maru::engine
