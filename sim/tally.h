// How often each fault, operation, transition and publication point was taken, over all seeds of a
// run: a simulation that never went somewhere has proved nothing about it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

namespace maru::sim {

class Tally {
 public:
  using Counts = std::map<std::string, uint64_t, std::less<>>;

  void Count(std::string_view what) {
    if (trace) std::printf("  %.*s\n", static_cast<int>(what.size()), what.data());
    Add(what, 1);
  }
  void Add(std::string_view what, uint64_t times) {
    const auto at = counts_.find(what);
    if (at != counts_.end()) {
      at->second += times;
    } else {
      counts_.emplace(std::string(what), times);
    }
  }
  bool trace = false;  // say everything as it happens

  const Counts& counts() const { return counts_; }

 private:
  Counts counts_;
};

}  // namespace maru::sim
