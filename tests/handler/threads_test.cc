// Readers that verify every byte against its key while writers store, delete and use pages anew at
// full speed: the real engine and real handlers in one process and one mapping, so that the thread
// sanitizer sees the pages' bytes, which are plain memory.

#include <atomic>
#include <thread>

#include "base/random.h"
#include "base/testing.h"
#include "engine/retire.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

constexpr uint32_t kKeys = 24;
constexpr uint64_t kPageBytes = 64 * 1024;  // so that a region has few, used over and over
constexpr uint64_t kWords = 32;             // that are written of each
constexpr int kReaders = 3;                 // handlers, with two threads each
constexpr int kWriters = 2;
constexpr uint64_t kReadsEach = 10'000;

std::string KeyOf(uint64_t number) { return "key-" + std::to_string(number); }

// What each word of a page says: of which key, of which store, at which place.
uint64_t WordOf(uint64_t key, uint64_t store, uint64_t at) {
  uint64_t state = key << 48 ^ store;
  return SplitMix64(state) ^ at << 56;
}

class ThreadsTest : public testing::Test {
 protected:
  static engine::TestEngine::Options Options() {
    engine::TestEngine::Options options;
    options.pools = {32 * kMiB};
    options.engine.quarantine_ns = 0;
    return options;
  }
  static HandlerOptions Small(const char* label) {
    HandlerOptions options;
    options.label = label;
    options.page_bytes = kPageBytes;
    options.hand_pages_max = 4;
    return options;
  }

  void Write(Instance& instance, uint64_t seed);
  void Store(Instance& instance, Random& random);
  void Read(Instance& instance, uint64_t seed);
  bool Check(const View& view, uint64_t key);

  Host host_{Options()};
  std::atomic<uint64_t> stores_{0}, deleted_{0}, verified_{0}, wrong_{0};
  std::atomic<int> reading_{0};
};

bool ThreadsTest::Check(const View& view, uint64_t key) {
  uint64_t words[kWords + 1];
  if (view.bytes().size() != sizeof(words)) return false;
  std::memcpy(words, view.bytes().data(), sizeof(words));
  for (uint64_t i = 0; i < kWords; ++i) {
    if (words[i + 1] != WordOf(key, words[0], i)) return false;
  }
  return true;
}

void ThreadsTest::Store(Instance& instance, Random& random) {
  std::vector<std::string> keys;
  std::vector<Handler::StoreItem> items;
  const uint64_t count = random.Between(1, 3);
  for (uint64_t n = 0; n < count; ++n) {
    const uint64_t key = random.Below(kKeys);
    const Result<PageHandle> page = instance->Alloc(kPageBytes);
    if (!page.ok()) break;  // all pages are leased just now
    auto* words = reinterpret_cast<uint64_t*>(page->data);
    const uint64_t store = ++stores_;
    words[0] = store;
    for (uint64_t i = 0; i < kWords; ++i) words[i + 1] = WordOf(key, store, i);
    keys.push_back(KeyOf(key));
    items.push_back({"", *page, (kWords + 1) * 8});
  }
  for (size_t n = 0; n < items.size(); ++n) items[n].key = keys[n];
  const auto stored = instance->BatchStore(items).value();
  if (std::count(stored.begin(), stored.end(), false) != 0) ++wrong_;
}

void ThreadsTest::Write(Instance& instance, uint64_t seed) {
  Random random(seed);
  while (reading_ > 0) {
    Store(instance, random);
    const std::string key = KeyOf(random.Below(kKeys));
    if (instance->Delete(key).value() == wire::DeleteOutcome::kDeleted) ++deleted_;
    if (random.OneIn(16)) host_.With([](engine::TestEngine& engine) { engine.Tick(); });
  }
}

void ThreadsTest::Read(Instance& instance, uint64_t seed) {
  Random random(seed);
  struct Held {
    View view;
    uint64_t key;
  };
  std::vector<Held> held(4);
  for (uint64_t done = 0; done < kReadsEach;) {
    const uint64_t key = random.Below(kKeys);
    const std::string text = KeyOf(key);
    if (random.OneIn(8) && instance->Pin(text).value()) {
      // Pinned: it is there until it is unpinned.
      if (instance->Delete(text).value() != wire::DeleteOutcome::kPinned) ++wrong_;
      if (!instance->Exists(text).value()) ++wrong_;
      if (!instance->Unpin(text).value()) ++wrong_;
    }
    Result<View> view = instance->Retrieve(text, Verify::kNo);
    if (!view.ok() || !*view) continue;
    if (!Check(*view, key)) ++wrong_;
    ++done;
    ++verified_;
    // Held for a while, and the same bytes as long as it is.
    Held& place = held[random.Below(held.size())];
    if (place.view && !Check(place.view, place.key)) ++wrong_;
    place = {std::move(*view), key};
  }
}

TEST_F(ThreadsTest, EveryByteIsItsKeys) {
  const uint64_t seed = TestSeed();
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<Instance*> all;
  for (int i = 0; i < kReaders + kWriters; ++i) {
    instances.push_back(std::make_unique<Instance>(&host_, Small("stress")));
    all.push_back(instances.back().get());
    ASSERT_OK((*all.back())->Connect());
  }
  reading_ = 2 * kReaders;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kReaders; ++i) {
    threads.emplace_back([this, &all, seed, i] {
      Read(*all[i / 2], seed + i);
      --reading_;
    });
  }
  for (int i = 0; i < kWriters; ++i) {
    threads.emplace_back([this, &all, seed, i] { Write(*all[kReaders + i], seed + 100 + i); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_, 0u);
  EXPECT_EQ(verified_, 2 * kReaders * kReadsEach);
  EXPECT_GT(deleted_, 1000u);
  ExpectNothingLost(host_, all);
  for (Instance* instance : all) {
    EXPECT_EQ(instance->counters().leases, 0u);
    EXPECT_EQ(instance->counters().pins, 0u);
  }
  for (uint64_t key = 0; key < kKeys; ++key) EXPECT_OK((*all[0])->Delete(KeyOf(key)));
  host_.With([](engine::TestEngine& engine) {
    engine.Advance(engine::Retirement::kReapPauseMaxNs);
    engine.Tick();
  });
  for (Instance* instance : all) (*instance)->Close();
  const auto counts = host_.Count();
  EXPECT_EQ(counts.pages, counts.free);
}

}  // namespace
}  // namespace maru::handler
