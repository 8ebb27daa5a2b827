#include "pool/unit_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace maru::pool {
namespace {

using Place = UnitMap::Place;

TEST(UnitMap, PagesTakeTheSmallestRunThatFits) {
  UnitMap map(100);
  map.Release({10, 20});
  map.Release({40, 5});
  map.Release({60, 8});
  EXPECT_EQ(map.Take(5, Place::kBestFit), (UnitRun{40, 5}));
  EXPECT_EQ(map.Take(6, Place::kBestFit), (UnitRun{60, 6}));
  EXPECT_EQ(map.Take(9, Place::kBestFit), (UnitRun{10, 9}));
  EXPECT_EQ(map.Take(12, Place::kBestFit), std::nullopt);
  EXPECT_EQ(map.free_units(), 13u);
}

TEST(UnitMap, TheCatalogueTakesFromTheHighEnd) {
  UnitMap map(100);
  map.Release({10, 20});
  map.Release({40, 5});
  EXPECT_EQ(map.Take(2, Place::kHighest), (UnitRun{43, 2}));
  EXPECT_EQ(map.Take(4, Place::kHighest), (UnitRun{26, 4}));
  EXPECT_EQ(map.Take(17, Place::kHighest), std::nullopt);
  EXPECT_EQ(map.FreeRuns(), (std::vector<UnitRun>{{10, 16}, {40, 3}}));
}

TEST(UnitMap, FreedUnitsMergeWithBothNeighbours) {
  UnitMap map(32);
  map.Release({4, 4});
  map.Release({12, 4});
  map.Release({8, 4});
  EXPECT_EQ(map.FreeRuns(), (std::vector<UnitRun>{{4, 12}}));
  EXPECT_EQ(map.largest_run(), 12u);
}

// The model: one flag for each unit.
class NaiveUnits {
 public:
  explicit NaiveUnits(uint64_t units) : free_(units, false) {}

  std::vector<UnitRun> FreeRuns() const {
    std::vector<UnitRun> runs;
    for (uint64_t i = 0; i < free_.size(); ++i) {
      if (!free_[i]) continue;
      if (runs.empty() || runs.back().first + runs.back().count != i) runs.push_back({i, 0});
      ++runs.back().count;
    }
    return runs;
  }
  std::optional<UnitRun> Expected(uint64_t count, Place place) const {
    std::optional<UnitRun> best;
    for (const UnitRun& run : FreeRuns()) {
      if (run.count < count) continue;
      if (place == Place::kHighest || !best || run.count < best->count) best = run;
    }
    if (!best) return best;
    if (place == Place::kHighest) best->first += best->count - count;
    best->count = count;
    return best;
  }
  void Set(UnitRun run, bool free) {
    for (uint64_t i = 0; i < run.count; ++i) {
      ASSERT_NE(free_[run.first + i], free) << "unit " << run.first + i;
      free_[run.first + i] = free;
    }
  }
  uint64_t free_units() const {
    return static_cast<uint64_t>(std::count(free_.begin(), free_.end(), true));
  }

 private:
  std::vector<bool> free_;
};

void RunAgainstModel(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr uint64_t kUnits = 200;
  Random random(seed);
  UnitMap map(kUnits);
  NaiveUnits naive(kUnits);
  map.Release({1, kUnits - 1});
  naive.Set({1, kUnits - 1}, true);
  std::vector<UnitRun> taken;
  for (int step = 0; step < 2'000; ++step) {
    if (taken.empty() || random.OneIn(2)) {
      const uint64_t count = random.Between(1, random.OneIn(8) ? 90 : 12);
      const Place place = random.OneIn(3) ? Place::kHighest : Place::kBestFit;
      const std::optional<UnitRun> expected = naive.Expected(count, place);
      const std::optional<UnitRun> run = map.Take(count, place);
      ASSERT_EQ(run, expected) << "step " << step;
      if (!run) continue;
      naive.Set(*run, false);
      taken.push_back(*run);
    } else {
      std::swap(taken[random.Below(taken.size())], taken.back());
      map.Release(taken.back());
      naive.Set(taken.back(), true);
      taken.pop_back();
    }
    ASSERT_EQ(map.FreeRuns(), naive.FreeRuns()) << "step " << step;
    ASSERT_EQ(map.free_units(), naive.free_units());
  }
}

TEST(UnitMap, AgreesWithAnArrayOfFlags) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RunAgainstModel(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace maru::pool
