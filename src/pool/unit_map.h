// Which units of a pool are free: runs of units, merged when they touch. In the server's memory
// only: it is rebuilt from the region table at each start.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace maru::pool {

struct UnitRun {
  uint64_t first = 0;
  uint64_t count = 0;
  friend bool operator==(const UnitRun&, const UnitRun&) = default;
};

class UnitMap {
 public:
  // Pages come from the smallest run that fits, at its low end; parts of the catalogue, which stay
  // for good, from the highest run that fits, at its high end. So they do not split the room that
  // pages are cut from again and again.
  enum class Place : uint8_t { kBestFit, kHighest };

  // Nothing is free yet; runs are at most units / 2 at any moment.
  explicit UnitMap(uint64_t units) : units_(units) {}

  // nullopt: no run of `count` units is free; nothing changed. REQUIRES: count > 0.
  std::optional<UnitRun> Take(uint64_t count, Place place);
  // REQUIRES: every unit of the run is taken, and below units().
  void Release(UnitRun run);

  uint64_t units() const { return units_; }
  uint64_t free_units() const { return free_units_; }
  uint64_t largest_run() const { return by_count_.empty() ? 0 : by_count_.rbegin()->first; }
  std::vector<UnitRun> FreeRuns() const;

 private:
  using Runs = std::map<uint64_t, uint64_t>;  // first unit -> count

  Runs::iterator Find(uint64_t count, Place place);
  Runs::iterator Insert(UnitRun run);
  void Erase(Runs::iterator run);

  uint64_t units_;
  uint64_t free_units_ = 0;
  Runs by_first_;
  std::set<std::pair<uint64_t, uint64_t>> by_count_;  // (count, first): the same runs
};

}  // namespace maru::pool
