// A pool in a file (tmpfs, or a file system on persistent memory or disk): opened for serving,
// renumbered; new_pool.h makes one. Every refusal leaves the file as it was, to the byte.
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

// Gives a pool at rest another uuid and another region_id_base, not among those in use, and its
// regions new ids under it: of a copy it makes a pool of its own. A crash in the middle is mended
// when the pool is opened. FailedPrecondition while a server has the pool open.
Result<layout::Superblock> Renumber(const std::string& path,
                                    std::span<const uint32_t> bases_in_use);

// Opens the file and validates its superblock; for serving, and for looking at it (read-only).
// FailedPrecondition: no pool, or a sound one of another version or size. DataLoss: a torn one.
struct PoolFile {
  os::File file;
  layout::Superblock superblock;
};
Result<PoolFile> OpenPoolFile(const std::string& path, os::Access access);

class FileBacking final : public Backing {
 public:
  // Takes the server's lock, which lasts as long as this object, validates and maps.
  // FailedPrecondition: another server has the pool. PermissionDenied: every user may read it, or
  // it belongs to another user (root may serve it all the same). Otherwise as OpenPoolFile.
  static Result<std::unique_ptr<FileBacking>> OpenForServing(const std::string& path);

  std::byte* base() override { return mapping_.data(); }
  uint64_t bytes() const override { return mapping_.size(); }
  Status Reserve(uint64_t offset_bytes, uint64_t length_bytes, os::PageHint pages) override;
  Result<bool> ReserveNew(uint64_t offset_bytes, uint64_t length_bytes) override;
  Status Discard(uint64_t offset_bytes, uint64_t length_bytes) override;
  Status Flush() override { return mapping_.Sync(); }
  std::string name() const override { return path_; }

  const layout::Superblock& superblock() const {
    return *reinterpret_cast<const layout::Superblock*>(mapping_.data() +
                                                        layout::kSuperblockOffset);
  }
  // For descriptors of clients (Reopen) and for the locks on their liveness bytes.
  const os::File& file() const { return file_; }

 private:
  friend class NewPool;
  // REQUIRES: the file has that superblock and the server's lock.
  static Result<std::unique_ptr<FileBacking>> Map(const std::string& path, os::File file,
                                                  const layout::Superblock& superblock);
  FileBacking(std::string path, os::File file, os::Mapping mapping);

  const std::string path_;
  os::File file_;
  os::Mapping mapping_;
};

}  // namespace maru::pool
