#include "os/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
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

namespace {

// MADV_POPULATE_READ of Linux 5.14 and MADV_COLLAPSE of 6.1, which not all headers have.
constexpr int kAdvisePopulateRead = 22;
constexpr int kAdviseCollapse = 25;

// As mmap. At an address that is aligned as huge pages must be, where the offset is.
void* MapShared(std::uint64_t length_bytes, int protection, int fd, off_t offset) {
  const auto plain = [&](void* at, int flags) {
    return ::mmap(at, length_bytes, protection, MAP_SHARED | flags, fd, offset);
  };
  const auto unsigned_offset = static_cast<std::uint64_t>(offset);
  if (length_bytes < kHugePageBytes || !IsAligned(unsigned_offset, kHugePageBytes)) {
    return plain(nullptr, 0);
  }
  const std::uint64_t mapped_bytes = AlignUp(length_bytes, PageSizeBytes());
  const std::uint64_t room_bytes = mapped_bytes + kHugePageBytes;
  void* const room =
      ::mmap(nullptr, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return plain(nullptr, 0);
  const auto start = reinterpret_cast<std::uintptr_t>(room);
  const std::uint64_t before = AlignUp(start, kHugePageBytes) - start;
  auto* const at = static_cast<std::byte*>(room) + before;
  void* const data = plain(at, MAP_FIXED);
  if (data == MAP_FAILED) {
    const int error = errno;
    (void)::munmap(room, room_bytes);
    errno = error;
    return data;
  }
  if (before > 0) (void)::munmap(room, before);
  if (before < kHugePageBytes) (void)::munmap(at + mapped_bytes, kHugePageBytes - before);
  return data;
}

}  // namespace

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
  void* const data =
      MapShared(length_bytes, protection, file.fd(), static_cast<off_t>(offset_bytes));
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

void Mapping::FaultIn(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  MARU_CHECK(RangeFits(offset_bytes, length_bytes, size_));
  (void)::madvise(data_ + offset_bytes, length_bytes, kAdvisePopulateRead);
}

void Mapping::MakeHuge(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  MARU_CHECK(RangeFits(offset_bytes, length_bytes, size_));
  (void)::madvise(data_ + offset_bytes, length_bytes, kAdviseCollapse);
}

Status Mapping::Sync() const {
  if (data_ != nullptr && ::msync(data_, size_, MS_SYNC) != 0) {
    return ErrnoStatus(errno, "sync", "a mapping");
  }
  return OkStatus();
}

}  // namespace maru::os
