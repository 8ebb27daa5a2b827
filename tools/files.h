// Files that a command reads and writes as a whole; "-" is standard input or output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "maru/result.h"

namespace maru::tools {

// InvalidArgument for more than `bytes_max`; never reads much beyond that.
Result<std::string> ReadAll(const std::string& path, uint64_t bytes_max,
                            std::string_view remedy = {});
Status WriteAll(const std::string& path, std::span<const std::byte> bytes);

}  // namespace maru::tools
