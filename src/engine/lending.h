// Regions lent to clients of upstream's protocols, which cut them by themselves: asked for, given
// back, held by leases, taken over by a new server. A region that is not owned any more goes with
// its last extent (ClientRegions).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/client_room.h"
#include "engine/core.h"

namespace maru::engine {

class Lending {
 public:
  // A clock that was set says nothing beyond it.
  static constexpr uint64_t kLeaseNsMax = 86'400'000'000'000;
  // How often one request makes room.
  static constexpr int kRoomRoundsMax = 4;

  Lending(Core* core, ClientRoom* room) : core_(core), room_(room) {}

  struct Lent {
    Stock* stock = nullptr;  // nullptr: no client-cut region is that
    ClientRegions::Region* region = nullptr;
  };
  // From the first pool that has the room, of those of that name if any is named; when none has,
  // from the first that can make it. InvalidArgument: no pool is so large, or the client's names
  // are no names; ResourceExhausted: no room now; NotFound: no pool has any of those names;
  // FailedPrecondition: its lease has lapsed. A client with a lease holds it for lease_ns from now
  // on.
  Result<Lent> Request(uint64_t bytes, const pool::Pool::ClientCut& client,
                       std::span<const std::string> only = {}, uint64_t lease_ns = 0);
  // `id`: as it came over the wire.
  Lent Find(uint64_t id) const;
  // NotFound: the endpoint's instance owns no such region.
  Status Return(uint64_t id, std::string_view instance_id, uint64_t endpoint);
  // REQUIRES: owned. The region may be gone then.
  void End(const Lent& lent);

  enum class Beat : uint8_t { kRenew, kRelease };
  enum class LeaseState : uint8_t { kHeld, kLapsed };
  LeaseState Heartbeat(const RegionLeases::Key& lease, Beat beat, uint64_t lease_ns);
  // Ends what is not renewed in time. Returns when the next lease ends, 0: none is held.
  uint64_t EndLapsed();

  // Nobody was served for so long: that time counts against no lease.
  void NotServed(uint64_t pause_ns) { core_->region_leases.Delay(pause_ns); }

  // At the start of a server: the time of each lease starts anew, with what was left of one that is
  // longer. A lease that had lapsed stays so as far as a region tells of it.
  void TakeOver();

 private:
  static RegionLeases::Key LeaseOf(const pool::Pool::ClientCut& client) {
    return {client.instance_id, client.lease_id, client.endpoint};
  }
  static bool Leased(const pool::Pool::ClientCut& client) {
    return client.road == layout::RegionRoad::kMetadata && !client.lease_id.empty();
  }
  enum class Why : uint8_t { kLapsed, kGivenBack };
  void EndAll(const RegionLeases::Key& key, Why why);
  void GiveBack(const Lent& lent);
  // For people; the time itself is in region_leases.
  void StartLease(const Lent& lent, uint64_t lease_ns);

  // In a pool that is full as well, as far as its pages may go (ClientRoom).
  enum class Effort : uint8_t { kTake, kMakeRoom };
  Result<ClientRegions::Region*> Cut(Stock* stock, uint64_t bytes, const pool::Pool::ClientCut& cut,
                                     Effort effort);

  Core* core_;
  ClientRoom* room_;
  // Another server lent from the pools before, to clients that may live.
  bool had_predecessor_ = false;
};

}  // namespace maru::engine
