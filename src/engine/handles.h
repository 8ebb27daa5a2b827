// What names a region over upstream's wires: its place, and a MAC that only this server's key
// makes. It holds as long as the region, also across restarts.
#pragma once

#include "engine/core.h"
#include "wire/compat/metadata.h"

namespace maru::engine {

wire::compat::Handle MakeHandle(const Core& core, RegionId id, uint64_t offset_bytes,
                                uint64_t length_bytes);
// The handle was handed out with this key; its region may be gone.
bool Genuine(const Core& core, const wire::compat::Handle& handle);

}  // namespace maru::engine
