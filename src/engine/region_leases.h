// Leases of clients of the metadata protocol over their regions: which are held, until when, and
// which have lapsed. A lease is in here as long as it has a region that its client owns.
//
// Single-threaded.
#pragma once

#include <compare>
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
  // Clients draw their lease ids by themselves, and clients of two endpoints know nothing of each
  // other.
  struct Key {
    std::string instance_id, lease_id;
    uint64_t endpoint = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Leases that have lapsed and are remembered, so that their clients can be told; as many again
  // whose clients gave all regions back.
  static constexpr size_t kEndedMax = 4096;

  bool Lapsed(const Key& key) const { return lapsed_.Contains(key); }
  void SetLapsed(const Key& key) { lapsed_.Add(key); }
  // This server lent to it, and all of it was given back.
  bool GivenBack(const Key& key) const { return given_back_.Contains(key); }
  // Its regions; nullptr: not held.
  const std::set<RegionId>* Find(const Key& key) const;
  void Add(const Key& key, RegionId region, uint64_t ends_ns);
  // REQUIRES: held.
  void Renew(const Key& key, uint64_t ends_ns);
  // The region is not the lease's any more; the lease goes with its last one.
  void Remove(const Key& key, RegionId region);
  // A lease that has ended by then, remembered as lapsed from now on; nullopt: none.
  std::optional<Key> Lapse(uint64_t now_ns);
  // Moves all ends.
  void Delay(uint64_t by_ns);
  uint64_t next_end_ns() const { return ends_.empty() ? 0 : ends_.begin()->first; }

 private:
  // The newest kEndedMax of those that were added.
  class Ended {
   public:
    bool Contains(const Key& key) const { return keys_.contains(key); }
    void Add(const Key& key);

   private:
    std::set<Key> keys_;
    std::deque<Key> order_;  // the oldest first
  };
  struct Lease {
    uint64_t ends_ns = 0;
    std::set<RegionId> regions;
  };
  std::map<Key, Lease> held_;
  std::set<std::pair<uint64_t, Key>> ends_;  // of those that are held
  Ended lapsed_, given_back_;
};

}  // namespace maru::engine
