// How often each fault, operation, transition and publication point was taken, over all seeds of a
// run: a simulation that never went somewhere has proved nothing about it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace maru::sim {

class Tally {
 public:
  void Count(std::string_view what) {
    const auto at = counts_.find(what);
    if (at != counts_.end()) {
      ++at->second;
    } else {
      counts_.emplace(std::string(what), 1);
    }
  }
  const std::map<std::string, uint64_t, std::less<>>& counts() const { return counts_; }

 private:
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace maru::sim
