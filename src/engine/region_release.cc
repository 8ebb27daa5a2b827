#include "engine/region_release.h"

#include <algorithm>
#include <map>

#include "base/log.h"
#include "engine/record_name.h"

namespace maru::engine {

using layout::RegionRoad;
using wire::ReleaseMode;
using wire::ReleaseVerdict;

bool RegionRelease::Owns(const Who& who, const ClientRegions::Region& region) {
  if (!region.owned()) return false;
  const pool::Pool::ClientCut& client = region.cut.client;
  if (client.road == RegionRoad::kResourceManager) {
    return ResourceManager::ClientIdOf(client) == who.rm_client_id;
  }
  return client.endpoint == who.endpoint && client.instance_id == who.instance_id;
}

bool RegionRelease::IsAsked(const wire::ReleaseRequest& request, const Who& who,
                            const ClientRegions::Region& region) {
  if (request.region == 0) return Owns(who, region);
  return region.owned() && region.Serves(who.endpoint) && region.cut.id.value() == request.region;
}

uint64_t RegionRelease::HoldMs(const ClientRegions::Region& region) const {
  constexpr uint64_t kMillisecondNs = 1'000'000;
  const uint64_t now_unix_ns = core_->NowUnix();
  const uint64_t until_unix_ns = std::max(region.cut.hold_until_unix_ns, now_unix_ns);
  return (until_unix_ns - now_unix_ns + kMillisecondNs - 1) / kMillisecondNs;
}

ReleaseVerdict RegionRelease::Judge(const Lending::Lent& lent, ReleaseMode mode) const {
  if (mode == ReleaseMode::kForce) return ReleaseVerdict::kReleased;
  const pool::Pool::ClientCut& client = lent.region->cut.client;
  if (client.road == RegionRoad::kResourceManager) {
    return resource_manager_->Connected(client) ? ReleaseVerdict::kConnected
                                                : ReleaseVerdict::kReleased;
  }
  return lending_->LeaseHeld(client) ? ReleaseVerdict::kLeased : ReleaseVerdict::kReleased;
}

void RegionRelease::End(const Lending::Lent& lent) const {
  if (lent.region->cut.client.road == RegionRoad::kResourceManager) {
    resource_manager_->Release(lent);
  } else {
    lending_->Release(lent);
  }
}

void RegionRelease::Release(const Client& client, const wire::ReleaseRequest& request,
                            wire::ReleaseReply* reply) const {
  const Who who = {RecordName(request.instance_id),
                   RecordName(request.instance_id, ResourceManager::kClientIdBytesMax),
                   client.name_space.seed()};
  std::map<RegionId, Lending::Lent> owned;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const auto& [slot, region] : stock->client_regions().all()) {
      if (region->cut.id.value() < request.from_region) continue;
      if (!IsAsked(request, who, *region)) continue;
      owned.emplace(region->cut.id, Lending::Lent{stock.get(), region.get()});
    }
  }
  uint64_t released = 0;
  for (const auto& [id, lent] : owned) {
    if (reply->items.size() == wire::kRegionsPerReleaseMax) {
      reply->next_region = id.value();
      break;
    }
    const ClientRegions::Region& region = *lent.region;
    const ReleaseVerdict verdict = Judge(lent, request.mode);
    reply->items.push_back({id, region.cut.length_bytes, region.extents.size(), region.condemned,
                            HoldMs(region), verdict});
    if (verdict != ReleaseVerdict::kReleased || request.mode == ReleaseMode::kTell) continue;
    End(lent);  // the region may be gone
    ++released;
  }
  if (released == 0) return;
  const std::string which =
      request.region != 0
          ? "region " + std::to_string(request.region) + " was"
          : std::to_string(released) + " regions of " + std::string(request.instance_id) + " were";
  LogInfo(which + " released by hand: no owner any more");
}

}  // namespace maru::engine
