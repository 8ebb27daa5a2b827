#include "engine/region_leases.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/hash.h"

namespace maru::engine {

const std::set<RegionId>* RegionLeases::Find(const Key& key) const {
  const auto found = held_.find(key);
  return found == held_.end() ? nullptr : &found->second.regions;
}

void RegionLeases::Add(const Key& key, RegionId region, uint64_t ends_ns) {
  held_[key].regions.insert(region);
  Renew(key, ends_ns);
}

void RegionLeases::Renew(const Key& key, uint64_t ends_ns) {
  const auto found = held_.find(key);
  MARU_CHECK(found != held_.end());
  ends_.erase({found->second.ends_ns, key});
  found->second.ends_ns = ends_ns;
  ends_.emplace(ends_ns, key);
}

void RegionLeases::Remove(const Key& key, RegionId region) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  found->second.regions.erase(region);
  if (!found->second.regions.empty()) return;
  ends_.erase({found->second.ends_ns, key});
  held_.erase(found);
}

std::vector<std::pair<RegionLeases::Key, uint64_t>> RegionLeases::HeldOf(uint64_t endpoint) const {
  std::vector<std::pair<Key, uint64_t>> held;
  for (const auto& [key, lease] : held_) {
    if (key.endpoint == endpoint) held.emplace_back(key, lease.ends_ns);
  }
  return held;
}

void RegionLeases::Delay(uint64_t by_ns) {
  ends_.clear();
  for (auto& [key, lease] : held_) {
    lease.ends_ns += by_ns;
    ends_.emplace(lease.ends_ns, key);
  }
}

uint64_t RegionLeases::NumberOf(const Key& key) {
  const uint64_t hash = HashBytes64(AsBytes(key.lease_id), key.endpoint);
  return hash == 0 ? 1 : hash;
}

void RegionLeases::SetLapsed(uint64_t number) {
  if (!lapsed_.insert(number).second) return;
  lapsed_order_.push_back(number);
  if (lapsed_order_.size() <= kLapsedMax) return;
  lapsed_.erase(lapsed_order_.front());
  lapsed_order_.pop_front();
}

std::optional<RegionLeases::Key> RegionLeases::TakeOverdue(uint64_t now_ns) {
  if (ends_.empty() || ends_.begin()->first > now_ns) return std::nullopt;
  Key key = ends_.begin()->second;
  // Not in the order of ends_ any more, whatever its regions do: each call makes progress.
  ends_.erase(ends_.begin());
  return key;
}

}  // namespace maru::engine
