// What clients of the metadata protocol report of themselves, summed by client and operation. All
// of it is bounded: what is beyond a bound is counted under "_other", and for all under "_all".
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/compat/metadata.h"

namespace maru::engine {

class StatsBook {
 public:
  static constexpr size_t kClientsMax = 256;
  static constexpr size_t kOperationsMax = 32;  // of one client
  static constexpr size_t kResultsMax = 8;      // of one operation

  void Add(const wire::compat::StatsEntry& entry);
  std::vector<wire::compat::ClientCounters> Show() const;

 private:
  struct Operation {
    uint64_t count = 0, size_bytes = 0;
    double latency_us = 0;
    std::map<std::string, uint64_t, std::less<>> results;
  };
  using Operations = std::map<std::string, Operation, std::less<>>;

  static void AddTo(Operations* operations, const wire::compat::StatsEntry& entry);

  Operations all_;
  std::map<std::string, Operations, std::less<>> clients_;
};

}  // namespace maru::engine
