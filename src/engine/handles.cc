#include "engine/handles.h"

namespace maru::engine {

wire::compat::Handle MakeHandle(const Core& core, RegionId id, uint64_t offset_bytes,
                                uint64_t length_bytes) {
  return core.handle_mac.Sign({id.value(), offset_bytes, length_bytes, 0});
}

bool Genuine(const Core& core, const wire::compat::Handle& handle) {
  return core.handle_mac.Verify(handle);
}

}  // namespace maru::engine
