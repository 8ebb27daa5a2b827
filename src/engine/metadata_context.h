// What the engine must know of an address at which upstream's metadata protocol is spoken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/key.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

struct MetadataContext {
  catalogue::Namespace name_space;      // of all its keys
  std::string rm_address;               // of the resource manager, told at the handshake
  std::vector<std::string> pool_paths;  // its clients use these alone; empty: any
  bool Uses(const std::string& pool) const {
    return pool_paths.empty() || std::ranges::find(pool_paths, pool) != pool_paths.end();
  }
  // Of its regions.
  uint64_t endpoint() const { return name_space.seed(); }
  // Of its clients' leases; 0: they have none; nullopt: options.region_lease_ns.
  std::optional<uint64_t> lease_ns;
  // For our own handlers on this host.
  std::optional<wire::compat::LocalRoad> local_road;
};

}  // namespace maru::engine
