// The room that a file has of its file system, beyond what File itself asks for, and a file that
// has nothing else there.
#pragma once

#include <cstdint>
#include <string>

#include "maru/result.h"
#include "os/file.h"

namespace maru::os {

// What is backed of the whole file; of a character device that is no number.
Result<std::uint64_t> BackedBytes(const File& file);

// Undoes File::Reserve: what the range held is gone, and its room is the file system's again.
Status Discard(const File& file, std::uint64_t offset_bytes, std::uint64_t length_bytes);

// A file of FOLDER's file system that never has a name, for this user alone: gone with its last
// descriptor and mapping, whatever ends whoever has it.
Result<File> CreateUnnamed(const std::string& folder);

}  // namespace maru::os
