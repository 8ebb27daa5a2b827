#include <gtest/gtest.h>

#include <functional>

#include "base/sequence_point.h"
#include "engine/retire.h"
#include "engine/test_engine.h"

namespace maru::engine {
namespace {

using layout::PageState;
using wire::DeleteOutcome;
using wire::FreeOutcome;

TEST(DeleteTest, TheKeyIsGoneAndThePageIsFree) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef page = client.Put("key");
  EXPECT_EQ(other.Delete("key"), DeleteOutcome::kDeleted);
  EXPECT_FALSE(client.Exists("key"));
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
  EXPECT_EQ(other.Delete("key"), DeleteOutcome::kMissing);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeleteTest, ABatchAnswersEveryKeyInOrder) {
  TestEngine host;
  TestClient client(&host);
  client.Put("a");
  ASSERT_TRUE(client.Pin(client.Put("pinned")));
  client.Put("c");
  const std::string longer(layout::kKeyBytesMax + 1, 'k');
  const auto reply = client.Ask<wire::DeleteReply>(
      wire::DeleteRequest{{"a", "missing", "pinned", "a", "pinned", longer, "c"}});
  EXPECT_EQ(reply.outcomes,
            (std::vector<DeleteOutcome>{DeleteOutcome::kDeleted, DeleteOutcome::kMissing,
                                        DeleteOutcome::kPinned, DeleteOutcome::kMissing,
                                        DeleteOutcome::kPinned, DeleteOutcome::kMissing,
                                        DeleteOutcome::kDeleted}));
  EXPECT_TRUE(client.Exists("pinned"));
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeleteTest, KeysOfSeveralPoolsGoInOneStep) {
  TestEngine host({.pools = {32 * kMiB, 64 * kMiB}});
  TestClient client(&host);
  std::vector<std::string> keys;
  std::set<uint8_t> pools;
  for (int i = 0; i < 40; ++i) {
    keys.push_back("key" + std::to_string(i));
    pools.insert(client.Put(keys.back(), kMiB).pool.value());
  }
  ASSERT_EQ(pools.size(), 2u);
  wire::DeleteRequest request;
  for (const std::string& key : keys) request.keys.push_back(key);
  for (const DeleteOutcome outcome : client.Ask<wire::DeleteReply>(request).outcomes) {
    EXPECT_EQ(outcome, DeleteOutcome::kDeleted);
  }
  EXPECT_EQ(host->Count(PoolIndex(0)).live + host->Count(PoolIndex(1)).live, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeleteTest, ALeasedPageKeepsItsBytesUntilTheLeaseEnds) {
  TestEngine host({.pools = {32 * kMiB}});
  TestClient client(&host), reader(&host);
  const wire::PageRef page = client.Put("key", kMiB);
  ASSERT_TRUE(reader.Lease(page));
  EXPECT_EQ(client.Delete("key"), DeleteOutcome::kDeleted);
  EXPECT_EQ(host.State(page).state(), PageState::kCondemned);
  EXPECT_FALSE(client.Exists("key"));
  // Neither time nor need frees it.
  for (int i = 0; i < 50; ++i) {
    EXPECT_NE(client.Put("other" + std::to_string(i), kMiB).record, page.record);
  }
  EXPECT_GT(host.Tick(), host.now_ns());
  EXPECT_EQ(host.State(page).state(), PageState::kCondemned);
  host.Restart();
  EXPECT_EQ(host.State(page).state(), PageState::kCondemned);
  ASSERT_TRUE(reader.Attach().ok());
  reader.Release(page);
  host.Tick();
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
  EXPECT_EQ(Offenders(host.engine()), "");
}

// While readers hold on to all of them, looks become rare; what is freed makes them frequent again.
TEST(DeleteTest, CondemnedPagesThatStayHeldAreLookedAtLessAndLess) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef first = client.Put("first"), second = client.Put("second");
  for (const wire::PageRef& page : {first, second}) ASSERT_TRUE(client.Lease(page));
  client.Delete("first");
  client.Delete("second");
  for (int i = 0; i < 8; ++i) {
    host.Advance(Retirement::kReapPauseMaxNs);
    host.Tick();
  }
  client.Release(first);
  host.Advance(Retirement::kReapPauseNs);
  host.Tick();
  EXPECT_EQ(host.State(first).state(), PageState::kCondemned);
  host.Advance(Retirement::kReapPauseMaxNs);
  host.Tick();
  EXPECT_EQ(host.State(first).state(), PageState::kFree);
  client.Release(second);
  host.Advance(Retirement::kReapPauseNs);
  host.Tick();
  EXPECT_EQ(host.State(second).state(), PageState::kFree);
}

TEST(DeleteTest, CondemnedPagesAreLookedAtWhenPagesAreNeeded) {
  TestEngine::Options options{.pools = {32 * kMiB}};
  options.engine.eviction = Eviction::kNone;
  TestEngine host(options);
  TestClient client(&host);
  const wire::PageRef page = client.Put("key", kMiB);
  ASSERT_TRUE(client.Lease(page));
  client.Delete("key");
  while (client.TryGrant(kMiB).ok()) {
  }
  client.Release(page);
  EXPECT_EQ(client.Grant(kMiB)[0].record, page.record);  // without a tick between
}

TEST(DeleteTest, ALeaseOnAnEarlierLifeHoldsNothing) {
  TestEngine host;
  TestClient client(&host), reader(&host);
  const wire::PageRef page = client.Put("key");
  // What a reader leaves for a moment that is late by a life; the server does not trust it.
  const auto& blocks = reader.attached().pools[0].lease_blocks;
  auto* const header = reinterpret_cast<layout::LeaseHeader*>(host.base() + blocks[0]);
  auto* const slots = reinterpret_cast<layout::LeaseSlots*>(host.base() + blocks[1]);
  const Generation earlier(page.generation.value() - 1);
  header->slots_high.store(2);
  slots->slots[0].store(
      layout::SlotWord::Make(page.record, earlier, layout::SlotWord::Kind::kPin).bits());
  slots->slots[1].store(
      layout::SlotWord::Make(RecordNumber(0xFFFFFFFF), earlier, layout::SlotWord::Kind::kPin)
          .bits());
  EXPECT_EQ(client.Delete("key"), DeleteOutcome::kDeleted);
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
}

TEST(DeleteTest, APageThatAReaderWithoutLeasesWasToldWaitsForItsHold) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Put("key");
  host.pool().writer().SetHoldUntil(page.record, TestEngine::kUnixNs + 5'000'000'000);
  EXPECT_EQ(client.Delete("key"), DeleteOutcome::kDeleted);
  EXPECT_EQ(host.State(page).state(), PageState::kCondemned);
  host.Advance(4'999'999'999);
  host.Tick();
  EXPECT_EQ(host.State(page).state(), PageState::kCondemned);
  host.Advance(1);
  host.Tick();
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
}

// Nothing can come of it before: the next look is at the end of the hold.
TEST(DeleteTest, WhatIsOnHoldIsNotLookedAtBefore) {
  TestEngine host;
  TestClient client(&host);
  constexpr uint64_t kHoldNs = 5'000'000'000;
  for (const uint64_t i : {3, 1, 2}) {
    const wire::PageRef page = client.Put(std::to_string(i));
    host.pool().writer().SetHoldUntil(page.record, TestEngine::kUnixNs + i * kHoldNs);
    client.Delete(std::to_string(i));
  }
  client.Die();
  host.EndCuts();
  const uint64_t began_ns = host.now_ns();
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(host.Tick(), began_ns + i * kHoldNs);
    EXPECT_EQ(host->Count(PoolIndex(0)).condemned, 4 - i);
    host.Advance(kHoldNs);
  }
  EXPECT_EQ(host.Tick(), 0u);
  EXPECT_EQ(host->Count(PoolIndex(0)).condemned, 0u);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(DeleteTest, OnlyAPinForbidsIt) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef page = client.Put("key");
  ASSERT_TRUE(other.Pin(page));
  EXPECT_EQ(client.Delete("key"), DeleteOutcome::kPinned);
  EXPECT_EQ(host.State(page), layout::StateWord::Make(PageState::kLive, page.generation));
  EXPECT_TRUE(client.Exists("key"));
  ASSERT_TRUE(other.Unpin(page));
  EXPECT_EQ(client.Delete("key"), DeleteOutcome::kDeleted);
}

// A reader that arrives between the steps of a retirement.
TEST(DeleteTest, ALeaseTakenWhileThePageIsRetiringIsSeen) {
  for (const char* point : {"writer:retiring", "writer:condemned"}) {
    TestEngine host;
    TestClient client(&host), reader(&host);
    const wire::PageRef page = client.Put("key");
    auto outcome = catalogue::LeaseOutcome::kHeld;
    {
      ScopedHook hook(point,
                      [&] { outcome = reader.leases().Acquire(page.record, page.generation); });
      EXPECT_EQ(client.Delete("key"), DeleteOutcome::kDeleted);
    }
    if (std::string_view(point) == "writer:condemned") {
      EXPECT_EQ(outcome, catalogue::LeaseOutcome::kGone);
      EXPECT_EQ(host.State(page).state(), PageState::kFree);
      continue;
    }
    ASSERT_EQ(outcome, catalogue::LeaseOutcome::kRetiring);
    EXPECT_EQ(host.State(page).state(), PageState::kCondemned);
    const auto resolved = reader.Ask<wire::ResolveReply>(wire::ResolveRequest{{page}});
    EXPECT_EQ(resolved.live, std::vector<uint8_t>{0});
    reader.leases().Confirm(page.record, page.generation, catalogue::Leases::What::kLease,
                            catalogue::Leases::Server::kSaysGone);
    host.Tick();
    EXPECT_EQ(host.State(page).state(), PageState::kFree);
  }
}

TEST(DeleteTest, APinTakenWhileThePageIsRetiringBringsItBack) {
  TestEngine host;
  TestClient client(&host), reader(&host);
  const wire::PageRef page = client.Put("key");
  auto outcome = catalogue::LeaseOutcome::kHeld;
  {
    ScopedHook hook("writer:retiring",
                    [&] { outcome = reader.leases().Pin(page.record, page.generation); });
    EXPECT_EQ(client.Delete("key"), DeleteOutcome::kPinned);
  }
  ASSERT_EQ(outcome, catalogue::LeaseOutcome::kRetiring);
  EXPECT_EQ(reader.Ask<wire::ResolveReply>(wire::ResolveRequest{{page}}).live,
            std::vector<uint8_t>{1});
  EXPECT_EQ(reader.leases().Confirm(page.record, page.generation, catalogue::Leases::What::kPin,
                                    catalogue::Leases::Server::kSaysLive),
            catalogue::LeaseOutcome::kHeld);
  EXPECT_EQ(client.Delete("key"), DeleteOutcome::kPinned);
}

// --- Free by page.

TEST(FreeTest, AStoredPageRetiresItsKey) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Put("key");
  EXPECT_EQ(client.Free(page), FreeOutcome::kFreed);
  EXPECT_FALSE(client.Exists("key"));
  EXPECT_EQ(client.Free(page), FreeOutcome::kStale);
  EXPECT_EQ(Offenders(host.engine()), "");
}

TEST(FreeTest, APinnedOneStays) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Put("key");
  ASSERT_TRUE(client.Pin(page));
  EXPECT_EQ(client.Free(page), FreeOutcome::kPinned);
  EXPECT_TRUE(client.Exists("key"));
}

TEST(FreeTest, ALifeThatIsOverChangesNothing) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef first = client.Put("key");
  client.Delete("key");
  const wire::PageRef second = client.Put("key");
  ASSERT_EQ(first.record, second.record);
  EXPECT_EQ(client.Free(first), FreeOutcome::kStale);
  EXPECT_TRUE(client.Exists("key"));
}

TEST(FreeTest, AGrantedPageIsGivenBack) {
  TestEngine host;
  TestClient client(&host), other(&host);
  const wire::PageRef page = client.Grant(4096)[0];
  EXPECT_EQ(other.Free(page), FreeOutcome::kStale);
  EXPECT_EQ(client.Free(page), FreeOutcome::kFreed);
  EXPECT_EQ(host.State(page).state(), PageState::kFree);
}

TEST(FreeTest, AKeyOfAnotherNamespaceStays) {
  TestEngine host;
  TestClient a(&host, {.name_space = "a"}), b(&host, {.name_space = "b"});
  const wire::PageRef page = a.Put("key");
  EXPECT_EQ(b.Free(page), FreeOutcome::kStale);
  EXPECT_TRUE(a.Exists("key"));
  TestClient c(&host, {.name_space = "a"});
  EXPECT_EQ(c.Free(page), FreeOutcome::kFreed);
}

// --- What a reader asks.

TEST(ResolveTest, SaysWhichLivesLive) {
  TestEngine host;
  TestClient client(&host);
  const wire::PageRef page = client.Put("key");
  const wire::PageRef granted = client.Grant(4096)[0];
  const Generation next(page.generation.value() + 1);
  const auto reply = client.Ask<wire::ResolveReply>(
      wire::ResolveRequest{{page,
                            {page.pool, page.record, next},
                            granted,
                            {PoolIndex(7), page.record, page.generation},
                            {page.pool, RecordNumber(99999), page.generation}}});
  EXPECT_EQ(reply.live, (std::vector<uint8_t>{1, 0, 0, 0, 0}));
}

TEST(FindTest, AnswersEveryKeyInOrder) {
  TestEngine host({.pools = {32 * kMiB, 64 * kMiB}});
  TestClient client(&host);
  wire::PageRef last = client.Put("first", kMiB);
  for (int i = 0; last.pool == PoolIndex(0); ++i) last = client.Put("k" + std::to_string(i), kMiB);
  const std::string longer(layout::kKeyBytesMax + 1, 'k');
  const auto reply =
      client.Ask<wire::FindReply>(wire::FindRequest{{"missing", "first", longer, ""}});
  ASSERT_EQ(reply.items.size(), 4u);
  EXPECT_FALSE(reply.items[0].found);
  EXPECT_TRUE(reply.items[1].found);
  EXPECT_FALSE(reply.items[2].found);
  EXPECT_FALSE(reply.items[3].found);
  client.Put("", kMiB);  // an empty key is a key
  EXPECT_TRUE(client.Exists(""));
}

TEST(GrowLeasesTest, BlocksOfAllPoolsTogetherFitIntoOneAttachReply) {
  TestEngine::Options options{.pools = {64 * kMiB, 64 * kMiB}};
  options.engine.lease_blocks_max = 10;
  TestEngine host(options);
  TestClient client(&host);  // with two blocks in each pool
  const auto some = client.Ask<wire::GrowLeasesReply>(wire::GrowLeasesRequest{PoolIndex(0), 2});
  EXPECT_EQ(some.offsets.size(), 2u);
  const auto rest = client.Ask<wire::GrowLeasesReply>(wire::GrowLeasesRequest{PoolIndex(1), 99});
  EXPECT_EQ(rest.offsets.size(), 4u);
  wire::Reply none;
  for (const uint8_t pool : {0, 1}) {
    EXPECT_EQ(client.TryAsk(wire::GrowLeasesRequest{PoolIndex(pool), 1}, &none).code(),
              StatusCode::kResourceExhausted);
  }
}

TEST(GrowLeasesTest, BlocksAreTheClientsUpToTheMaximum) {
  TestEngine host({.pools = {256 * kMiB}});
  TestClient client(&host);
  const auto reply = client.Ask<wire::GrowLeasesReply>(wire::GrowLeasesRequest{PoolIndex(0), 3});
  ASSERT_EQ(reply.offsets.size(), 3u);
  const std::vector<uint64_t> blocks = host.pool().leases().Blocks(client.slot());
  EXPECT_EQ(std::vector<uint64_t>(blocks.end() - 3, blocks.end()), reply.offsets);
  // Those that were there come with the next attach.
  client.Disconnect();
  ASSERT_TRUE(client.Attach().ok());
  EXPECT_EQ(client.attached().pools[0].lease_blocks, blocks);

  const auto rest = client.Ask<wire::GrowLeasesReply>(wire::GrowLeasesRequest{PoolIndex(0), 99999});
  EXPECT_EQ(blocks.size() + rest.offsets.size(), layout::kLeaseBlocksPerClientMax);
  wire::Reply none;
  EXPECT_EQ(client.TryAsk(wire::GrowLeasesRequest{PoolIndex(0), 1}, &none).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(client.TryAsk(wire::GrowLeasesRequest{PoolIndex(1), 1}, &none).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(client.TryAsk(wire::GrowLeasesRequest{PoolIndex(0), 0}, &none).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace maru::engine
