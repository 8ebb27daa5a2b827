// What making a pool's file and opening it share.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "layout/superblock.h"
#include "maru/result.h"
#include "os/file.h"

namespace maru::pool {

// What something that exists at a pool's path is.
enum class Content : uint8_t { kNothing, kZeroes, kPool, kBrokenPool, kForeign };

struct Seen {
  Content content = Content::kForeign;
  Status why;  // kBrokenPool, kForeign: what is wrong
};

// `head`: the first bytes of a file of that size.
Seen Look(std::span<const std::byte> head, uint64_t file_bytes);
// Enough for the superblock of any version, less of a shorter file.
Result<std::vector<std::byte>> ReadHead(const os::File& file);
// InvalidArgument: no regular file.
Status CheckKind(const std::string& path, os::PathKind kind);
// The lock of the server of a pool, for as long as `file` is open. FailedPrecondition: another has
// it.
Status TakeServerLock(const std::string& path, const os::File& file);
// A region_id_base that is not in use.
Result<uint32_t> DrawBase(std::span<const uint32_t> in_use);

}  // namespace maru::pool
