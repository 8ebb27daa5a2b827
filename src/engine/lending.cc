#include "engine/lending.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"

namespace maru::engine {

using State = AskedRegion::State;

Status Lending::LapsedStatus(const pool::Pool::ClientCut& client) const {
  if (!Leased(client) || !core_->region_leases.Lapsed(LeaseOf(client))) return OkStatus();
  return FailedPrecondition("lease " + client.lease_id + " has ended: a region needs a new one");
}

Result<uint64_t> Lending::Ask(uint64_t bytes, const pool::Pool::ClientCut& client,
                              std::span<const std::string> only, uint64_t lease_ns) {
  AskedRegions& asked = core_->asked_regions;
  Status status = LapsedStatus(client);
  if (status.ok() && asked.all.size() >= AskedRegions::kAskedMax) {
    status = ResourceExhausted(std::to_string(asked.all.size()) + " regions are being cut already");
  }
  if (!status.ok()) {
    ++core_->counters.client_regions_refused;
    return status;
  }
  AskedRegion& region = asked.all[asked.next];
  region.bytes = bytes;
  region.client = client;
  region.only.assign(only.begin(), only.end());
  region.pools = PoolsToLookIn(region.only);
  region.lease_ns = lease_ns;
  return asked.next++;
}

std::optional<Result<Lending::Lent>> Lending::GoOn(uint64_t number) {
  const auto at = core_->asked_regions.all.find(number);
  MARU_CHECK(at != core_->asked_regions.all.end())
      << "region " << number << " is asked for by none";
  AskedRegion& asked = at->second;
  std::optional<Result<Lent>> lent;
  if (asked.state == State::kSearching && !FindRoom(&asked)) {
    lent = Refusal(asked);
  } else {
    pool::Pool& pool = StockOf(asked)->pool();
    if (asked.state == State::kUndoing) {
      if (pool.UndoClientCut(&asked.cutting, kUnitsPerStep)) asked.state = State::kSearching;
      return std::nullopt;
    }
    if (Status status = pool.ContinueClientCut(&asked.cutting, kUnitsPerStep); !status.ok()) {
      if (asked.refused.ok()) asked.refused = status;
      asked.state = State::kUndoing;
      return std::nullopt;
    }
    if (!asked.cutting.reserved()) return std::nullopt;
    lent = Lend(&asked);
  }
  ++(lent->ok() ? core_->counters.client_regions_cut : core_->counters.client_regions_refused);
  core_->asked_regions.all.erase(at);
  return lent;
}

void Lending::GiveUp(uint64_t number) {
  const auto at = core_->asked_regions.all.find(number);
  MARU_CHECK(at != core_->asked_regions.all.end())
      << "region " << number << " is asked for by none";
  const AskedRegion& asked = at->second;
  if (asked.state != State::kSearching) {
    StockOf(asked)->pool().GiveUpClientCut(asked.cutting);
  }
  core_->asked_regions.all.erase(at);
}

std::vector<size_t> Lending::PoolsToLookIn(const std::vector<std::string>& only) const {
  std::vector<size_t> pools;
  const auto add = [&](size_t pool) {
    if (std::ranges::find(pools, pool) == pools.end()) pools.push_back(pool);
  };
  for (size_t i = 0; only.empty() && i < core_->stocks.size(); ++i) add(i);
  for (const std::string& name : only) {
    for (size_t i = 0; i < core_->stocks.size(); ++i) {
      if (core_->stocks[i]->pool().name() == name) add(i);
    }
  }
  return pools;
}

Stock* Lending::StockOf(const AskedRegion& asked) const {
  return core_->stocks[asked.pools[asked.at]].get();
}

bool Lending::FindRoom(AskedRegion* asked) {
  while (true) {
    if (asked->at == asked->pools.size()) {
      const bool full = asked->refused.code() == StatusCode::kResourceExhausted;
      if (asked->effort == AskedRegion::Effort::kMakeRoom || !full ||
          asked->bytes > asked->largest_pool) {
        return false;
      }
      asked->effort = AskedRegion::Effort::kMakeRoom;
      asked->at = 0;
      asked->tries = 0;
      continue;
    }
    Stock* const stock = StockOf(*asked);
    if (!PrepareTry(asked, stock)) {
      ++asked->at;
      asked->tries = 0;
      continue;
    }
    Result<pool::Pool::ClientCutting> begun =
        stock->pool().BeginClientCut(asked->bytes, asked->client);
    if (begun.ok()) {
      asked->cutting = *std::move(begun);
      asked->state = State::kReserving;
      return true;
    }
    if (asked->refused.ok()) asked->refused = begun.status();
  }
}

bool Lending::PrepareTry(AskedRegion* asked, Stock* stock) {
  const uint64_t pool_bytes = stock->pool().view().bytes();
  asked->largest_pool = std::max(asked->largest_pool, pool_bytes);
  const int before = asked->tries++;
  const bool makes_room =
      asked->effort == AskedRegion::Effort::kMakeRoom && asked->bytes <= pool_bytes;
  if (before == 0) {
    if (makes_room) room_->FreeIdle(stock);
    return true;
  }
  if (!makes_room || before > kRoomRoundsMax) return false;
  // Once more where a reader came to hold a key meanwhile.
  return room_->Empty(stock, asked->bytes);
}

Result<Lending::Lent> Lending::Lend(AskedRegion* asked) {
  Stock* const stock = StockOf(*asked);
  pool::Pool::ClientCut& client = asked->client;
  // It may have ended meanwhile.
  if (Status status = LapsedStatus(client); !status.ok()) {
    stock->pool().GiveUpClientCut(asked->cutting);
    return status;
  }
  const bool leased = Leased(client);
  if (leased) client.lease_deadline_unix_ns = core_->NowUnix() + asked->lease_ns;
  MARU_ASSIGN_OR_RETURN(ClientRegions::Region* const region,
                        stock->EndClientCut(asked->cutting, client));
  if (leased) {
    core_->region_leases.Add(LeaseOf(client), region->cut.id, core_->now_ns + asked->lease_ns);
  }
  return Lent{stock, region};
}

Status Lending::Refusal(const AskedRegion& asked) const {
  if (asked.refused.ok()) return NotFound("no pool is served from " + asked.only.front());
  if (asked.refused.code() == StatusCode::kResourceExhausted && asked.bytes > asked.largest_pool) {
    return InvalidArgument("no pool is as large as " + std::to_string(asked.bytes) + " bytes");
  }
  const std::string left = LeftBehind() + OnHold();
  if (asked.refused.code() != StatusCode::kResourceExhausted || left.empty()) return asked.refused;
  return ResourceExhausted(std::string(asked.refused.message()) + left);
}

template <typename Kept>
Lending::Sum Lending::SumOf(const Kept& kept) const {
  Sum sum;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const auto& [slot, region] : stock->client_regions().all()) {
      if (!kept(*region)) continue;
      ++sum.regions;
      sum.bytes += region->cut.length_bytes;
      sum.first_hold_unix_ns = std::min(sum.first_hold_unix_ns, region->cut.hold_until_unix_ns);
    }
  }
  return sum;
}

std::string Lending::Sum::Text() const {
  return FormatSizeExact(bytes) + " (" + std::to_string(regions) +
         (regions == 1 ? " region)" : " regions)");
}

std::string Lending::LeftBehind() const {
  const Sum sum = SumOf([](const ClientRegions::Region& region) {
    return !region.owned() && !region.extents.empty();
  });
  if (sum.regions == 0) return "";
  return "; keys of clients that have gone keep " + sum.Text() +
         ": delete them to have the room back";
}

std::string Lending::OnHold() const {
  const Sum sum = SumOf([](const ClientRegions::Region& region) { return region.idle(); });
  if (sum.regions == 0) return "";
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const uint64_t left_ns =
      sum.first_hold_unix_ns - std::min(sum.first_hold_unix_ns, core_->NowUnix());
  return "; " + sum.Text() +
         " was given back and is on hold, for readers without leases that were told of keys there"
         " (--wire-hold): the first for " +
         std::to_string((left_ns + kSecondNs - 1) / kSecondNs) + " s";
}

const AskedRegion* Lending::AskedUnder(const RegionLeases::Key& key) const {
  for (const auto& [number, asked] : core_->asked_regions.all) {
    if (Leased(asked.client) && LeaseOf(asked.client) == key) return &asked;
  }
  return nullptr;
}

Lending::Lent Lending::Find(uint64_t id) const {
  if (id > layout::kRegionIdMax) return {};
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    ClientRegions::Region* const region =
        stock->client_regions().ById(RegionId(static_cast<uint32_t>(id)));
    if (region != nullptr) return {stock.get(), region};
  }
  return {};
}

Status Lending::Return(uint64_t id, std::string_view instance_id, uint64_t endpoint) {
  const Lent lent = Find(id);
  const bool own = lent.region != nullptr && lent.region->owned() &&
                   lent.region->cut.client.road == layout::RegionRoad::kMetadata &&
                   lent.region->Serves(endpoint) &&
                   lent.region->cut.client.instance_id == instance_id;
  if (!own) {
    return NotFound("instance " + std::string(instance_id) + " has no region " +
                    std::to_string(id));
  }
  GiveBack(lent);
  return OkStatus();
}

bool Lending::LeaseHeld(const pool::Pool::ClientCut& client) const {
  return Leased(client) && core_->region_leases.Find(LeaseOf(client)) != nullptr;
}

void Lending::Release(const Lent& lent) {
  const pool::Pool::ClientCut& client = lent.region->cut.client;
  if (!LeaseHeld(client)) return GiveBack(lent);
  SetLapsed(LeaseOf(client));
  End(lent);
}

void Lending::GiveBack(const Lent& lent) {
  // Without a time: a later server knows that its lease has not lapsed.
  lent.stock->pool().SetLeaseDeadline(lent.region->cut.slot, 0);
  End(lent);
}

void Lending::End(const Lent& lent) {
  const pool::Pool::ClientCut& client = lent.region->cut.client;
  if (Leased(client)) core_->region_leases.Remove(LeaseOf(client), lent.region->cut.id);
  ++core_->counters.client_regions_ended;
  lent.stock->client_regions().EndOwner(lent.region);
  lent.stock->client_regions().EndHolds(core_->NowUnix());
}

void Lending::SetLapsed(const RegionLeases::Key& key) {
  if (core_->region_leases.Lapsed(key)) return;
  const uint64_t number = RegionLeases::NumberOf(key);
  std::set<Stock*> stocks;
  for (const RegionId id : *core_->region_leases.Find(key)) stocks.insert(Find(id.value()).stock);
  for (Stock* const stock : stocks) stock->pool().RememberLapsed(number);
  core_->region_leases.SetLapsed(number);
}

void Lending::EndAll(const RegionLeases::Key& key, Why why) {
  const std::set<RegionId>* const held = core_->region_leases.Find(key);
  if (held == nullptr) return;
  // A copy: each end takes one out.
  const std::vector<RegionId> regions(held->begin(), held->end());
  for (const RegionId id : regions) {
    if (why == Why::kGivenBack) {
      GiveBack(Find(id.value()));
    } else {
      End(Find(id.value()));
    }
  }
}

void Lending::SetDeadline(const Lent& lent, uint64_t unix_ns) {
  lent.region->cut.client.lease_deadline_unix_ns = unix_ns;
  lent.stock->pool().SetLeaseDeadline(lent.region->cut.slot, unix_ns);
}

void Lending::StartLease(const Lent& lent, uint64_t lease_ns) {
  SetDeadline(lent, core_->NowUnix() + lease_ns);
}

Lending::LeaseState Lending::Heartbeat(const RegionLeases::Key& key, Beat beat, uint64_t lease_ns) {
  if (core_->region_leases.Lapsed(key)) return LeaseState::kLapsed;
  const std::set<RegionId>* const held = core_->region_leases.Find(key);
  if (held == nullptr) return LeaseState::kHeld;  // without a region there is nothing to lapse
  if (beat == Beat::kRelease) {
    EndAll(key, Why::kGivenBack);
    return LeaseState::kHeld;
  }
  Renew(key, lease_ns);
  return LeaseState::kHeld;
}

void Lending::Renew(const RegionLeases::Key& key, uint64_t lease_ns) {
  for (const RegionId id : *core_->region_leases.Find(key)) {
    StartLease(Find(id.value()), lease_ns);
  }
  core_->region_leases.Renew(key, core_->now_ns + lease_ns);
}

uint64_t Lending::EndLapsed() {
  // Each turn takes one out of those that are held, or renews it.
  RegionLeases& leases = core_->region_leases;
  while (const std::optional<RegionLeases::Key> key = leases.TakeOverdue(core_->now_ns)) {
    // Its client waits for us: it may not be able to say that it lives.
    if (const AskedRegion* const asked = AskedUnder(*key)) {
      Renew(*key, asked->lease_ns);
      continue;
    }
    const Lent first = Find(leases.Find(*key)->begin()->value());
    LogWarning("lease " + key->lease_id + " of " + first.region->cut.client.instance_id +
               " was not renewed: its regions have no owner any more");
    SetLapsed(*key);
    EndAll(*key, Why::kLapsed);
  }
  return core_->region_leases.next_end_ns();
}

std::vector<Lending::Lent> Lending::LeasedAt(uint64_t endpoint) const {
  std::vector<Lent> leased;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const auto& [slot, region] : stock->client_regions().all()) {
      const pool::Pool::ClientCut& client = region->cut.client;
      if (region->owned() && Leased(client) && client.endpoint == endpoint) {
        leased.push_back({stock.get(), region.get()});
      }
    }
  }
  return leased;
}

void Lending::SetAside(uint64_t endpoint) {
  for (const Lent& lent : LeasedAt(endpoint)) {
    core_->region_leases.Remove(LeaseOf(lent.region->cut.client), lent.region->cut.id);
    SetDeadline(lent, 0);
  }
}

void Lending::StartAnew(uint64_t endpoint) {
  for (const Lent& lent : LeasedAt(endpoint)) {
    const RegionLeases::Key key = LeaseOf(lent.region->cut.client);
    const std::set<RegionId>* const held = core_->region_leases.Find(key);
    if (held != nullptr && held->contains(lent.region->cut.id)) continue;
    core_->region_leases.Add(key, lent.region->cut.id, core_->now_ns);  // set aside before
  }
  for (const auto& [key, ends_ns] : core_->region_leases.HeldOf(endpoint)) {
    const uint64_t left_ns = ends_ns - std::min(ends_ns, core_->now_ns);
    Renew(key, std::max(core_->options.region_lease_ns, left_ns));
  }
}

void Lending::TakeOver() {
  RegionLeases& leases = core_->region_leases;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const uint64_t number : stock->pool().LapsedLeases()) leases.SetLapsed(number);
  }
  std::vector<Lent> over;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const auto& [slot, region] : stock->client_regions().all()) {
      if (Leased(region->cut.client)) TakeOver({stock.get(), region.get()}, &over);
    }
  }
  for (const Lent& lent : over) {
    const uint64_t number = RegionLeases::NumberOf(LeaseOf(lent.region->cut.client));
    pool::Pool& pool = lent.stock->pool();
    const std::vector<uint64_t> known = pool.LapsedLeases();
    if (std::ranges::find(known, number) == known.end()) pool.RememberLapsed(number);
    End(lent);
  }
}

void Lending::TakeOver(const Lent& lent, std::vector<Lent>* over) {
  const pool::Pool::ClientCut& client = lent.region->cut.client;
  const RegionLeases::Key key = LeaseOf(client);
  if (!lent.region->owned()) {
    // With a time it was not given back. The pool remembers others by now, its keys remember it.
    if (client.lease_deadline_unix_ns != 0) {
      core_->region_leases.SetLapsed(RegionLeases::NumberOf(key));
    }
    return;
  }
  if (core_->region_leases.Lapsed(key)) {  // the server before ended in between
    over->push_back(lent);
    return;
  }
  // The record does not say how long its client's leases are: a long one keeps what is left.
  const uint64_t now_unix_ns = core_->NowUnix();
  const uint64_t left_ns =
      client.lease_deadline_unix_ns - std::min(client.lease_deadline_unix_ns, now_unix_ns);
  const uint64_t lease_ns =
      std::max(core_->options.region_lease_ns, std::min(left_ns, kLeaseNsMax));
  core_->region_leases.Add(key, lent.region->cut.id, core_->now_ns + lease_ns);
  StartLease(lent, lease_ns);
}

}  // namespace maru::engine
