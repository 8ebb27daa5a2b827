// A pool in a file (tmpfs, or a file system on persistent memory or disk): made, opened for
// serving, renumbered. Every refusal leaves the file as it was, to the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "layout/superblock.h"
#include "maru/result.h"
#include "os/file.h"
#include "os/mapping.h"
#include "pool/backing.h"

namespace maru::pool {

enum class Existing : uint8_t {
  kRefuse,   // AlreadyExists when there is a pool
  kReplace,  // a new file takes its place; what has the old one mapped keeps it
};

struct InitOptions {
  uint64_t flags = 0;  // layout::kFlag...
  Existing existing = Existing::kRefuse;
  std::span<const uint32_t> bases_in_use = {};  // region_id_base of other pools: not drawn again
};

// Makes an empty pool, mode 0600: the head is reserved, the superblock written last, so that a
// crash leaves a file that is no pool. What is neither a pool nor empty is never replaced; a pool
// that a server has open is not either. InvalidArgument for a size that no pool can have,
// ResourceExhausted for one that the file system has no room for.
Result<layout::Superblock> InitPool(const std::string& path, uint64_t pool_bytes,
                                    const InitOptions& options);

// Gives a pool at rest another region_id_base, not among those in use, and its regions new ids
// under it. A crash in the middle is mended when the pool is opened. FailedPrecondition while a
// server has the pool open.
Result<layout::Superblock> Renumber(const std::string& path,
                                    std::span<const uint32_t> bases_in_use);

// Opens the file and validates its superblock; for serving, and for looking at it (read-only).
struct PoolFile {
  os::File file;
  layout::Superblock superblock;
};
Result<PoolFile> OpenPoolFile(const std::string& path, os::Access access);

class FileBacking final : public Backing {
 public:
  // Takes the server's lock, which lasts as long as this object, validates and maps.
  // FailedPrecondition: another server has the pool. PermissionDenied: every user may read it, or
  // it belongs to another user (root may serve it all the same).
  // DataLoss: torn, foreign, of another version or size.
  static Result<std::unique_ptr<FileBacking>> OpenForServing(const std::string& path);

  std::byte* base() override { return mapping_.data(); }
  uint64_t bytes() const override { return mapping_.size(); }
  Status Reserve(uint64_t offset_bytes, uint64_t length_bytes, os::PageHint pages) override;
  Status Flush() override { return mapping_.Sync(); }
  std::string name() const override { return path_; }

  // For descriptors of clients (Reopen) and for the locks on their liveness bytes.
  const os::File& file() const { return file_; }

 private:
  FileBacking(std::string path, os::File file, os::Mapping mapping);

  const std::string path_;
  os::File file_;
  os::Mapping mapping_;
};

}  // namespace maru::pool
