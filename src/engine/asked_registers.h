// Registers over so many live extents that these do not go in one step: their keys go first, some
// in each, with others' requests between. Plain state; the rules are in metadata.h.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "catalogue/key.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

struct AskedRegister {
  catalogue::Namespace name_space;
  wire::compat::MetadataType type;
  wire::compat::RegisterRequest request;  // with its own copies of the keys
  std::vector<bool> is_new;               // of the first entries, which are done
};

using AskedRegisters = std::map<uint64_t, AskedRegister>;  // by number, of AskedRegions' series

}  // namespace maru::engine
