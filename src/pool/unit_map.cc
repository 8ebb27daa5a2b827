#include "pool/unit_map.h"

#include <iterator>

#include "base/bytes.h"
#include "base/check.h"

namespace maru::pool {

UnitMap::Runs::iterator UnitMap::Find(uint64_t count, Place place) {
  if (place == Place::kBestFit) {
    const auto fit = by_count_.lower_bound({count, 0});
    return fit == by_count_.end() ? by_first_.end() : by_first_.find(fit->second);
  }
  if (largest_run() < count) return by_first_.end();
  auto run = std::prev(by_first_.end());
  while (run->second < count) --run;  // ends: the largest run fits
  return run;
}

UnitMap::Runs::iterator UnitMap::Insert(UnitRun run) {
  by_count_.emplace(run.count, run.first);
  free_units_ += run.count;
  return by_first_.emplace(run.first, run.count).first;
}

void UnitMap::Erase(Runs::iterator run) {
  MARU_CHECK_EQ(by_count_.erase({run->second, run->first}), 1u);
  free_units_ -= run->second;
  by_first_.erase(run);
}

std::optional<UnitRun> UnitMap::Take(uint64_t count, Place place) {
  MARU_CHECK_GT(count, 0u);
  const auto found = Find(count, place);
  if (found == by_first_.end()) return std::nullopt;
  const UnitRun run{found->first, found->second};
  Erase(found);
  const uint64_t rest = run.count - count;
  if (place == Place::kBestFit) {
    if (rest > 0) Insert({run.first + count, rest});
    return UnitRun{run.first, count};
  }
  if (rest > 0) Insert({run.first, rest});
  return UnitRun{run.first + rest, count};
}

void UnitMap::Release(UnitRun run) {
  MARU_CHECK(run.count > 0 && RangeFits(run.first, run.count, units_))
      << "units " << run.first << " and " << run.count << " on, of " << units_;
  const auto after = by_first_.lower_bound(run.first);
  UnitRun merged = run;
  if (after != by_first_.end()) {
    MARU_CHECK_LE(run.first + run.count, after->first) << "freed twice";
    if (run.first + run.count == after->first) merged.count += after->second;
  }
  if (after != by_first_.begin()) {
    const auto before = std::prev(after);
    MARU_CHECK_LE(before->first + before->second, run.first) << "freed twice";
    if (before->first + before->second == run.first) {
      merged.first = before->first;
      merged.count += before->second;
      Erase(before);
    }
  }
  if (merged.first + merged.count > run.first + run.count) Erase(after);
  Insert(merged);
}

std::vector<UnitRun> UnitMap::FreeRuns() const {
  std::vector<UnitRun> runs;
  runs.reserve(by_first_.size());
  for (const auto& [first, count] : by_first_) runs.push_back({first, count});
  return runs;
}

}  // namespace maru::pool
