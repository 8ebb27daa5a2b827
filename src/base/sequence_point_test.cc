#include "base/sequence_point.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace maru {
namespace {

static_assert(MARU_SEQUENCE_POINTS == 1, "tests link the variant with sequence points");

TEST(SequencePoint, RunsOnlyTheHooksOfItsName) {
  int mine = 0;
  std::vector<std::string> all;
  {
    const ScopedHook hook("test:mine", [&] { ++mine; });
    const ScopedHook any([&](std::string_view name) { all.emplace_back(name); });
    MARU_SEQUENCE_POINT("test:mine");
    MARU_PUBLICATION_POINT("test:other");
  }
  MARU_SEQUENCE_POINT("test:mine");
  EXPECT_EQ(mine, 1);
  EXPECT_EQ(all, (std::vector<std::string>{"test:mine", "test:other"}));
  EXPECT_EQ(internal::installed_hooks.load(), 0);
}

TEST(SequencePoint, HookMayThrowAndMayInstallHooks) {
  const ScopedHook thrower("test:throw", [] { throw std::runtime_error("stop"); });
  EXPECT_THROW(MARU_PUBLICATION_POINT("test:throw"), std::runtime_error);
  const ScopedHook nested("test:nested", [] { const ScopedHook inner("test:inner", [] {}); });
  MARU_SEQUENCE_POINT("test:nested");
}

TEST(SequencePoint, GateHoldsTheFirstThreadUntilItOpens) {
  std::atomic<bool> passed{false};
  SequenceGate gate("test:gate");
  std::thread held([&] {
    MARU_SEQUENCE_POINT("test:gate");
    passed.store(true);
  });
  gate.AwaitArrival();
  EXPECT_FALSE(passed.load());
  MARU_SEQUENCE_POINT("test:gate");  // the second one is not held
  gate.Open();
  held.join();
  EXPECT_TRUE(passed.load());
}

}  // namespace
}  // namespace maru
