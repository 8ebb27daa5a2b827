// Regions lent to clients of upstream's protocols, which cut them by themselves: asked for, given
// back, held by leases, taken over by a new server. A region that is not owned any more goes with
// its last extent (ClientRegions).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/client_room.h"
#include "engine/core.h"

namespace maru::engine {

class Lending {
 public:
  // A clock that was set says nothing beyond it.
  static constexpr uint64_t kLeaseNsMax = 86'400'000'000'000;
  // How often one request makes room.
  static constexpr int kRoomRoundsMax = 4;
  // Memory takes a millisecond or so a unit.
  static constexpr uint64_t kUnitsPerStep = 8;

  Lending(Core* core, ClientRoom* room) : core_(core), room_(room) {}

  struct Lent {
    Stock* stock = nullptr;  // nullptr: no client-cut region is that
    ClientRegions::Region* region = nullptr;
  };
  // A region is asked for, and gets its memory in steps, so that nobody else waits for all of it:
  // Ask gives it a number, each GoOn does a step, and the last one says what came of it.
  // FailedPrecondition, by either: its lease has lapsed. ResourceExhausted: too many are asked for.
  Result<uint64_t> Ask(uint64_t bytes, const pool::Pool::ClientCut& client,
                       std::span<const std::string> only = {}, uint64_t lease_ns = 0);
  // From the first pool that has the room, of those that are named if any is, in that order; when
  // none has, from the first that can make it. A pool that is refused memory gives back what it
  // got, and the search goes on. InvalidArgument: no pool is so large, or the client's names are no
  // names; ResourceExhausted: no room now; NotFound: no pool has any of those names. A client with
  // a lease holds it for lease_ns from the last step on. nullopt: there is more to do. Afterwards
  // the number is nobody's. REQUIRES: it is one's.
  std::optional<Result<Lent>> GoOn(uint64_t asked);
  // Who asked is gone: its units are free again. REQUIRES: as for GoOn.
  void GiveUp(uint64_t asked);
  // `id`: as it came over the wire.
  Lent Find(uint64_t id) const;
  // NotFound: the endpoint's instance owns no such region.
  Status Return(uint64_t id, std::string_view instance_id, uint64_t endpoint);
  // By hand, since the client is gone: like Return. A lease that is held has lapsed then, so that a
  // client that lives nevertheless is told. REQUIRES: owned, lent over the metadata protocol.
  void Release(const Lent& lent);
  // By a client that renews it, as far as its time tells.
  bool LeaseHeld(const pool::Pool::ClientCut& client) const;
  // REQUIRES: owned. The region may be gone then.
  void End(const Lent& lent);

  enum class Beat : uint8_t { kRenew, kRelease };
  enum class LeaseState : uint8_t { kHeld, kLapsed };
  LeaseState Heartbeat(const RegionLeases::Key& lease, Beat beat, uint64_t lease_ns);
  // Ends what is not renewed in time, but for leases under which a region is under way: their time
  // starts anew. Returns when the next lease ends, 0: none is held.
  uint64_t EndLapsed();

  // Nobody was served for so long: that time counts against no lease.
  void NotServed(uint64_t pause_ns) { core_->region_leases.Delay(pause_ns); }

  // The endpoint was opened or closed: meanwhile nobody can renew a lease at it. The time of each
  // starts anew, with options.region_lease_ns or what was left of one that is longer.
  void StartAnew(uint64_t endpoint);
  // The same, and its clients have no leases from now on: nobody renews those of before, so none of
  // them is held, and what they held stays its clients'. StartAnew takes them up again.
  void SetAside(uint64_t endpoint);
  // At the start of a server: so does that of every lease. A lease that had lapsed stays so, as far
  // as the pools remember.
  void TakeOver();

 private:
  static RegionLeases::Key LeaseOf(const pool::Pool::ClientCut& client) {
    return {client.lease_id, client.endpoint};
  }
  static bool Leased(const pool::Pool::ClientCut& client) {
    return client.road == layout::RegionRoad::kMetadata && !client.lease_id.empty();
  }
  enum class Why : uint8_t { kLapsed, kGivenBack };
  // In the pools first. REQUIRES: held.
  void SetLapsed(const RegionLeases::Key& key);
  void TakeOver(const Lent& lent, std::vector<Lent>* over);
  // Owned regions of the endpoint that were lent under a lease.
  std::vector<Lent> LeasedAt(uint64_t endpoint) const;
  void EndAll(const RegionLeases::Key& key, Why why);
  void GiveBack(const Lent& lent);
  // REQUIRES: held.
  void Renew(const RegionLeases::Key& key, uint64_t lease_ns);
  // For people; the time itself is in region_leases. 0: no lease holds it.
  void SetDeadline(const Lent& lent, uint64_t unix_ns);
  void StartLease(const Lent& lent, uint64_t lease_ns);

  Status LapsedStatus(const pool::Pool::ClientCut& client) const;
  // The named ones in that order, or all in the server's.
  std::vector<size_t> PoolsToLookIn(const std::vector<std::string>& only) const;
  // REQUIRES: its search is at one.
  Stock* StockOf(const AskedRegion& asked) const;
  // The next place to take it from, units of which are held then. False: there is none.
  bool FindRoom(AskedRegion* asked);
  // Whether it is worth a try, or another one, in that pool, which it makes room in.
  bool PrepareTry(AskedRegion* asked, Stock* stock);
  Result<Lent> Lend(AskedRegion* asked);
  // A region that is under way for that lease; nullptr: none.
  const AskedRegion* AskedUnder(const RegionLeases::Key& key) const;
  // Why there is none.
  Status Refusal(const AskedRegion& asked) const;
  // Regions of which an error tells.
  struct Sum {
    uint64_t regions = 0, bytes = 0, first_hold_unix_ns = UINT64_MAX;
    std::string Text() const;
  };
  template <typename Kept>
  Sum SumOf(const Kept& kept) const;
  // What clients that have gone keep by their keys, and what is kept for readers without leases, as
  // parts of an error; "" if nothing.
  std::string LeftBehind() const;
  std::string OnHold() const;

  Core* core_;
  ClientRoom* room_;
};

}  // namespace maru::engine
