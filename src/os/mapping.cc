#include "os/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "os/errno_status.h"

namespace maru::os {

std::size_t PageSizeBytes() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      only_in_pid_(std::exchange(other.only_in_pid_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    only_in_pid_ = std::exchange(other.only_in_pid_, 0);
  }
  return *this;
}

Mapping::~Mapping() { Reset(); }

void Mapping::Reset() {
  if (data_ == nullptr) return;
  if (only_in_pid_ == 0 || only_in_pid_ == ::getpid()) {
    // Fails only for arguments that Map would not have produced.
    MARU_CHECK_EQ(::munmap(data_, size_), 0);
  }
  data_ = nullptr;
  size_ = 0;
  only_in_pid_ = 0;
}

Result<Mapping> Mapping::Map(const File& file, std::uint64_t offset_bytes,
                             std::uint64_t length_bytes, const MapOptions& options) {
  MARU_CHECK(IsAligned(offset_bytes, PageSizeBytes())) << offset_bytes;
  MARU_CHECK_GT(length_bytes, 0u);
  MARU_ASSIGN_OR_RETURN(const FileFacts facts, file.Facts());
  // A device whose size is unknown is left to mmap to judge.
  const bool unknown = facts.kind == PathKind::kCharDevice && facts.size_bytes == 0;
  const std::uint64_t limit =
      unknown ? std::uint64_t{std::numeric_limits<off_t>::max()} : facts.size_bytes;
  if (!RangeFits(offset_bytes, length_bytes, limit)) {
    return DataLoss("cannot map " + std::to_string(length_bytes) + " bytes at " +
                    std::to_string(offset_bytes) + " of " + file.name() + ", which has " +
                    std::to_string(facts.size_bytes) + " bytes");
  }
  const int protection = options.access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const data = ::mmap(nullptr, length_bytes, protection, MAP_SHARED, file.fd(),
                            static_cast<off_t>(offset_bytes));
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", file.name());
  Mapping mapping(static_cast<std::byte*>(data), length_bytes);
  if (options.on_fork == OnFork::kAbsentInChild) {
    if (::madvise(data, length_bytes, MADV_DONTFORK) != 0) {
      return ErrnoStatus(errno, "keep from forked children", file.name());
    }
    mapping.only_in_pid_ = ::getpid();
  }
  if (options.pages == PageHint::kHuge) (void)::madvise(data, length_bytes, MADV_HUGEPAGE);
  return mapping;
}

Result<Mapping> Mapping::MapWhole(const File& file, const MapOptions& options) {
  MARU_ASSIGN_OR_RETURN(const std::uint64_t size, file.SizeBytes());
  if (size == 0) return DataLoss("cannot map " + file.name() + ", which is empty");
  return Map(file, 0, size, options);
}

Result<Mapping> Mapping::Anonymous(std::uint64_t length_bytes) {
  MARU_CHECK_GT(length_bytes, 0u);
  void* const data =
      ::mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", "anonymous memory");
  return Mapping(static_cast<std::byte*>(data), length_bytes);
}

Status Mapping::Sync() const {
  if (data_ != nullptr && ::msync(data_, size_, MS_SYNC) != 0) {
    return ErrnoStatus(errno, "sync", "a mapping");
  }
  return OkStatus();
}

}  // namespace maru::os
