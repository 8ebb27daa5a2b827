// The room that a file has of its file system, beyond what File itself asks for.
#pragma once

#include <cstdint>

#include "maru/result.h"
#include "os/file.h"

namespace maru::os {

// What is backed of the whole file; of a character device that is no number.
Result<std::uint64_t> BackedBytes(const File& file);

// Undoes File::Reserve: what the range held is gone, and its room is the file system's again.
Status Discard(const File& file, std::uint64_t offset_bytes, std::uint64_t length_bytes);

}  // namespace maru::os
