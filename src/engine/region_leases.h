// Leases of clients of the metadata protocol over their regions: which are held, until when, and
// which have lapsed. A lease is in here as long as it has a region that its client owns.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/ids.h"

namespace maru::engine {

class RegionLeases {
 public:
  // Instance id, lease id: clients draw their lease ids by themselves.
  using Key = std::pair<std::string, std::string>;
  // Leases that have lapsed and are remembered, so that their clients can be told.
  static constexpr size_t kLapsedMax = 4096;

  bool Lapsed(const Key& key) const { return lapsed_.contains(key); }
  // Its regions; nullptr: not held.
  const std::set<RegionId>* Find(const Key& key) const;
  void Add(const Key& key, RegionId region, uint64_t ends_ns);
  // REQUIRES: held.
  void Renew(const Key& key, uint64_t ends_ns);
  // The region is not the lease's any more; the lease goes with its last one.
  void Remove(const Key& key, RegionId region);
  // A lease that has ended by then, remembered as lapsed from now on; nullopt: none.
  std::optional<Key> Lapse(uint64_t now_ns);
  uint64_t next_end_ns() const { return ends_.empty() ? 0 : ends_.begin()->first; }

 private:
  struct Lease {
    uint64_t ends_ns = 0;
    std::set<RegionId> regions;
  };
  std::map<Key, Lease> held_;
  std::set<std::pair<uint64_t, Key>> ends_;  // of those that are held
  std::set<Key> lapsed_;
  std::deque<Key> lapsed_order_;  // the oldest first
};

}  // namespace maru::engine
