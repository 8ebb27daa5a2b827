#pragma once

// For tests only: work that ends at a point that it passes, as its process would when it dies
// there, and the rounds that end it at each. Points are those of base/sequence_point.h.

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "base/sequence_point.h"

namespace maru {

class CrashPoint {
 public:
  // AT: how many points are passed before. MET has the names of all that are met, and must outlive
  // this.
  CrashPoint(int at, std::set<std::string>* met) : at_(at), met_(met) {}

  // Runs WORK, which ends at the point when it comes there; all runs count together. Whether it
  // came to its own end.
  template <typename Work>
  bool Run(const Work& work) {
    const ScopedHook hook([this](std::string_view name) {
      met_->emplace(name);
      if (passed_++ == at_) throw Crash();
    });
    try {
      work();
    } catch (const Crash&) {
      crashed_ = true;
      return false;
    }
    return true;
  }
  // Whether one of the runs has ended at the point.
  bool crashed() const { return crashed_; }
  int passed() const { return passed_; }

 private:
  struct Crash {};

  const int at_;
  std::set<std::string>* const met_;
  int passed_ = 0;
  bool crashed_ = false;
};

// Calls ROUND(CrashPoint&) with the first point that its runs pass, the second and so on; the last
// time none of them ends early. A fatal failure ends it. Returns the names of the points met.
template <typename Round>
std::set<std::string> CrashAtEachPoint(const Round& round) {
  std::set<std::string> met;
  bool crashed = true;
  for (int at = 0; crashed && !testing::Test::HasFatalFailure(); ++at) {
    SCOPED_TRACE("crash at point " + std::to_string(at));
    CrashPoint point(at, &met);
    round(point);
    crashed = point.crashed();
  }
  return met;
}

inline void ExpectMet(const std::set<std::string>& met, std::initializer_list<const char*> points) {
  for (const char* const point : points) EXPECT_TRUE(met.contains(point)) << point;
}

}  // namespace maru
