// Leases of clients of the metadata protocol over their regions: which are held, until when, and
// which have lapsed. A lease is held as long as it has a region that its client owns.
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
#include <vector>

#include "base/ids.h"
#include "layout/frame.h"
#include "layout/geometry.h"

namespace maru::engine {

class RegionLeases {
 public:
  // Clients draw their lease ids by themselves, and clients of two endpoints know nothing of each
  // other. No instance id: a client need not tell it when it renews its lease.
  struct Key {
    std::string lease_id;
    uint64_t endpoint = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // As pools remember it (docs/formats/superblock.md), never 0.
  static uint64_t NumberOf(const Key& key);
  // Leases that have lapsed and are remembered, so that their clients can be told.
  static constexpr size_t kLapsedMax = layout::kPoolsMax * layout::kLapsedLeases;

  bool Lapsed(const Key& key) const { return lapsed_.contains(NumberOf(key)); }
  // The oldest are forgotten beyond kLapsedMax.
  void SetLapsed(uint64_t number);
  // Its regions; nullptr: not held.
  const std::set<RegionId>* Find(const Key& key) const;
  void Add(const Key& key, RegionId region, uint64_t ends_ns);
  // REQUIRES: held.
  void Renew(const Key& key, uint64_t ends_ns);
  // The region is not the lease's any more; the lease goes with its last one.
  void Remove(const Key& key, RegionId region);
  // A lease whose time is over by then, told once unless it is renewed; nullopt: none.
  std::optional<Key> TakeOverdue(uint64_t now_ns);
  // Of the endpoint's clients, until when.
  std::vector<std::pair<Key, uint64_t>> HeldOf(uint64_t endpoint) const;
  // Moves all ends.
  void Delay(uint64_t by_ns);
  uint64_t next_end_ns() const { return ends_.empty() ? 0 : ends_.begin()->first; }

 private:
  struct Lease {
    uint64_t ends_ns = 0;
    std::set<RegionId> regions;
  };
  std::map<Key, Lease> held_;
  std::set<std::pair<uint64_t, Key>> ends_;  // of those that are held
  std::set<uint64_t> lapsed_;
  std::deque<uint64_t> lapsed_order_;  // the oldest first
};

}  // namespace maru::engine
