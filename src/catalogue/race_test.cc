// Reader, Leases and a writer at work on one catalogue at the same time, with the thread sanitizer
// as a judge where it is on: the pages' bytes are plain memory.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/sequence_point.h"
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
constexpr uint64_t kHomes = 4;  // so that probes are long and tags collide

RecordNumber R(uint32_t number) { return RecordNumber(number); }

// What every word of a page says, and its checksum field too: whose bytes, in which of its lives.
uint64_t Token(uint32_t key, uint32_t life) { return uint64_t{key + 1} << 32 | life; }
uint32_t KeyOf(uint64_t token) { return static_cast<uint32_t>(token >> 32) - 1; }

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

  // --- The clients.
  void Run(int calls_each);
  void ReaderThread(Leases& leases, uint64_t seed, int calls);
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

void RaceTest::ReaderThread(Leases& leases, uint64_t seed, int calls) {
  Random random(seed);
  for (int call = 0; call < calls; ++call) {
    LookAt(leases, random, static_cast<uint32_t>(random.Below(kKeys)));
  }
}

void RaceTest::Run(int calls_each) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("MARU_TEST_SEED=" + std::to_string(seed));
  Random random(seed);
  while (record_of_key_.size() < kKeys) {  // all of them, so that the permanent ones are there
    for (uint32_t record = 1; record <= kPages; ++record) {
      if (!key_of_record_.contains(record)) Bear(random, record);
    }
  }
  std::vector<std::unique_ptr<Leases>> leases;
  for (uint16_t client = 0; client < kClients; ++client) {
    const auto blocks = catalogue_.Blocks(ClientSlot(client));
    leases.push_back(
        std::make_unique<Leases>(pool_.view(), catalogue_.Header(ClientSlot(client)), blocks));
  }
  std::atomic<int> running{kClients * kThreadsEach};
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients * kThreadsEach; ++i) {
    threads.emplace_back([&, i, thread_seed = random()] {
      ReaderThread(*leases[i % kClients], thread_seed, calls_each);
      running.fetch_sub(1, std::memory_order_relaxed);
    });
  }
  while (running.load(std::memory_order_relaxed) > 0) ServerStep(random);
  for (std::thread& thread : threads) thread.join();

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

TEST_F(RaceTest, NothingFalseIsFoundNothingHeldChangesAndNoLiveKeyIsMissed) { Run(6'000); }

// The same with threads that lose the processor between two steps.
TEST_F(RaceTest, StepsMayBeFarApart) {
  std::atomic<uint32_t> passed{0};
  ScopedHook hook([&](std::string_view) {
    if (passed.fetch_add(1, std::memory_order_relaxed) % 4 == 0) std::this_thread::yield();
  });
  Run(700);
}

}  // namespace
}  // namespace maru::catalogue
