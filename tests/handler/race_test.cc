// The register race, forced: every instance has built its message for the same key before any of
// them is sent.

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

#include "base/sequence_point.h"
#include "handler_fixture.h"

namespace maru::handler {
namespace {

class RegisterRace : public testing::TestWithParam<int> {
 protected:
  RegisterRace() {
    for (int i = 0; i < GetParam(); ++i) {
      instances_.push_back(std::make_unique<Instance>(&host_));
      EXPECT_OK((*instances_.back())->Connect());
    }
  }

  // Each instance stores the keys, in its own thread; none is sent before all are built.
  std::vector<std::vector<bool>> Race(const std::vector<std::string_view>& keys) {
    std::barrier built(GetParam());
    std::atomic<bool> forced{true};
    const ScopedHook hook("handler:register-built", [&] { built.arrive_and_wait(); });
    std::vector<std::vector<bool>> answers(instances_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < instances_.size(); ++i) {
      threads.emplace_back([&, i] {
        Instance& instance = *instances_[i];
        std::vector<Handler::StoreItem> items;
        for (const std::string_view key : keys) {
          items.push_back({key, Written(instance, key), key.size()});
        }
        if (items.size() == 1) {
          answers[i] = {
              instance->Store(items[0].key, items[0].page, items[0].length_bytes).value()};
        } else {
          answers[i] = instance->BatchStore(items).value();
        }
        // Whatever was lost, nothing is with the application any more.
        if (instance.counters().held != 0) forced = false;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(forced);
    return answers;
  }
  uint64_t Duplicates() const {
    uint64_t sum = 0;
    for (const auto& instance : instances_) sum += instance->counters().duplicates;
    return sum;
  }
  void ExpectAllSettled(const std::vector<std::string_view>& keys) {
    std::vector<Instance*> all;
    for (const auto& instance : instances_) all.push_back(instance.get());
    ExpectNothingLost(host_, all);
    for (const auto& instance : instances_) {
      for (const std::string_view key : keys) EXPECT_EQ(Get(*instance, key), key);
    }
  }

  using Keys = std::vector<std::string_view>;

  // Instance i hears of the first i % 4 keys alone.
  void ExpectShortRepliesSettled(const Keys& keys, const Keys& different) {
    const auto answered = [&](size_t i) { return std::min(i % 4, keys.size()); };
    for (size_t i = 0; i < instances_.size(); ++i) {
      EditOnce<wire::RegisterRequest>(*instances_[i],
                                      [count = answered(i)](Status*, wire::Reply* reply) {
                                        std::get<wire::RegisterReply>(*reply).items.resize(count);
                                      });
    }
    const auto answers = Race(keys);
    for (size_t i = 0; i < instances_.size(); ++i) {
      for (size_t n = 0; n < keys.size(); ++n) {
        EXPECT_EQ(answers[i][n], n < answered(i)) << i << " " << n;
      }
      EXPECT_EQ(instances_[i]->counters().unknown, keys.size() - answered(i));
    }
    EXPECT_EQ(host_.Count().live, different.size());
    ExpectAllSettled(different);
  }

  // The first loses its request, the second its reply, the third hears an error, and so on.
  void ExpectFailedRepliesSettled(const Keys& keys, const Keys& different) {
    using Road = DirectLink::Road;
    for (size_t i = 0; i < instances_.size(); ++i) {
      if (i % 4 == 0) LoseOnce<wire::RegisterRequest>(*instances_[i], Road::kRequestLost);
      if (i % 4 == 1) LoseOnce<wire::RegisterRequest>(*instances_[i], Road::kReplyLost);
      if (i % 4 == 2) {
        EditOnce<wire::RegisterRequest>(*instances_[i], [](Status* status, wire::Reply* reply) {
          *status = Internal("made up");
          reply->emplace<std::monostate>();
        });
      }
    }
    const auto answers = Race(keys);
    for (size_t i = 0; i < instances_.size(); ++i) {
      const bool heard = i % 4 == 3;
      EXPECT_EQ(answers[i], std::vector<bool>(keys.size(), heard)) << i;
      EXPECT_EQ(instances_[i]->counters().unknown, heard ? 0u : keys.size()) << i;
    }
    // By the one whose reply was lost, or a later one.
    EXPECT_EQ(host_.Count().live, different.size());
    ExpectAllSettled(different);
  }

  Host host_;
  std::vector<std::unique_ptr<Instance>> instances_;
};

TEST_P(RegisterRace, OfOneStoreEachEverybodyHearsTrueAndOnePageWins) {
  for (const auto& answer : Race({"key"})) EXPECT_EQ(answer, std::vector<bool>({true}));
  EXPECT_EQ(host_.Count().live, 1u);
  EXPECT_EQ(Duplicates(), static_cast<uint64_t>(GetParam() - 1));
  // Every loser has its page back by now, without another message.
  for (const auto& instance : instances_) EXPECT_EQ(instance->counters().unknown, 0u);
  ExpectAllSettled({"key"});
}

TEST_P(RegisterRace, OfBatchesWithAKeyTwiceEverybodyHearsTrue) {
  for (const auto& answer : Race({"key", "twice", "twice"})) {
    EXPECT_EQ(answer, std::vector<bool>({true, true, true}));
  }
  EXPECT_EQ(host_.Count().live, 2u);
  EXPECT_EQ(Duplicates(), static_cast<uint64_t>(3 * GetParam() - 2));
  for (const auto& instance : instances_) EXPECT_EQ(instance->counters().unknown, 0u);
  ExpectAllSettled({"key", "twice"});
}

TEST_P(RegisterRace, WithShortRepliesTheAnsweredEntriesAreTrueAndTheRestIsSettled) {
  ExpectShortRepliesSettled({"key", "twice", "twice"}, {"key", "twice"});
}

TEST_P(RegisterRace, OfOneStoreEachWithShortRepliesWhoHearsNothingHearsFalse) {
  ExpectShortRepliesSettled({"key"}, {"key"});
}

TEST_P(RegisterRace, WithFailedRepliesTheirInstancesHearFalseAndAllIsSettled) {
  ExpectFailedRepliesSettled({"key", "twice", "twice"}, {"key", "twice"});
}

TEST_P(RegisterRace, OfOneStoreEachWithFailedRepliesTheirInstancesHearFalseAndAllIsSettled) {
  ExpectFailedRepliesSettled({"key"}, {"key"});
}

INSTANTIATE_TEST_SUITE_P(Instances, RegisterRace, testing::Range(2, 9));

}  // namespace
}  // namespace maru::handler
