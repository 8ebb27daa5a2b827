// Making a pool. What lies at its path stays as it is, to the byte, until the new one is whole and
// is published: then that takes the path in one step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "layout/superblock.h"
#include "maru/result.h"
#include "os/file.h"
#include "pool/pool_file.h"

namespace maru::pool {

// OK for a size that a pool can have. InvalidArgument says which those are, and the next one.
Status CheckPoolBytes(uint64_t pool_bytes);

enum class Existing : uint8_t {
  kRefuse,   // AlreadyExists when there is a pool
  kReplace,  // a new file takes its place; what has the old one mapped keeps it
};

struct InitOptions {
  uint64_t flags = 0;  // layout::kFlag...
  Existing existing = Existing::kRefuse;
  std::span<const uint32_t> bases_in_use = {};  // region_id_base of other pools: not drawn again
  // What gives the size, for the error that there is no room for so much.
  const char* size_option = "its size";
};

// Makes an empty pool, mode 0600: the head is reserved, the superblock written last, so that a
// crash leaves a file that is no pool. What is neither a pool nor empty is never replaced; a pool
// that a server has open is not either. InvalidArgument for a size that no pool can have,
// ResourceExhausted for one that the file system has no room for.
Result<layout::Superblock> InitPool(const std::string& path, uint64_t pool_bytes,
                                    const InitOptions& options);

// The same without a name, so that whatever ends whoever made it, nothing stays: the pool is gone
// with its last descriptor and mapping. It lies on the file system of `folder`. Nobody has its
// lock.
Result<os::File> InitUnnamedPool(const std::string& folder, uint64_t pool_bytes,
                                 const InitOptions& options);

// The same in two steps, for a server that is not sure yet that it will serve. Made in a file
// beside the path, "PATH.new", which a death leaves and the next one removes. The server's locks on
// it, and on the pool that it replaces, are held from the beginning: that of the one until its
// backing is gone, that of the other until this object is.
class NewPool {
 public:
  static constexpr const char* kSuffix = ".new";

  static Result<NewPool> Make(const std::string& path, uint64_t pool_bytes,
                              const InitOptions& options);
  NewPool(NewPool&& other) noexcept;
  NewPool& operator=(NewPool&&) = delete;
  ~NewPool();  // removes the file that was not published

  const layout::Superblock& superblock() const { return superblock_; }
  // For serving it, published or not; once.
  Result<std::unique_ptr<FileBacking>> TakeBacking();
  // From here on it is the pool at the path. AlreadyExists: since Make somebody has made another.
  Status Publish();

 private:
  NewPool(std::string path, const layout::Superblock& block, os::File former, os::File file);

  std::string path_;
  layout::Superblock superblock_;
  os::File former_;  // what it replaces, locked; invalid when there was nothing
  os::File file_;    // locked as well; invalid when its backing was taken
  enum class Beside : uint8_t { kNothing, kFile } beside_ = Beside::kFile;
};

}  // namespace maru::pool
