// What the engine must know of an address at which upstream's metadata protocol is spoken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalogue/key.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

struct MetadataContext {
  catalogue::Namespace name_space;      // of all its keys
  std::string rm_address;               // of the resource manager, told at the handshake
  std::vector<std::string> pool_paths;  // regions are taken from these alone; empty: from any
  // For our own handlers on this host.
  std::optional<wire::compat::LocalRoad> local_road;
};

}  // namespace maru::engine
