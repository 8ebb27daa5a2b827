// Memory that is still in use when its page's handle is over: nobody else gets it.

#include "handler_fixture.h"

namespace maru::handler {
namespace {

using Road = DirectLink::Road;
using layout::PageState;

struct HoldsTest : HandlerFixture {
  PageState StateOf(const PageHandle& page) {
    return host.With([&](engine::TestEngine& engine) { return engine.State(page.page).state(); });
  }
  // Whether the next pages handed out, more than are in hand, are others than this.
  bool IsHandedOut(Instance& instance, const PageHandle& page) {
    std::vector<PageHandle> pages;
    bool met = false;
    for (int i = 0; i < 16; ++i) {
      pages.push_back(Written(instance, "next"));
      met |= pages.back().data == page.data;
    }
    for (const PageHandle& each : pages) EXPECT_OK(instance->Free(each));
    return met;
  }
  // The page is free again, but waits, without a lease, until it is let go.
  void ExpectWaits(Instance& instance, const PageHandle& page, std::shared_ptr<MemoryHold> hold) {
    EXPECT_FALSE(IsHandedOut(instance, page));
    EXPECT_EQ(instance.counters().leases, 0u);
    instance->LetGo(std::move(hold));
    EXPECT_TRUE(IsHandedOut(instance, page));
  }
  // Until the server has looked at what is condemned.
  void Sweep() {
    host.With([](engine::TestEngine& engine) {
      engine.Advance(kNanosPerSecond);
      engine.Tick();
    });
  }
};

TEST_F(HoldsTest, AFreedPageIsHandedOutWhenItIsLetGo) {
  const PageHandle page = Written(one, "text");
  auto hold = one->HoldOn(page).value();
  EXPECT_OK(one->Free(page));
  EXPECT_EQ(one.counters().held, 1u);
  EXPECT_FALSE(IsHandedOut(one, page));
  one->LetGo(std::move(hold));
  EXPECT_EQ(one.counters().held, 0u);
  EXPECT_TRUE(IsHandedOut(one, page));
}

TEST_F(HoldsTest, TheLosersPageIsHandedOutWhenItIsLetGo) {
  ASSERT_TRUE(Put(other, "key").value());
  const PageHandle page = Written(one, "mine");
  auto hold = one->HoldOn(page).value();
  EXPECT_TRUE(one->Store("key", page, 4).value());
  ExpectWaits(one, page, std::move(hold));
}

TEST_F(HoldsTest, AStoredPageCountsAsLeasedByItsWriter) {
  const PageHandle page = Written(one, "text");
  auto hold = one->HoldOn(page).value();
  EXPECT_TRUE(one->Store("key", page, 4).value());
  EXPECT_EQ(one.counters().leases, 1u);
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  Sweep();
  EXPECT_EQ(StateOf(page), PageState::kCondemned);
  EXPECT_EQ(std::memcmp(page.data, "text", 4), 0);
  one->LetGo(std::move(hold));
  hold.reset();
  Sweep();
  EXPECT_EQ(StateOf(page), PageState::kFree);
  EXPECT_EQ(one.counters().leases, 0u);
}

TEST_F(HoldsTest, AsManyHoldsAsThereAreEachEndByThemselves) {
  const PageHandle page = Written(one, "text");
  auto first = one->HoldOn(page).value();
  auto second = one->HoldOn(page).value();
  EXPECT_OK(one->Free(page));
  one->LetGo(std::move(first));
  EXPECT_FALSE(IsHandedOut(one, page));
  one->LetGo(std::move(second));
  EXPECT_TRUE(IsHandedOut(one, page));
}

TEST_F(HoldsTest, APageWhoseLifeIsOverIsNotHeldOn) {
  const PageHandle page = Written(one, "text");
  EXPECT_OK(one->Free(page));
  EXPECT_CODE(one->HoldOn(page), kFailedPrecondition);
}

// With its last generation it would be nobody's, and its region might be cut anew.
TEST_F(HoldsTest, APageNearItsLastGenerationIsNotHeldOn) {
  const PageHandle page = Written(one, "text");
  EXPECT_OK(one->Free(page));
  one->Tick();
  one.clock.AdvanceMillis(1001);
  one->Tick();
  ASSERT_EQ(host.Count().granted, 0u);
  host.With([&](engine::TestEngine& engine) {
    engine.SetGeneration(page.page, layout::kGenerationMax - 9);
  });
  std::vector<PageHandle> pages;
  do {
    pages.push_back(Written(one, "next"));
  } while (pages.back().page.record != page.page.record && pages.size() < 100);
  ASSERT_EQ(pages.back().page.record, page.page.record);
  EXPECT_CODE(one->HoldOn(pages.back()), kFailedPrecondition);
  EXPECT_OK(one->HoldOn(pages.front()));
  for (const PageHandle& each : pages) EXPECT_OK(one->Free(each));
}

TEST_F(HoldsTest, AfterALostRequestThePageWaits) {
  const PageHandle page = Written(one, "text");
  auto hold = one->HoldOn(page).value();
  LoseOnce<wire::RegisterRequest>(one, Road::kRequestLost);
  EXPECT_FALSE(one->Store("key", page, 4).value());
  EXPECT_OK(one->Ping());  // settles
  EXPECT_EQ(one.counters().unknown, 0u);
  ExpectWaits(one, page, std::move(hold));
}

TEST_F(HoldsTest, AfterALostReplyThePageIsLeased) {
  const PageHandle page = Written(one, "text");
  auto hold = one->HoldOn(page).value();
  LoseOnce<wire::RegisterRequest>(one, Road::kReplyLost);
  EXPECT_FALSE(one->Store("key", page, 4).value());
  // Before it is settled, and after.
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  Sweep();
  EXPECT_EQ(StateOf(page), PageState::kCondemned);
  EXPECT_OK(one->Ping());
  Sweep();
  EXPECT_EQ(StateOf(page), PageState::kCondemned);
  one->LetGo(std::move(hold));
  hold.reset();
  Sweep();
  EXPECT_EQ(StateOf(page), PageState::kFree);
}

TEST_F(HoldsTest, WhatWasNotSentIsSentAgainWithItsLease) {
  const PageHandle page = Written(one, "text");
  auto hold = one->HoldOn(page).value();
  LoseOnce<wire::RegisterRequest>(one, Road::kNotSent);
  EXPECT_TRUE(one->Store("key", page, 4).value());
  EXPECT_EQ(one.counters().leases, 1u);
  EXPECT_EQ(other->Delete("key").value(), wire::DeleteOutcome::kDeleted);
  Sweep();
  EXPECT_EQ(StateOf(page), PageState::kCondemned);
  one->LetGo(std::move(hold));
}

TEST_F(HoldsTest, WithoutALeaseThePageIsNotStored) {
  // Every slot is taken, and no block can be had.
  const PageHandle page = Written(one, "text");
  auto hold = one->HoldOn(page).value();
  catalogue::Leases& leases = one.link.pool().leases();
  for (Generation life(1000);
       leases.AcquireGranted(page.page.record, life) != catalogue::LeaseOutcome::kNoSlot;
       life = Generation(life.value() + 1)) {
  }
  EditOnce<wire::GrowLeasesRequest>(
      one, [](Status* status, wire::Reply*) { *status = ResourceExhausted("no blocks"); });
  EXPECT_FALSE(one->Store("key", page, 4).value());
  EXPECT_FALSE(IsHandedOut(one, page));
  EXPECT_FALSE(other->Exists("key").value());
  one->LetGo(std::move(hold));
  EXPECT_TRUE(IsHandedOut(one, page));
  // With a block more the same works.
  const PageHandle another = Written(one, "text");
  hold = one->HoldOn(another).value();
  EXPECT_TRUE(one->Store("key", another, 4).value());
  EXPECT_TRUE(other->Exists("key").value());
  one->LetGo(std::move(hold));
}

TEST_F(HoldsTest, AClosedHandlersMemoryStaysItsOwn) {
  PageHandle page = Written(one, "text");
  std::byte* const data = page.data;
  auto hold = one->HoldOn(page).value();
  EXPECT_OK(one->Free(page));
  page = PageHandle();
  one->Close();
  for (int i = 0; i < 64; ++i) {
    EXPECT_NE(other->Alloc(16).value().data, data);
  }
  EXPECT_EQ(std::memcmp(data, "text", 4), 0);
  one->LetGo(std::move(hold));
  Sweep();  // the client is gone with its lock
  EXPECT_OK(one->Connect());
}

}  // namespace
}  // namespace maru::handler
