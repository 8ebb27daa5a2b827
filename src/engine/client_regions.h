// The client-cut regions of one pool and the extents in them, as the engine keeps them: which
// records are LIVE where, and how many bytes. A region that nobody owns goes when its last extent
// has gone, and not before readers without leases are done with what they were told of in it.
//
// Heap: one map node (64 bytes) for each LIVE extent. Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "pool/pool.h"

namespace maru::engine {

// What clients of one metadata endpoint have, over all pools: counted as it changes, so that
// showing it takes no scan.
struct RegionUsage {
  struct Instance {
    uint64_t regions = 0, allocated_bytes = 0, used_bytes = 0;
    uint64_t owned_regions = 0;
    std::map<std::string, uint64_t> devices;  // by pool name: allocated bytes
  };
  std::map<std::string, Instance, std::less<>> instances;  // each has a region
  uint64_t regions = 0, allocated_bytes = 0;
  uint64_t active_instances = 0;  // that own a region
};

using RegionUsages = std::map<uint64_t, RegionUsage>;  // by endpoint; each has a region

class ClientRegions {
 public:
  struct Region {
    pool::Pool::ClientRegion cut;
    std::map<uint64_t, RecordNumber> extents;  // LIVE, by offset within the region
    uint64_t live_bytes = 0;
    uint64_t condemned = 0;                  // extents that wait for their last lease
    uint64_t registered = 0;                 // extents that came, found at the start or since
    RegionUsage::Instance* usage = nullptr;  // of its instance; nullptr: it does not count

    bool owned() const { return cut.owner != ClientId(0); }
    bool idle() const { return !owned() && extents.empty() && condemned == 0; }
    // Its client has had its answer: keys were registered in it, as far as this server can know.
    bool used() const { return registered > 0 || condemned > 0 || cut.hold_until_unix_ns != 0; }
    // What the resource manager lent is no endpoint's.
    bool Serves(uint64_t endpoint) const {
      return cut.client.road != layout::RegionRoad::kMetadata || cut.client.endpoint == endpoint;
    }
  };

  // REQUIRES: both outlive this.
  ClientRegions(pool::Pool* pool, RegionUsages* usages) : pool_(pool), usages_(usages) {}

  Region& Add(const pool::Pool::ClientRegion& cut);
  // nullptr: no client-cut region of the pool is that.
  Region* BySlot(RegionSlot slot);
  Region* ById(RegionId id);
  const std::map<RegionSlot, std::unique_ptr<Region>>& all() const { return regions_; }
  uint64_t extents() const { return extents_; }  // LIVE ones
  uint64_t live_bytes() const { return live_bytes_; }

  // The LIVE records whose extents share bytes with [begin, end) of the region, the first count_max
  // of them.
  std::vector<RecordNumber> Overlapping(const Region& region, uint64_t begin, uint64_t end,
                                        size_t count_max) const;

  // --- What happens to an extent. REQUIRES: its record names one of the regions.
  Region& Of(RecordNumber record);
  const Region& Of(RecordNumber record) const {
    return const_cast<ClientRegions*>(this)->Of(record);
  }
  void BecameLive(RecordNumber record);
  void LeftLive(RecordNumber record);  // it is CONDEMNED, or about to be
  void BecameCondemned(RecordNumber record) { ++Of(record).condemned; }
  // `region`: of the record, before it was freed.
  void LeftCondemned(Region* region);

  // Bytes in it were told to a reader without leases: the region is not lent anew before.
  void Told(Region* region, uint64_t until_unix_ns);

  // From now on nobody's; it goes at once if it has no extents and nothing of it was told. The
  // region may be gone then. REQUIRES: owned.
  void EndOwner(Region* region);
  void DropIfIdle(Region* region);
  // Lets those go that wait for nothing else than the end of their hold, where that is over.
  // Returns when the next one's is, 0: none waits.
  uint64_t EndHolds(uint64_t now_unix_ns);

 private:
  const layout::PageRecord& Record(RecordNumber record) const;
  void Drop(Region* region);

  pool::Pool* pool_;
  RegionUsages* usages_;
  std::map<RegionSlot, std::unique_ptr<Region>> regions_;
  std::unordered_map<RegionId, Region*> by_id_;
  std::set<std::pair<uint64_t, RegionSlot>> held_;  // idle ones, by the end of their hold
  uint64_t extents_ = 0, live_bytes_ = 0;
};

}  // namespace maru::engine
