// Readers beside the real writer: while keys come and go, the index grows, is rebuilt, its rooms
// are cleared and used again, and the server dies and starts, a key that stays is never missed and
// nothing false is found.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/testing.h"
#include "catalogue/reader.h"
#include "catalogue/test_catalogue.h"
#include "catalogue/test_writer.h"

namespace maru::catalogue {
namespace {

constexpr uint32_t kStaying = 600;
constexpr uint32_t kFilling = 202'000;
constexpr uint32_t kComing = 3'000;

struct KeySet {
  KeySet(std::string_view space, uint32_t count) : name(space) {
    texts.reserve(count);
    for (uint32_t i = 0; i < count; ++i) texts.push_back(NumberedKey(i));
    for (const std::string& text : texts) keys.push_back(MakeKeyRef(name, text));
  }
  Namespace name;
  std::vector<std::string> texts;
  std::vector<KeyRef> keys;
};

// What a thread that looks at `staying` and `coming` has met.
struct Met {
  uint64_t finds = 0;
  uint64_t asked = 0;
  std::string wrong;
};

class ReaderThread {
 public:
  ReaderThread(PoolView view, const KeySet& staying, const KeySet& coming, uint64_t seed,
               const std::atomic<bool>& stop)
      : thread_([this, view, &staying, &coming, seed, &stop] {
          Random random(seed);
          const Reader reader(view);
          // Relaxed: only the flag counts; the join orders the rest.
          while (!stop.load(std::memory_order_relaxed) && met_.wrong.empty()) {
            One(reader, staying, coming, random);
            Batch(reader, staying, random);
          }
        }) {}
  Met Join() {
    thread_.join();
    return met_;
  }

 private:
  void Judge(FindVerdict verdict, const Found& found, uint32_t i) {
    ++met_.finds;
    if (verdict == FindVerdict::kAskServer) {
      ++met_.asked;
    } else if (verdict != FindVerdict::kLive) {
      met_.wrong = "missed key " + std::to_string(i);
    } else if (found.length_bytes != i % 500) {
      met_.wrong = "key " + std::to_string(i) + " is " + std::to_string(found.length_bytes);
    }
  }
  void One(const Reader& reader, const KeySet& staying, const KeySet& coming, Random& random) {
    Found found;
    const auto stays = static_cast<uint32_t>(random.Below(kStaying));
    Judge(reader.Find(staying.keys[stays], &found), found, stays);
    const auto comes = static_cast<uint32_t>(random.Below(kComing));
    const FindVerdict verdict = reader.Find(coming.keys[comes], &found);
    if ((verdict == FindVerdict::kLive || verdict == FindVerdict::kRetiring) &&
        found.length_bytes != comes % 500) {
      met_.wrong = "found key " + std::to_string(comes) + " with another's length";
    }
  }
  void Batch(const Reader& reader, const KeySet& staying, Random& random) {
    constexpr uint32_t kBatch = 48;
    FindVerdict verdicts[kBatch];
    Found found[kBatch];
    const auto first = static_cast<uint32_t>(random.Below(kStaying - kBatch));
    reader.FindBatch(std::span(staying.keys).subspan(first, kBatch), verdicts, found);
    for (uint32_t i = 0; i < kBatch; ++i) Judge(verdicts[i], found[i], first + i);
  }

  Met met_;
  std::thread thread_;
};

// Keys that come and go, each life in another record.
class Churn {
 public:
  Churn(TestWriter* test, const KeySet& keys, uint64_t seed)
      : test_(test), keys_(keys), random_(seed), record_of_(kComing, RecordNumber(0)) {
    const RecordNumber first = test_->Cut(kComing);
    for (uint32_t i = 0; i < kComing; ++i) free_.push_back(RecordNumber(first.value() + i));
  }
  void Step() {
    const auto i = static_cast<uint32_t>(random_.Below(kComing));
    RecordNumber& record = record_of_[i];
    if (record == RecordNumber(0)) {
      std::swap(free_[random_.Below(free_.size())], free_.back());
      record = free_.back();
      free_.pop_back();
      MARU_CHECK_OK(test_->Put(record, keys_.keys[i], i % 500));
      return;
    }
    (*test_)->Retire(record);
    if (random_.OneIn(3)) return (*test_)->Revert(record);
    (*test_)->Condemn(record);
    (*test_)->Free(record);
    free_.push_back(record);
    record = RecordNumber(0);
  }

 private:
  TestWriter* test_;
  const KeySet& keys_;
  Random random_;
  std::vector<RecordNumber> record_of_;  // 0: not stored
  std::vector<RecordNumber> free_;
};

void Fill(TestWriter& test, const KeySet& keys, uint32_t from, uint32_t to, RecordNumber first,
          Churn* churn) {
  for (uint32_t i = from; i < to; ++i) {
    MARU_CHECK_OK(test.Put(RecordNumber(first.value() + i), keys.keys[i], i % 500));
    if (churn != nullptr && i % 8 == 0) churn->Step();
  }
}

TEST(WriterAndReaders, AKeyThatStaysIsNeverMissed) {
  const uint64_t seed = TestSeed();
  const KeySet staying("stays", kStaying), coming("comes", kComing), filling("fills", kFilling);
  TestWriter test(384ull << 20);
  Fill(test, staying, 0, kStaying, test.Cut(kStaying), nullptr);
  const RecordNumber filled = test.Cut(kFilling);
  Churn churn(&test, coming, seed + 1);

  std::atomic<bool> stop = false;
  std::vector<std::unique_ptr<ReaderThread>> readers;
  for (uint64_t i = 0; i < 2; ++i) {
    readers.push_back(
        std::make_unique<ReaderThread>(test->view(), staying, coming, seed + 2 + i, stop));
  }
  uint64_t tables = 0;
  const auto restart = [&] {
    test.Reopen();
    ++tables;
    for (int i = 0; i < 2'000; ++i) churn.Step();
  };
  // Small, with restarts: two rooms in turn, cleared each time.
  for (int i = 0; i < 3; ++i) restart();
  // Filled until it grows, moved at inserts and in idle time.
  Fill(test, filling, 0, kFilling, filled, &churn);
  EXPECT_TRUE(test->usage().growing);
  while (test->AdvanceGrowth()) {
    for (int i = 0; i < 20; ++i) churn.Step();
  }
  EXPECT_EQ(test->usage().index_capacity, uint64_t{2} << layout::kIndexEntriesLog2Unit);
  restart();
  // Emptied, small again, and a restart in the middle of the next growth.
  for (uint32_t i = 0; i < kFilling; ++i) test.Delete(RecordNumber(filled.value() + i));
  restart();
  uint32_t again = 0;
  while (!test->usage().growing) {
    Fill(test, filling, again, again + 100, filled, &churn);
    again += 100;
  }
  restart();
  EXPECT_EQ(tables, 6u);

  stop.store(true, std::memory_order_relaxed);
  for (const auto& reader : readers) {
    const Met met = reader->Join();
    EXPECT_EQ(met.wrong, "");
    EXPECT_GT(met.finds, 0u);
    // The retries are for table words that change meanwhile, which is rare.
    EXPECT_LT(met.asked, met.finds / 100 + 1);
  }
  EXPECT_EQ(test.Audit(), "");
}

}  // namespace
}  // namespace maru::catalogue
