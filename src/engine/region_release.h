// Regions of clients of upstream's protocols that are gone, released by hand: a client without a
// lease is never taken for dead by itself.
#pragma once

#include <string>
#include <string_view>

#include "engine/core.h"
#include "engine/lending.h"
#include "engine/resource_manager.h"

namespace maru::engine {

class RegionRelease {
 public:
  RegionRelease(Core* core, Lending* lending, ResourceManager* resource_manager)
      : core_(core), lending_(lending), resource_manager_(resource_manager) {}

  // The client's namespace names the endpoint. Each region that is released is given back as its
  // own client would, in this step; a lease that is held nevertheless has lapsed then.
  void Release(const Client& client, const wire::ReleaseRequest& request,
               wire::ReleaseReply* reply) const;

 private:
  // Of a client that calls itself so, in either protocol.
  struct Who {
    std::string instance_id, rm_client_id;  // as a region's record keeps them
    uint64_t endpoint = 0;
  };
  static bool Owns(const Who& who, const ClientRegions::Region& region);
  // Of the client's endpoint or the resource manager's.
  static bool IsAsked(const wire::ReleaseRequest& request, const Who& who,
                      const ClientRegions::Region& region);
  uint64_t HoldMs(const ClientRegions::Region& region) const;
  wire::ReleaseVerdict Judge(const Lending::Lent& lent, wire::ReleaseMode mode) const;
  void End(const Lending::Lent& lent) const;

  Core* core_;
  Lending* lending_;
  ResourceManager* resource_manager_;
};

}  // namespace maru::engine
