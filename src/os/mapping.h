#pragma once

// A shared mapping of a part of a file, unmapped by its owner's destructor. The file may be closed
// before; a mapping keeps the file's open file description, and with it OFD locks, alive.

#include <cstddef>
#include <cstdint>
#include <span>

#include "maru/result.h"
#include "os/file.h"

namespace maru::os {

enum class OnFork { kInherit, kAbsentInChild };
enum class PageHint { kDefault, kHuge };

struct MapOptions {
  Access access = Access::kRead;
  OnFork on_fork = OnFork::kInherit;
  PageHint pages = PageHint::kDefault;  // a hint: refusal is no error
};

class Mapping {
 public:
  Mapping() = default;  // maps nothing
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // REQUIRES: offset is a multiple of the page size (2 MiB on a DAX device), length > 0.
  // DataLoss when the range leaves the file: touching what lies behind would kill the process.
  static Result<Mapping> Map(const File& file, std::uint64_t offset_bytes,
                             std::uint64_t length_bytes, const MapOptions& options);
  static Result<Mapping> MapWhole(const File& file, const MapOptions& options);
  // Zeroed memory of its own, readable and writable, shared with forked children.
  static Result<Mapping> Anonymous(std::uint64_t length_bytes);

  bool valid() const { return data_ != nullptr; }
  // Writing to a mapping made with Access::kRead is a SIGSEGV.
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

  // Hints about a range of it, which may be refused and then change nothing. REQUIRES: inside.
  // Brings what is behind it into the page table, so that no read of it meets a page fault.
  void FaultIn(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  // Puts huge pages behind it, in whole ones. What it holds stays. Waits for the copying, 1 to 3 ms
  // each. REQUIRES: reserved; a huge page that nothing lies behind stays as it is.
  void MakeHuge(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

  // Writes changed pages of a regular file back to disk.
  Status Sync() const;
  // Unmaps now. In a forked child, a mapping that is absent there is only forgotten: its addresses
  // may be somebody else's by then.
  void Reset();

 private:
  Mapping(std::byte* data, std::size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int only_in_pid_ = 0;  // 0: also in forked children
};

std::size_t PageSizeBytes();
// Of a huge page: what of a file begins at a multiple of it is mapped at a multiple of it, too.
inline constexpr std::uint64_t kHugePageBytes = 2 << 20;

}  // namespace maru::os
