// What clients of the metadata protocol report of themselves, summed by client and operation. All
// of it is bounded: a client that finds no place takes that of the one that reported least
// recently, whose sums are counted under "_other" from then on, as operations and results beyond a
// bound are; and all is counted under "_all".
//
// Sums stay at the largest number there is.
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
  // Of clients, operations and results together, each wherever it stands: what GET_STATS tells, in
  // one step and one reply.
  static constexpr size_t kNamesMax = 4096;
  static constexpr size_t kNameBytesMax = 128 * 1024;
  // With its sums, beside its own bytes; of a client and an operation with "_other" under it.
  static constexpr size_t kBytesPerNameMax = 128;
  static_assert(kNamesMax * kBytesPerNameMax + kNameBytesMax + 4096 <
                wire::compat::kStatsReplyBytesMax);

  void Add(const wire::compat::StatsEntry& entry);
  std::vector<wire::compat::ClientCounters> Show() const;

 private:
  struct Operation {
    uint64_t count = 0, size_bytes = 0;
    double latency_us = 0;
    std::map<std::string, uint64_t, std::less<>> results;
  };
  using Operations = std::map<std::string, Operation, std::less<>>;
  struct Client {
    Operations operations;
    uint64_t reported = 0;  // the larger, the later
  };

  bool Fits(std::string_view name) const {
    return names_ < kNamesMax && name_bytes_ + name.size() <= kNameBytesMax;
  }
  // The entry of that name, or the common one when there are `max` others.
  template <typename Value>
  Value& Place(std::map<std::string, Value, std::less<>>* places, std::string_view name,
               size_t max);
  void AddTo(Operations* operations, const wire::compat::StatsEntry& entry);
  // The client that reported least recently, if there is one, goes into the others' sums.
  bool MakePlace();
  void Forget(std::string_view name);
  void AddSums(Operations* to, const Operations& from);

  Operations all_, other_;
  std::map<std::string, Client, std::less<>> clients_;
  uint64_t reports_ = 0;
  size_t names_ = 0;  // with the common ones left out: there is one at most beside others
  size_t name_bytes_ = 0;
};

// One for each endpoint that anything was reported at.
class StatsBooks {
 public:
  // Endpoints come and go: beyond it the book that was written in least recently is forgotten.
  static constexpr size_t kBooksMax = 128;

  StatsBook& Of(uint64_t endpoint);
  std::vector<wire::compat::ClientCounters> Show(uint64_t endpoint) const;

 private:
  struct Shelved {
    StatsBook book;
    uint64_t written = 0;  // the larger, the later
  };
  std::map<uint64_t, Shelved> books_;
  uint64_t written_ = 0;
};

}  // namespace maru::engine
