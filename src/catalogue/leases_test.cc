#include "catalogue/leases.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <thread>

#include "base/random.h"
#include "base/sequence_point.h"
#include "base/testing.h"
#include "catalogue/test_catalogue.h"

namespace maru::catalogue {
namespace {

using layout::PageState;
using layout::SlotWord;
using Server = Leases::Server;
using What = Leases::What;

constexpr ClientSlot kClient{0};

class LeasesTest : public testing::Test {
 protected:
  explicit LeasesTest(const TestCatalogue::Options& options = {})
      : catalogue_(&pool_, options),
        blocks_(catalogue_.Blocks(kClient)),
        leases_(std::make_unique<Leases>(pool_.view(), catalogue_.Header(kClient), blocks_)) {
    for (uint32_t i = 1; i <= 8; ++i) {
      const std::string key = "key " + std::to_string(i);
      catalogue_.Put(R(i), MakeKeyRef(Namespace(), key));
    }
  }

  static RecordNumber R(uint32_t number) { return RecordNumber(number); }
  static uint64_t Lease(uint32_t record, uint32_t generation) {
    return SlotWord::Make(R(record), Generation(generation), SlotWord::Kind::kLease).bits();
  }
  static uint64_t Pin(uint32_t record, uint32_t generation) {
    return Lease(record, generation) | 1;
  }
  uint64_t Slot(uint32_t slot) { return blocks_[0]->slots[slot].load(); }
  bool Leased(uint32_t record) { return catalogue_.Scan(R(record), kGen).leased; }
  bool Pinned(uint32_t record) { return catalogue_.Scan(R(record), kGen).pinned; }
  void Delete(uint32_t record) {
    catalogue_.Retire(R(record));
    catalogue_.Condemn(R(record));
  }
  // What the server does with a key that is to be deleted.
  void RetireScanDecide(uint32_t record) {
    catalogue_.Retire(R(record));
    if (Pinned(record)) {
      catalogue_.Revert(R(record));
    } else {
      catalogue_.Condemn(R(record));
    }
  }

  static constexpr Generation kGen{2};  // of the first key of a page
  TestPool pool_;
  TestCatalogue catalogue_;
  std::vector<layout::LeaseSlots*> blocks_;
  std::unique_ptr<Leases> leases_;
};

TEST_F(LeasesTest, ALeaseIsOneFilledSlot) {
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  EXPECT_EQ(Slot(0), Lease(3, 2));
  EXPECT_EQ(catalogue_.Header(kClient)->slots_high.load(), 1u);
  EXPECT_TRUE(Leased(3));
  EXPECT_FALSE(Pinned(3));
  EXPECT_EQ(leases_->slots_in_use(), 1u);
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), 0u);
  EXPECT_EQ(leases_->slots_in_use(), 0u);
}

TEST_F(LeasesTest, LeasesOfOnePageShareASlotUntilTheLastIsReleased) {
  for (int i = 0; i < 3; ++i) ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  EXPECT_EQ(leases_->slots_in_use(), 1u);
  leases_->Release(R(3), kGen);
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), Lease(3, 2));
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), 0u);
}

TEST_F(LeasesTest, NothingElseThanThatLifeIsHeld) {
  EXPECT_EQ(leases_->Acquire(R(3), Generation(1)), LeaseOutcome::kGone);
  EXPECT_EQ(leases_->Acquire(R(3), Generation(3)), LeaseOutcome::kGone);
  EXPECT_EQ(leases_->Acquire(R(20), Generation(1)), LeaseOutcome::kGone);  // FREE
  for (const PageState state : {PageState::kAbsent, PageState::kFree, PageState::kGranted,
                                PageState::kCondemned, PageState::kQuarantined, PageState::kWorn}) {
    catalogue_.Record(R(3)).state_word.store(catalogue_.State(R(3)).With(state).bits());
    EXPECT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kGone);
    EXPECT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kGone);
  }
  EXPECT_EQ(Slot(0), 0u);
  EXPECT_EQ(leases_->slots_in_use(), 0u);
  EXPECT_EQ(catalogue_.Header(kClient)->slots_high.load(), 1u);
}

TEST_F(LeasesTest, NumbersFromOutsideAreNotTrusted) {
  for (const uint32_t record : {0u, layout::kRecordsPerChunk, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
    EXPECT_EQ(leases_->Acquire(R(record), kGen), LeaseOutcome::kGone);
    EXPECT_EQ(leases_->Pin(R(record), kGen), LeaseOutcome::kGone);
    EXPECT_FALSE(leases_->Unpin(R(record), kGen));
  }
  for (const uint32_t generation : {0u, layout::kGenerationMax + 1, 0xFFFFFFFFu}) {
    EXPECT_EQ(leases_->Acquire(R(3), Generation(generation)), LeaseOutcome::kGone);
    EXPECT_FALSE(leases_->Unpin(R(3), Generation(generation)));
    EXPECT_FALSE(leases_->Pinned(R(3), Generation(generation)));
  }
  EXPECT_EQ(catalogue_.Header(kClient)->slots_high.load(), 0u);
}

TEST_F(LeasesTest, PinsAndLeasesAreCountedApartInOneSlot) {
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kHeld);
  ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kHeld);
  EXPECT_EQ(Slot(0), Pin(3, 2));
  EXPECT_EQ(leases_->slots_in_use(), 1u);
  EXPECT_EQ(leases_->pins(), 1u);
  EXPECT_TRUE(leases_->Unpin(R(3), kGen));
  EXPECT_TRUE(leases_->Pinned(R(3), kGen));
  EXPECT_EQ(Slot(0), Pin(3, 2));
  EXPECT_TRUE(leases_->Unpin(R(3), kGen));
  EXPECT_FALSE(leases_->Pinned(R(3), kGen));
  EXPECT_EQ(Slot(0), Lease(3, 2));  // the mark is gone, the lease is not
  EXPECT_FALSE(leases_->Unpin(R(3), kGen));
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), 0u);
}

TEST_F(LeasesTest, APinHoldsThePageWithoutALease) {
  ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kHeld);
  EXPECT_EQ(Slot(0), Pin(3, 2));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), Pin(3, 2));
  EXPECT_TRUE(leases_->Unpin(R(3), kGen));
  EXPECT_EQ(Slot(0), 0u);
  EXPECT_EQ(leases_->slots_in_use(), 0u);
}

TEST_F(LeasesTest, EmptySlotsAreUsedAgain) {
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 1; i <= 8; ++i) ASSERT_EQ(leases_->Acquire(R(i), kGen), LeaseOutcome::kHeld);
    EXPECT_EQ(leases_->slots_in_use(), 8u);
    for (uint32_t i = 1; i <= 8; ++i) leases_->Release(R(i), kGen);
  }
  EXPECT_EQ(catalogue_.Header(kClient)->slots_high.load(), 8u);
}

// --- RETIRING.

TEST_F(LeasesTest, RetiringKeepsTheSlotUntilTheServerWasAsked) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kRetiring);
  EXPECT_TRUE(Leased(3));
  catalogue_.Revert(R(3));
  ASSERT_EQ(leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysLive), LeaseOutcome::kHeld);
  EXPECT_EQ(Slot(0), Lease(3, 2));
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), 0u);
}

TEST_F(LeasesTest, RetiringThatTheServerCallsGoneIsDropped) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kRetiring);
  catalogue_.Condemn(R(3));
  EXPECT_EQ(leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysGone), LeaseOutcome::kGone);
  EXPECT_EQ(Slot(0), 0u);
  EXPECT_EQ(leases_->slots_in_use(), 0u);
}

TEST_F(LeasesTest, AnAnswerThatTheRecordContradictsHoldsNothing) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kRetiring);
  catalogue_.Condemn(R(3));
  EXPECT_EQ(leases_->Confirm(R(3), kGen, What::kPin, Server::kSaysLive), LeaseOutcome::kGone);
  EXPECT_EQ(Slot(0), 0u);
}

TEST_F(LeasesTest, AnAnswerHoldsAgainstALaterTryToRetire) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kRetiring);
  catalogue_.Revert(R(3));
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Confirm(R(3), kGen, What::kPin, Server::kSaysLive), LeaseOutcome::kHeld);
  EXPECT_TRUE(Pinned(3));  // so that the scan reverts it
}

TEST_F(LeasesTest, AnUpgradeThatMetRetiringKeepsLeaseAndMarkUntilTheAnswer) {
  for (const Server verdict : {Server::kSaysLive, Server::kSaysGone}) {
    ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
    catalogue_.Retire(R(3));
    ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kRetiring);
    EXPECT_EQ(Slot(0), Pin(3, 2));
    EXPECT_FALSE(leases_->Pinned(R(3), kGen));
    EXPECT_FALSE(leases_->Unpin(R(3), kGen));
    EXPECT_EQ(leases_->pins(), 0u);
    // The lease is held all the while and can be joined.
    ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
    leases_->Release(R(3), kGen);
    catalogue_.Revert(R(3));
    const bool live = verdict == Server::kSaysLive;
    EXPECT_EQ(leases_->Confirm(R(3), kGen, What::kPin, verdict),
              live ? LeaseOutcome::kHeld : LeaseOutcome::kGone);
    EXPECT_EQ(Slot(0), live ? Pin(3, 2) : Lease(3, 2));
    EXPECT_EQ(leases_->Unpin(R(3), kGen), live);
    leases_->Release(R(3), kGen);
    EXPECT_EQ(Slot(0), 0u);
  }
}

TEST_F(LeasesTest, ALeaseReleasedDuringAnOpenUpgradeLeavesTheSlotToTheAnswer) {
  for (const Server verdict : {Server::kSaysLive, Server::kSaysGone}) {
    ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
    catalogue_.Retire(R(3));
    ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kRetiring);
    leases_->Release(R(3), kGen);
    EXPECT_EQ(Slot(0), Pin(3, 2));
    catalogue_.Revert(R(3));
    leases_->Confirm(R(3), kGen, What::kPin, verdict);
    EXPECT_EQ(leases_->Unpin(R(3), kGen), verdict == Server::kSaysLive);
    EXPECT_EQ(Slot(0), 0u);
  }
}

// --- Races, forced.

TEST_F(LeasesTest, ADeleteBetweenSlotAndCheckLeavesNothingHeld) {
  SequenceGate gate("lease:slot-filled");
  std::optional<LeaseOutcome> outcome;
  std::thread reader([&] { outcome = leases_->Acquire(R(3), kGen); });
  gate.AwaitArrival();
  EXPECT_TRUE(Leased(3));  // an eviction would leave it alone
  EXPECT_LT(0u, catalogue_.Header(kClient)->slots_high.load());
  Delete(3);
  EXPECT_TRUE(Leased(3));  // and nobody frees the page yet
  gate.Open();
  reader.join();
  EXPECT_EQ(outcome, LeaseOutcome::kGone);
  EXPECT_FALSE(Leased(3));
}

TEST_F(LeasesTest, ALaterLifeOfThePageIsNotHeldByAnEarlierOnesLease) {
  // Between find and lease the page comes to its next life.
  Delete(3);
  catalogue_.Free(R(3));
  catalogue_.Put(R(3), MakeKeyRef(Namespace(), "another"));
  EXPECT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kGone);
  EXPECT_EQ(leases_->Acquire(R(3), Generation(3)), LeaseOutcome::kHeld);
}

TEST_F(LeasesTest, ADeleteAfterTheCheckFindsTheLease) {
  SequenceGate gate("lease:state-read");
  std::optional<LeaseOutcome> outcome;
  std::thread reader([&] { outcome = leases_->Acquire(R(3), kGen); });
  gate.AwaitArrival();
  Delete(3);
  EXPECT_TRUE(Leased(3));
  gate.Open();
  reader.join();
  EXPECT_EQ(outcome, LeaseOutcome::kHeld);  // it was LIVE, and its bytes stay
  EXPECT_TRUE(Leased(3));
}

TEST_F(LeasesTest, ADeleteBeforeTheMarkIsSetRefusesTheUpgradeAndLeavesTheLease) {
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  bool always_leased = true;
  ScopedHook watch([&](std::string_view) { always_leased = always_leased && Leased(3); });
  SequenceGate gate("pin:before-exchange");
  std::optional<LeaseOutcome> outcome;
  std::thread reader([&] { outcome = leases_->Pin(R(3), kGen); });
  gate.AwaitArrival();
  RetireScanDecide(3);
  EXPECT_EQ(catalogue_.State(R(3)).state(), PageState::kCondemned);
  gate.Open();
  reader.join();
  EXPECT_EQ(outcome, LeaseOutcome::kGone);
  EXPECT_TRUE(always_leased);
  EXPECT_EQ(Slot(0), Lease(3, 2));
  leases_->Release(R(3), kGen);
  EXPECT_EQ(Slot(0), 0u);
}

TEST_F(LeasesTest, ADeleteAfterTheMarkIsSetIsTakenBack) {
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  SequenceGate gate("pin:mark-set");
  std::optional<LeaseOutcome> outcome;
  std::thread reader([&] { outcome = leases_->Pin(R(3), kGen); });
  gate.AwaitArrival();
  RetireScanDecide(3);
  EXPECT_EQ(catalogue_.State(R(3)).state(), PageState::kLive);
  gate.Open();
  reader.join();
  EXPECT_EQ(outcome, LeaseOutcome::kHeld);
  EXPECT_EQ(Slot(0), Pin(3, 2));
}

TEST_F(LeasesTest, NobodyJoinsALeaseThatIsNotCheckedYet) {
  SequenceGate gate("lease:slot-filled");
  std::optional<LeaseOutcome> first, second;
  std::thread one([&] { first = leases_->Acquire(R(3), kGen); });
  gate.AwaitArrival();
  std::thread two([&] { second = leases_->Acquire(R(3), kGen); });
  Delete(3);
  gate.Open();
  one.join();
  two.join();
  EXPECT_EQ(first, LeaseOutcome::kGone);
  EXPECT_EQ(second, LeaseOutcome::kGone);
  EXPECT_EQ(leases_->slots_in_use(), 0u);
}

class LeasesJoinTest : public LeasesTest {
 protected:
  // Runs `join` in a thread that meets the page's open question, and returns when it waits.
  void StartJoiner(std::function<LeaseOutcome()> join) {
    std::atomic<bool> arrived{false};
    ScopedHook hook("lease:waits-for-confirm", [&] {
      arrived.store(true);
      arrived.notify_all();
    });
    joiner_ = std::thread([this, join = std::move(join)] { outcome_ = join(); });
    arrived.wait(false);
    // The joiner has the page's mutex from the point on until it waits.
    leases_->Pinned(R(3), kGen);
  }

  std::thread joiner_;
  std::optional<LeaseOutcome> outcome_;
};

TEST_F(LeasesJoinTest, JoinersOfAnOpenLeaseShareALiveAnswer) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kRetiring);
  StartJoiner([&] { return leases_->Acquire(R(3), kGen); });
  catalogue_.Revert(R(3));
  ASSERT_EQ(leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysLive), LeaseOutcome::kHeld);
  joiner_.join();
  EXPECT_EQ(outcome_, LeaseOutcome::kHeld);
  leases_->Release(R(3), kGen);
  EXPECT_TRUE(Leased(3));
  leases_->Release(R(3), kGen);
  EXPECT_FALSE(Leased(3));
}

TEST_F(LeasesJoinTest, JoinersOfAnOpenLeaseHoldNothingAfterTheOtherAnswer) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kRetiring);
  StartJoiner([&] { return leases_->Acquire(R(3), kGen); });
  catalogue_.Condemn(R(3));
  leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysGone);
  joiner_.join();
  EXPECT_EQ(outcome_, LeaseOutcome::kGone);
  EXPECT_FALSE(Leased(3));
  EXPECT_EQ(leases_->slots_in_use(), 0u);
}

TEST_F(LeasesJoinTest, ASecondPinWaitsForTheFirstOnesAnswer) {
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kRetiring);
  StartJoiner([&] { return leases_->Pin(R(3), kGen); });
  catalogue_.Revert(R(3));
  ASSERT_EQ(leases_->Confirm(R(3), kGen, What::kPin, Server::kSaysLive), LeaseOutcome::kHeld);
  joiner_.join();
  EXPECT_EQ(outcome_, LeaseOutcome::kHeld);
  EXPECT_TRUE(leases_->Unpin(R(3), kGen));
  EXPECT_TRUE(leases_->Unpin(R(3), kGen));
  EXPECT_FALSE(leases_->Unpin(R(3), kGen));
}

TEST_F(LeasesJoinTest, APinAsksByItselfWhenTheOpenLeaseWasConfirmed) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kRetiring);
  StartJoiner([&] { return leases_->Pin(R(3), kGen); });
  catalogue_.Revert(R(3));
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysLive), LeaseOutcome::kHeld);
  joiner_.join();
  EXPECT_EQ(outcome_, LeaseOutcome::kRetiring);
  EXPECT_EQ(Slot(0), Pin(3, 2));
}

// --- Room.

class ManyLeasesTest : public LeasesTest {
 protected:
  static TestCatalogue::Options ManyPages() {
    TestCatalogue::Options options;
    options.pages = layout::kLeaseSlotsPerBlock + 10;
    options.page_bytes = 512;
    options.text_bytes_each = 16;
    return options;
  }
  ManyLeasesTest() : LeasesTest(ManyPages()) {
    for (uint32_t i = 9; i <= ManyPages().pages; ++i) {
      catalogue_.Put(R(i), MakeKeyRef(Namespace(), "key " + std::to_string(i)));
    }
  }
};

TEST_F(ManyLeasesTest, AFullAreaSaysSoAndGrowsByBlocks) {
  for (uint32_t i = 1; i <= layout::kLeaseSlotsPerBlock; ++i) {
    ASSERT_EQ(leases_->Acquire(R(i), kGen), LeaseOutcome::kHeld);
  }
  const uint32_t next = layout::kLeaseSlotsPerBlock + 1;
  EXPECT_EQ(leases_->Acquire(R(next), kGen), LeaseOutcome::kNoSlot);
  EXPECT_EQ(leases_->Pin(R(next), kGen), LeaseOutcome::kNoSlot);
  // What has a slot needs none.
  EXPECT_EQ(leases_->Acquire(R(1), kGen), LeaseOutcome::kHeld);
  EXPECT_EQ(leases_->Pin(R(2), kGen), LeaseOutcome::kHeld);

  auto more = std::make_unique<layout::LeaseSlots>();
  leases_->AddBlock(more.get());
  EXPECT_EQ(leases_->Acquire(R(next), kGen), LeaseOutcome::kHeld);
  EXPECT_EQ(more->slots[0].load(), Lease(next, 2));
  EXPECT_EQ(catalogue_.Header(kClient)->slots_high.load(), layout::kLeaseSlotsPerBlock + 1);
  EXPECT_EQ(leases_->slots_in_use(), layout::kLeaseSlotsPerBlock + 1);
}

// --- The header.

TEST_F(LeasesTest, TouchesGoRoundInTheRing) {
  layout::LeaseHeader& header = *catalogue_.Header(kClient);
  for (uint32_t i = 1; i <= layout::kTouchRingEntries + 3; ++i) leases_->Touch(R(i));
  EXPECT_EQ(header.touch_head.load(), layout::kTouchRingEntries + 3);
  EXPECT_EQ(header.touches[0].load(), layout::kTouchRingEntries + 1);
  EXPECT_EQ(header.touches[2].load(), layout::kTouchRingEntries + 3);
  EXPECT_EQ(header.touches[3].load(), 4u);
}

TEST_F(LeasesTest, CountsArePublishedForTheAudit) {
  leases_->Publish({.free_pages = 1, .pending_pages = 2, .held_pages = 3, .last_request = 4});
  const layout::LeaseHeader& header = *catalogue_.Header(kClient);
  EXPECT_EQ(header.free_pages.load(), 1u);
  EXPECT_EQ(header.pending_pages.load(), 2u);
  EXPECT_EQ(header.held_pages.load(), 3u);
  EXPECT_EQ(header.last_request.load(), 4u);
  EXPECT_EQ(header.recall.load(), 0u);
}

TEST_F(LeasesTest, AWishOfTheServerIsRead) {
  EXPECT_EQ(leases_->recall(), 0u);
  catalogue_.Header(kClient)->recall.store(3);
  EXPECT_EQ(leases_->recall(), 3u);
  leases_->MakeInert();
  EXPECT_EQ(leases_->recall(), 0u);
}

// --- Forked children.

TEST_F(LeasesTest, AnInertOneTouchesNothing) {
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kHeld);
  ASSERT_EQ(leases_->Pin(R(4), kGen), LeaseOutcome::kHeld);
  leases_->MakeInert();
  leases_->Release(R(3), kGen);
  EXPECT_FALSE(leases_->Unpin(R(4), kGen));
  EXPECT_FALSE(leases_->Pinned(R(4), kGen));
  EXPECT_EQ(leases_->Acquire(R(5), kGen), LeaseOutcome::kGone);
  EXPECT_EQ(leases_->Pin(R(3), kGen), LeaseOutcome::kGone);
  EXPECT_EQ(leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysLive), LeaseOutcome::kGone);
  leases_->Touch(R(3));
  leases_->Publish({.free_pages = 9});
  leases_->AddBlock(blocks_[0]);
  EXPECT_EQ(leases_->slots_in_use(), 0u);
  EXPECT_EQ(leases_->pins(), 0u);
  leases_.reset();
  EXPECT_EQ(Slot(0), Lease(3, 2));
  EXPECT_EQ(Slot(1), Pin(4, 2));
  const layout::LeaseHeader& header = *catalogue_.Header(kClient);
  EXPECT_EQ(header.slots_high.load(), 2u);
  EXPECT_EQ(header.touch_head.load(), 0u);
  EXPECT_EQ(header.free_pages.load(), 0u);
}

TEST_F(LeasesJoinTest, AForkedChildCanDropWhatItInheritedWhileAThreadOfItsParentWaits) {
  catalogue_.Retire(R(3));
  ASSERT_EQ(leases_->Acquire(R(3), kGen), LeaseOutcome::kRetiring);
  StartJoiner([&] { return leases_->Acquire(R(3), kGen); });
  const pid_t child = ::fork();
  if (child == 0) {
    leases_->MakeInert();
    leases_->Release(R(3), kGen);
    leases_.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  catalogue_.Revert(R(3));
  leases_->Confirm(R(3), kGen, What::kLease, Server::kSaysLive);
  joiner_.join();
  EXPECT_EQ(outcome_, LeaseOutcome::kHeld);
}

// --- Against a naive model: one count of leases and one of pins for each life of a page, and the
// words of the protocol as their consequence.

class LeasesModelTest : public LeasesTest {
 protected:
  struct Counts {
    uint32_t leases = 0, pins = 0;
  };
  using Life = std::pair<uint32_t, uint32_t>;  // record, generation

  LeaseOutcome Take(Life life, What what) {
    return what == What::kPin ? leases_->Pin(R(life.first), Generation(life.second))
                              : leases_->Acquire(R(life.first), Generation(life.second));
  }
  void Count(Life life, What what) {
    ++(what == What::kPin ? model_[life].pins : model_[life].leases);
  }
  bool Joins(Life life, What what) {
    const auto it = model_.find(life);
    if (it == model_.end()) return false;
    return what == What::kPin ? it->second.pins > 0 : it->second.leases + it->second.pins > 0;
  }
  void Forget(Life life) {
    if (model_[life].leases + model_[life].pins == 0) model_.erase(life);
  }

  void TakeOne(Life life, What what) {
    const layout::StateWord state = catalogue_.State(R(life.first));
    const bool same = state.generation().value() == life.second;
    const bool joins = Joins(life, what);
    const LeaseOutcome outcome = Take(life, what);
    if (joins || (same && state.state() == PageState::kLive)) {
      ASSERT_EQ(outcome, LeaseOutcome::kHeld);
      Count(life, what);
    } else if (same && state.state() == PageState::kRetiring) {
      ASSERT_EQ(outcome, LeaseOutcome::kRetiring);
      Answer(life, what);
    } else {
      ASSERT_EQ(outcome, LeaseOutcome::kGone);
    }
  }
  // The server decides now: its scan sees the slot of the open question.
  void Answer(Life life, What what) {
    const auto held = catalogue_.Scan(R(life.first), Generation(life.second));
    ASSERT_TRUE(held.leased);
    ASSERT_TRUE(held.pinned || what == What::kLease);
    const bool live = held.pinned;
    live ? catalogue_.Revert(R(life.first)) : catalogue_.Condemn(R(life.first));
    const LeaseOutcome outcome = leases_->Confirm(R(life.first), Generation(life.second), what,
                                                  live ? Server::kSaysLive : Server::kSaysGone);
    ASSERT_EQ(outcome, live ? LeaseOutcome::kHeld : LeaseOutcome::kGone);
    if (live) Count(life, what);
  }
  void DropOne(Life life, What what) {
    const auto it = model_.find(life);
    const Counts counts = it == model_.end() ? Counts{} : it->second;
    if (what == What::kPin) {
      ASSERT_EQ(leases_->Unpin(R(life.first), Generation(life.second)), counts.pins > 0);
      if (counts.pins == 0) return;
      --model_[life].pins;
    } else {
      if (counts.leases == 0) return;
      leases_->Release(R(life.first), Generation(life.second));
      --model_[life].leases;
    }
    Forget(life);
  }
  // The page goes on to its next state as the server would have it.
  void Advance(uint32_t record) {
    const layout::StateWord state = catalogue_.State(R(record));
    const auto held = catalogue_.Scan(R(record), state.generation());
    switch (state.state()) {
      case PageState::kLive: catalogue_.Retire(R(record)); break;
      case PageState::kRetiring:
        held.pinned ? catalogue_.Revert(R(record)) : catalogue_.Condemn(R(record));
        break;
      case PageState::kCondemned:
        if (!held.leased) catalogue_.Free(R(record));
        break;
      default: catalogue_.Put(R(record), MakeKeyRef(Namespace(), "again")); break;
    }
  }
  void CheckAll() {
    uint64_t pins = 0;
    for (const auto& [life, counts] : model_) {
      const auto held = catalogue_.Scan(R(life.first), Generation(life.second));
      ASSERT_TRUE(held.leased);
      ASSERT_EQ(held.pinned, counts.pins > 0);
      ASSERT_EQ(leases_->Pinned(R(life.first), Generation(life.second)), counts.pins > 0);
      pins += counts.pins > 0;
    }
    ASSERT_EQ(leases_->pins(), pins);
    ASSERT_EQ(leases_->slots_in_use(), model_.size());
    uint64_t filled = 0;
    const uint64_t high = catalogue_.Header(kClient)->slots_high.load();
    ASSERT_LT(high, 100u);
    for (uint32_t i = 0; i < layout::kLeaseSlotsPerBlock; ++i) filled += Slot(i) != 0;
    ASSERT_EQ(filled, model_.size());
  }

  std::map<Life, Counts> model_;
};

TEST_F(LeasesModelTest, AgreesWithANaiveModel) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  for (int step = 0; step < 5000; ++step) {
    const auto record = static_cast<uint32_t>(random.Between(1, 8));
    uint32_t generation = catalogue_.State(R(record)).generation().value();
    if (random.OneIn(4) && generation > 1) --generation;
    const What what = random.OneIn(2) ? What::kPin : What::kLease;
    switch (random.Below(5)) {
      case 0:
      case 1: TakeOne({record, generation}, what); break;
      case 2:
      case 3: DropOne({record, generation}, what); break;
      case 4: Advance(record); break;
    }
    CheckAll();
    if (HasFatalFailure()) {
      FAIL() << "step " << step;
    }
  }
}

}  // namespace
}  // namespace maru::catalogue
