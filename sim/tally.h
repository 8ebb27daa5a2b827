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
  void Count(std::string_view what) {
    if (trace) std::printf("  %.*s\n", static_cast<int>(what.size()), what.data());
    const auto at = counts_.find(what);
    if (at != counts_.end()) {
      ++at->second;
    } else {
      counts_.emplace(std::string(what), 1);
    }
  }
  bool trace = false;  // say everything as it happens

  const std::map<std::string, uint64_t, std::less<>>& counts() const { return counts_; }

 private:
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace maru::sim
