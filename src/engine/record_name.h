// Names that clients of upstream's protocols give themselves, as a region's record can keep them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "layout/geometry.h"

namespace maru::engine {

// Of an instance id or a lease id; a client id of the resource manager fills both.
inline constexpr size_t kRecordNameBytesMax = layout::kLabelBytes - 1;

// The name itself if it fits; else its beginning, '~' and a 64-bit hash of the whole in hex. The
// engine compares names in this form alone, so that it is the same client after a restart. UTF-8
// stays UTF-8. REQUIRES: bytes_max > 17.
std::string RecordName(std::string_view name, size_t bytes_max = kRecordNameBytesMax);

}  // namespace maru::engine
