// A frame for people: the lines that `maru frame` prints.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "maru/result.h"

namespace maru::wire {

// Of each list; the rest is counted.
inline constexpr size_t kItemsDescribedMax = 64;

// "name: value" lines of the header and, under it, of the payload, in the order of the bytes.
// DataLoss as of Decoder: names the message, the field and the value.
Result<std::vector<std::string>> DescribeFrame(std::span<const std::byte> frame);

}  // namespace maru::wire
