// Reader, Leases and a writer at work on one catalogue at the same time, with the thread sanitizer
// as a judge where it is on: the pages' bytes are plain memory.
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "base/sequence_point.h"
#include "base/testing.h"
#include "catalogue/leases.h"
#include "catalogue/reader.h"
#include "catalogue/test_catalogue.h"

namespace maru::catalogue {
namespace {

using layout::PageState;

constexpr uint32_t kPages = 24;
constexpr uint64_t kPageBytes = 512;
constexpr uint32_t kKeys = 20;
constexpr uint32_t kPermanentKeys = 4;  // the first ones: retired at times, never condemned
constexpr uint16_t kClients = 2;
constexpr int kThreadsEach = 2;
constexpr int kCallsEach = 6'000;
constexpr uint64_t kHomes = 4;  // so that probes are long and tags collide

RecordNumber R(uint32_t number) { return RecordNumber(number); }

// What every word of a page says, and its checksum field too: whose bytes, in which of its lives.
uint64_t Token(uint32_t key, uint32_t life) { return uint64_t{key + 1} << 32 | life; }
uint32_t KeyOf(uint64_t token) { return static_cast<uint32_t>(token >> 32) - 1; }

// Puts this thread on the nth processor that the process may use, where there are as many: two
// threads that take turns on one would never meet.
void PinToProcessor(int nth) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || nth-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

class RaceTest : public testing::Test {
 protected:
  static TestCatalogue::Options MakeOptions() {
    TestCatalogue::Options options;
    options.pages = kPages;
    options.page_bytes = kPageBytes;
    options.text_bytes_each = 64;
    options.tables = 3;
    options.clients = kClients;
    return options;
  }

  RaceTest() : catalogue_(&pool_, MakeOptions()) {
    for (uint32_t i = 0; i < kKeys; ++i) {
      texts_.push_back("a key whose text is of some length, number " + std::to_string(i / 2) +
                       (i % 2 == 0 ? "a" : "b"));
    }
    for (uint32_t i = 0; i < kKeys; ++i) {
      KeyRef key = MakeKeyRef(team_, texts_[i]);
      key.hash = {i % kHomes, uint64_t{i % 2} << 32 | i / kHomes % 2};
      keys_.push_back(key);
    }
  }

  TestPool pool_;
  TestCatalogue catalogue_;
  Namespace team_{"team"};
  std::vector<std::string> texts_;
  std::vector<KeyRef> keys_;

  // --- The server. A step holds the mutex: a client that asks is answered between two of them.
  void ServerStep(Random& random);
  void Bear(Random& random, uint32_t record);
  void Retire(uint32_t record);
  void Grow(Random& random);
  bool ServerSaysLive(RecordNumber record, Generation generation) {
    const std::lock_guard lock(server_);
    return catalogue_.State(record) == layout::StateWord::Make(PageState::kLive, generation);
  }

  std::mutex server_;
  std::map<uint32_t, uint32_t> record_of_key_;  // of those present
  std::map<uint32_t, uint32_t> key_of_record_;
  uint32_t lives_ = 0;
  uint8_t old_table_ = TestCatalogue::kNone;
  uint8_t current_table_ = 0;

  void BearAll(Random& random);

  // --- The clients.
  std::vector<std::unique_ptr<Leases>> MakeLeases();
  void CheckOutcome(const std::vector<std::unique_ptr<Leases>>& leases);
  void LookAt(Leases& leases, Random& random, uint32_t key);
  void Hold(Leases& leases, Random& random, uint32_t key, const Found& found);
  void CheckBytes(const Found& found, uint32_t key);
  LeaseOutcome Settled(Leases& leases, LeaseOutcome outcome, const Found& found, Leases::What what);

  std::atomic<int> missed_{0}, false_entries_{0}, changed_bytes_{0}, pinned_died_{0};
  std::atomic<uint64_t> held_{0}, pinned_{0}, refused_{0};
};

void RaceTest::Bear(Random& random, uint32_t record) {
  const auto key = static_cast<uint32_t>(random.Below(kKeys));
  if (record_of_key_.contains(key)) return;
  catalogue_.Grant(R(record));
  const uint64_t token = Token(key, ++lives_);
  auto* words = reinterpret_cast<uint64_t*>(catalogue_.PageBytes(R(record)));
  for (uint64_t i = 0; i < kPageBytes / 8; ++i) words[i] = token;
  catalogue_.Birth(R(record), keys_[key], kPageBytes, token);
  record_of_key_[key] = record;
  key_of_record_[record] = key;
}

void RaceTest::Retire(uint32_t record) {
  const uint32_t key = key_of_record_.at(record);
  catalogue_.Retire(R(record));
  const auto held = catalogue_.Scan(R(record), catalogue_.State(R(record)).generation());
  if (key < kPermanentKeys || held.pinned) {
    catalogue_.Revert(R(record));
    return;
  }
  catalogue_.Condemn(R(record));
  key_of_record_.erase(record);
  record_of_key_.erase(key);
}

void RaceTest::Grow(Random& random) {
  if (old_table_ == TestCatalogue::kNone) {
    if (!random.OneIn(50)) return;
    old_table_ = current_table_;
    current_table_ = static_cast<uint8_t>((current_table_ + 1) % 3);
    catalogue_.PublishTables(old_table_, current_table_);
    return;
  }
  for (const auto& [key, record] : record_of_key_) {
    if (!catalogue_.Has(old_table_, keys_[key].hash, R(record))) continue;
    catalogue_.Move(old_table_, current_table_, keys_[key].hash, R(record));
    return;
  }
  catalogue_.PublishTables(TestCatalogue::kNone, current_table_);
  for (uint64_t i = 0; i < 2 * kPages + kHomes; ++i) {
    catalogue_.Table(old_table_)[i].store(layout::IndexEntry::kEmpty, std::memory_order_release);
  }
  old_table_ = TestCatalogue::kNone;
}

void RaceTest::ServerStep(Random& random) {
  const std::lock_guard lock(server_);
  const auto record = static_cast<uint32_t>(random.Between(1, kPages));
  const layout::StateWord state = catalogue_.State(R(record));
  switch (state.state()) {
    case PageState::kLive: Retire(record); break;
    case PageState::kCondemned:
      if (!catalogue_.Scan(R(record), state.generation()).leased) catalogue_.Free(R(record));
      break;
    default: Bear(random, record); break;
  }
  Grow(random);
}

void RaceTest::CheckBytes(const Found& found, uint32_t key) {
  PoolView::PageExtent extent;
  if (KeyOf(found.checksum) != key || !pool_.view().Page(found.record, &extent)) {
    ++false_entries_;
    return;
  }
  const auto* words = reinterpret_cast<const uint64_t*>(pool_.base() + extent.offset_bytes);
  for (uint64_t i = 0; i < kPageBytes / 8; ++i) {
    if (words[i] != found.checksum) {
      ++changed_bytes_;
      return;
    }
  }
}

LeaseOutcome RaceTest::Settled(Leases& leases, LeaseOutcome outcome, const Found& found,
                               Leases::What what) {
  if (outcome != LeaseOutcome::kRetiring) return outcome;
  const bool live = ServerSaysLive(found.record, found.generation);
  return leases.Confirm(found.record, found.generation, what,
                        live ? Leases::Server::kSaysLive : Leases::Server::kSaysGone);
}

void RaceTest::Hold(Leases& leases, Random& random, uint32_t key, const Found& found) {
  const auto what = random.OneIn(4) ? Leases::What::kPin : Leases::What::kLease;
  const LeaseOutcome first = what == Leases::What::kPin
                                 ? leases.Pin(found.record, found.generation)
                                 : leases.Acquire(found.record, found.generation);
  if (Settled(leases, first, found, what) != LeaseOutcome::kHeld) {
    ++refused_;
    return;
  }
  ++held_;
  CheckBytes(found, key);
  bool pinned = what == Leases::What::kPin;
  if (!pinned && random.OneIn(4)) {
    pinned = Settled(leases, leases.Pin(found.record, found.generation), found,
                     Leases::What::kPin) == LeaseOutcome::kHeld;
  }
  if (pinned) {
    ++pinned_;
    Found again;
    const FindVerdict verdict = Reader(pool_.view()).Find(keys_[key], &again);
    const bool there = verdict == FindVerdict::kLive || verdict == FindVerdict::kRetiring;
    if (verdict == FindVerdict::kMiss) ++pinned_died_;
    if (there && (again.record != found.record || again.generation != found.generation)) {
      ++pinned_died_;
    }
  }
  CheckBytes(found, key);
  if (pinned && !leases.Unpin(found.record, found.generation)) ++pinned_died_;
  if (what == Leases::What::kLease) {
    CheckBytes(found, key);
    leases.Release(found.record, found.generation);
  }
}

void RaceTest::LookAt(Leases& leases, Random& random, uint32_t key) {
  // Every other time the key is the middle one of a batch.
  const std::array<KeyRef, 3> asked = {keys_[random.Below(kKeys)], keys_[key],
                                       keys_[random.Below(kKeys)]};
  std::array<FindVerdict, 3> verdicts{};
  std::array<Found, 3> found{};
  if (random.OneIn(2)) {
    Reader(pool_.view()).FindBatch(asked, verdicts, found);
  } else {
    verdicts[1] = Reader(pool_.view()).Find(asked[1], &found[1]);
  }
  if (verdicts[1] == FindVerdict::kMiss) {
    if (key < kPermanentKeys) ++missed_;
  } else if (verdicts[1] != FindVerdict::kAskServer) {
    if (KeyOf(found[1].checksum) != key || found[1].length_bytes != kPageBytes) ++false_entries_;
    Hold(leases, random, key, found[1]);
  }
}

void RaceTest::BearAll(Random& random) {
  while (record_of_key_.size() < kKeys) {  // the permanent ones are there from the start
    for (uint32_t record = 1; record <= kPages; ++record) {
      if (!key_of_record_.contains(record)) Bear(random, record);
    }
  }
}

std::vector<std::unique_ptr<Leases>> RaceTest::MakeLeases() {
  std::vector<std::unique_ptr<Leases>> leases;
  for (uint16_t client = 0; client < kClients; ++client) {
    const auto blocks = catalogue_.Blocks(ClientSlot(client));
    leases.push_back(
        std::make_unique<Leases>(pool_.view(), catalogue_.Header(ClientSlot(client)), blocks));
  }
  return leases;
}

void RaceTest::CheckOutcome(const std::vector<std::unique_ptr<Leases>>& leases) {
  EXPECT_EQ(missed_.load(), 0);
  EXPECT_EQ(false_entries_.load(), 0);
  EXPECT_EQ(changed_bytes_.load(), 0);
  EXPECT_EQ(pinned_died_.load(), 0);
  EXPECT_GT(held_.load(), 0u);
  EXPECT_GT(pinned_.load(), 0u);
  RecordProperty("lives", static_cast<int>(lives_));
  RecordProperty("held", static_cast<int>(held_.load()));
  RecordProperty("refused", static_cast<int>(refused_.load()));
  for (uint16_t client = 0; client < kClients; ++client) {
    EXPECT_EQ(leases[client]->slots_in_use(), 0u);
    for (const layout::LeaseSlots* block : catalogue_.Blocks(ClientSlot(client))) {
      for (const auto& slot : block->slots) EXPECT_EQ(slot.load(), 0u);
    }
  }
}

TEST_F(RaceTest, NothingFalseIsFoundNothingHeldChangesAndNoLiveKeyIsMissed) {
  const uint64_t seed = TestSeed();
  Random random(seed);
  BearAll(random);
  const auto leases = MakeLeases();
  std::atomic<int> running{kClients * kThreadsEach};
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients * kThreadsEach; ++i) {
    threads.emplace_back([&, i, thread_seed = random()] {
      PinToProcessor(i % 2);
      Random mine(thread_seed);
      for (int call = 0; call < kCallsEach; ++call) {
        LookAt(*leases[i % kClients], mine, static_cast<uint32_t>(mine.Below(kKeys)));
      }
      running.fetch_sub(1, std::memory_order_relaxed);
    });
  }
  while (running.load(std::memory_order_relaxed) > 0) ServerStep(random);
  for (std::thread& thread : threads) thread.join();
  CheckOutcome(leases);
}

// The same in one thread: at the points between a reader's steps the server makes some of its own,
// so that what takes a rare moment above happens often, and in the same way for the same seed.
TEST_F(RaceTest, TheServerMayStepInBetweenAnyTwoSteps) {
  const uint64_t seed = TestSeed();
  Random server_random(seed);
  BearAll(server_random);
  const auto leases = MakeLeases();
  {
    bool stepping = false;  // the server's own reads pass points as well
    ScopedHook hook([&](std::string_view) {
      if (stepping || !server_random.OneIn(4)) return;
      stepping = true;
      for (uint64_t i = server_random.Between(1, 3 * kPages); i > 0; --i) ServerStep(server_random);
      stepping = false;
    });
    Random random(seed + 1);
    for (int call = 0; call < 2'000; ++call) {
      LookAt(*leases[random.Below(kClients)], random, static_cast<uint32_t>(random.Below(kKeys)));
    }
  }
  CheckOutcome(leases);
  EXPECT_GT(refused_.load(), 0u);
}

// The heart of it, as close together as two threads can be: a slot is filled and the state word
// read, while RETIRING is published and the slots are scanned. One of the two must see the other.
class DekkerTest : public testing::Test {
 protected:
  static constexpr int kRounds = 50'000;
  // Steps before the two begin, drawn anew each round so that they meet at all angles.
  static constexpr uint64_t kReadsMax = 100;
  static constexpr uint64_t kScansMax = 10;

  DekkerTest()
      : catalogue_(&pool_),
        blocks_(catalogue_.Blocks(ClientSlot(0))),
        leases_(pool_.view(), catalogue_.Header(ClientSlot(0)), blocks_),
        generation_(catalogue_.Put(R(1), MakeKeyRef(Namespace(), "key"))) {}

  // Returns how often `take` held the page and the scan beside it did not see `kind`.
  uint64_t CountUnseen(const std::function<LeaseOutcome()>& take,
                       const std::function<void(LeaseOutcome)>& undo,
                       bool TestCatalogue::Held::* kind) {
    LeaseOutcome outcome{};
    uint64_t unseen = 0;
    std::atomic<int> arrived{0};
    const auto meet = [&](int nth) {  // both threads, twice a round
      arrived.fetch_add(1, std::memory_order_acq_rel);
      for (int spins = 1; arrived.load(std::memory_order_acquire) < 2 * nth; ++spins) {
        if (spins % 20'000 == 0) std::this_thread::yield();
      }
    };
    const uint64_t seed = TestSeed();
    std::thread client([&] {
      PinToProcessor(1);
      Random random(seed);
      for (int round = 0; round < kRounds; ++round) {
        meet(2 * round + 1);
        // Each side reads the word that the other is about to change, so that it has it in its
        // cache and the other's store stays in a store buffer for long.
        for (uint64_t i = random.Below(kReadsMax); i > 0; --i) catalogue_.State(R(1));
        outcome = take();
        meet(2 * round + 2);
        undo(outcome);
      }
    });
    // The test's own thread keeps its processors.
    std::thread server([&] {
      PinToProcessor(0);
      Random random(seed + 1);

      for (int round = 0; round < kRounds; ++round) {
        meet(2 * round + 1);
        for (uint64_t i = random.Below(kScansMax); i > 0; --i) catalogue_.Scan(R(1), generation_);
        catalogue_.Retire(R(1));
        const bool seen = catalogue_.Scan(R(1), generation_).*kind;
        meet(2 * round + 2);
        unseen += outcome == LeaseOutcome::kHeld && !seen;
        catalogue_.Revert(R(1));
      }
    });
    server.join();
    client.join();
    return unseen;
  }
  void Drop(Leases::What what) {
    leases_.Confirm(R(1), generation_, what, Leases::Server::kSaysGone);
  }

  TestPool pool_;
  TestCatalogue catalogue_;
  std::vector<layout::LeaseSlots*> blocks_;
  Leases leases_;
  Generation generation_;
};

TEST_F(DekkerTest, ALeaseSeesRetiringOrTheScanSeesTheLease) {
  const auto take = [&] { return leases_.Acquire(R(1), generation_); };
  const auto undo = [&](LeaseOutcome outcome) {
    if (outcome == LeaseOutcome::kHeld) leases_.Release(R(1), generation_);
    if (outcome == LeaseOutcome::kRetiring) Drop(Leases::What::kLease);
  };
  EXPECT_EQ(CountUnseen(take, undo, &TestCatalogue::Held::leased), 0u);
  EXPECT_EQ(leases_.slots_in_use(), 0u);
}

TEST_F(DekkerTest, AnUpgradeSeesRetiringOrTheScanSeesThePin) {
  ASSERT_EQ(leases_.Acquire(R(1), generation_), LeaseOutcome::kHeld);
  const auto take = [&] { return leases_.Pin(R(1), generation_); };
  const auto undo = [&](LeaseOutcome outcome) {
    if (outcome == LeaseOutcome::kHeld) leases_.Unpin(R(1), generation_);
    if (outcome == LeaseOutcome::kRetiring) Drop(Leases::What::kPin);
  };
  EXPECT_EQ(CountUnseen(take, undo, &TestCatalogue::Held::pinned), 0u);
  EXPECT_EQ(leases_.slots_in_use(), 1u);
  EXPECT_EQ(leases_.pins(), 0u);
}

}  // namespace
}  // namespace maru::catalogue
