#include "engine/lending.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"

namespace maru::engine {

Result<Lending::Lent> Lending::Request(uint64_t bytes, const pool::Pool::ClientCut& client,
                                       std::span<const std::string> only, uint64_t lease_ns) {
  pool::Pool::ClientCut cut = client;
  if (Leased(client)) {
    if (core_->region_leases.Lapsed(LeaseOf(client))) {
      ++core_->counters.client_regions_refused;
      return FailedPrecondition("lease " + client.lease_id +
                                " has ended: a region needs a new one");
    }
    cut.lease_deadline_unix_ns = core_->NowUnix() + lease_ns;
  }
  uint64_t largest = 0;
  Status refused;
  for (const Effort effort : {Effort::kTake, Effort::kMakeRoom}) {
    for (const std::unique_ptr<Stock>& stock : core_->stocks) {
      if (!only.empty() && std::ranges::find(only, stock->pool().name()) == only.end()) continue;
      largest = std::max(largest, stock->pool().view().bytes());
      const Result<ClientRegions::Region*> region = Cut(stock.get(), bytes, cut, effort);
      if (!region.ok()) {
        if (refused.ok()) refused = region.status();
        continue;
      }
      ++core_->counters.client_regions_cut;
      if (Leased(cut)) {
        core_->region_leases.Add(LeaseOf(cut), (*region)->cut.id, core_->now_ns + lease_ns);
      }
      return Lent{stock.get(), *region};
    }
    if (refused.code() != StatusCode::kResourceExhausted || bytes > largest) break;
  }
  ++core_->counters.client_regions_refused;
  if (refused.ok()) return NotFound("no pool is served from " + only.front());
  if (refused.code() == StatusCode::kResourceExhausted && bytes > largest) {
    return InvalidArgument("no pool is as large as " + std::to_string(bytes) + " bytes");
  }
  return refused;
}

Result<ClientRegions::Region*> Lending::Cut(Stock* stock, uint64_t bytes,
                                            const pool::Pool::ClientCut& cut, Effort effort) {
  if (effort == Effort::kTake || bytes > stock->pool().view().bytes()) {
    return stock->CutForClient(bytes, cut);
  }
  room_->FreeIdle(stock);
  Result<ClientRegions::Region*> region = stock->CutForClient(bytes, cut);
  // Once more: the catalogue may have to keep of what was made free.
  for (int round = 0; !region.ok() && round < kRoomRoundsMax; ++round) {
    const uint64_t wanted = round == 0 ? bytes : layout::kUnitBytes;
    if (!room_->Empty(stock, AlignUp(wanted, layout::kUnitBytes))) break;
    region = stock->CutForClient(bytes, cut);
  }
  return region;
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

void Lending::StartLease(const Lent& lent, uint64_t lease_ns) {
  const uint64_t ends_unix_ns = core_->NowUnix() + lease_ns;
  lent.region->cut.client.lease_deadline_unix_ns = ends_unix_ns;
  lent.stock->pool().SetLeaseDeadline(lent.region->cut.slot, ends_unix_ns);
}

Lending::LeaseState Lending::Heartbeat(const RegionLeases::Key& key, Beat beat, uint64_t lease_ns) {
  if (core_->region_leases.Lapsed(key)) return LeaseState::kLapsed;
  const std::set<RegionId>* const held = core_->region_leases.Find(key);
  if (held == nullptr) {
    // Without a region there is nothing to hold. But a lease that this server never lent to may
    // have lapsed under the one before, with regions that are others' by now.
    const bool may_have_lapsed = had_predecessor_ && !core_->region_leases.GivenBack(key);
    return may_have_lapsed && beat != Beat::kRelease ? LeaseState::kLapsed : LeaseState::kHeld;
  }
  if (beat == Beat::kRelease) {
    EndAll(key, Why::kGivenBack);
    return LeaseState::kHeld;
  }
  for (const RegionId id : *held) {
    StartLease(Find(id.value()), lease_ns);
  }
  core_->region_leases.Renew(key, core_->now_ns + lease_ns);
  return LeaseState::kHeld;
}

uint64_t Lending::EndLapsed() {
  // Each turn takes one out of those that are held.
  while (const std::optional<RegionLeases::Key> key = core_->region_leases.Lapse(core_->now_ns)) {
    LogWarning("lease " + key->lease_id + " of " + key->instance_id +
               " was not renewed: its regions have no owner any more");
    EndAll(*key, Why::kLapsed);
  }
  return core_->region_leases.next_end_ns();
}

void Lending::TakeOver() {
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    // Relaxed: only servers, one after the other, count. This start is one of them.
    const uint64_t starts = stock->pool().view().root().starts.load(std::memory_order_relaxed);
    had_predecessor_ |= starts > 1 && !stock->pool().new_boot();
    for (const auto& [slot, region] : stock->client_regions().all()) {
      const pool::Pool::ClientCut& client = region->cut.client;
      if (!Leased(client)) continue;
      if (!region->owned()) {
        if (client.lease_deadline_unix_ns != 0) core_->region_leases.SetLapsed(LeaseOf(client));
        continue;
      }
      // The record does not say how long its client's leases are: a long one keeps what is left.
      const uint64_t now_unix_ns = core_->NowUnix();
      const uint64_t left_ns =
          client.lease_deadline_unix_ns - std::min(client.lease_deadline_unix_ns, now_unix_ns);
      const uint64_t lease_ns =
          std::max(core_->options.region_lease_ns, std::min(left_ns, kLeaseNsMax));
      core_->region_leases.Add(LeaseOf(client), region->cut.id, core_->now_ns + lease_ns);
      StartLease({stock.get(), region.get()}, lease_ns);
    }
  }
}

}  // namespace maru::engine
