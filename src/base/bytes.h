#pragma once

// Bytes that leave the process: little-endian numbers, bounds-checked reading and writing over
// spans, alignment. No allocation, no ownership: spans must outlive the reader and the writer.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace maru {

static_assert(std::endian::native == std::endian::little,
              "shared memory is read in place; a big-endian host needs a port");

template <std::unsigned_integral T>
inline T LoadLittle(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <std::unsigned_integral T>
inline void StoreLittle(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

inline constexpr bool IsPowerOfTwo(std::uint64_t n) { return std::has_single_bit(n); }

// REQUIRES: alignment is a power of two.
inline constexpr bool IsAligned(std::uint64_t n, std::uint64_t alignment) {
  return (n & (alignment - 1)) == 0;
}
inline constexpr std::uint64_t AlignDown(std::uint64_t n, std::uint64_t alignment) {
  return n & ~(alignment - 1);
}
// REQUIRES: the result fits; see AlignUpFits for numbers from outside.
inline constexpr std::uint64_t AlignUp(std::uint64_t n, std::uint64_t alignment) {
  return AlignDown(n + (alignment - 1), alignment);
}
inline constexpr bool AlignUpFits(std::uint64_t n, std::uint64_t alignment) {
  return n <= ~std::uint64_t{0} - (alignment - 1);
}

// True when [offset, offset + length) lies within [0, limit), without overflow.
inline constexpr bool RangeFits(std::uint64_t offset, std::uint64_t length, std::uint64_t limit) {
  return offset <= limit && length <= limit - offset;
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads from the front of a span. The first read that does not fit makes the reader fail for good:
// it yields zeros and empty spans from then on, and ok() says so; check it once at the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  std::size_t remaining() const { return rest_.size(); }
  // All bytes were read, and none was missing.
  bool AtEnd() const { return ok_ && rest_.empty(); }

  template <std::unsigned_integral T>
  T Read() {
    const std::span<const std::byte> from = ReadBytes(sizeof(T));
    return from.size() == sizeof(T) ? LoadLittle<T>(from.data()) : T{0};
  }
  std::uint8_t U8() { return Read<std::uint8_t>(); }
  std::uint16_t U16() { return Read<std::uint16_t>(); }
  std::uint32_t U32() { return Read<std::uint32_t>(); }
  std::uint64_t U64() { return Read<std::uint64_t>(); }

  // The next COUNT bytes in place.
  std::span<const std::byte> ReadBytes(std::size_t count) {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> head = rest_.first(count);
    rest_ = rest_.subspan(count);
    return head;
  }
  void Skip(std::size_t count) { ReadBytes(count); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

// Writes to the front of a span, with the same rule: a write that does not fit changes nothing and
// makes the writer fail for good.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> room) : room_(room) {}

  bool ok() const { return ok_; }
  std::size_t size() const { return size_; }
  std::size_t remaining() const { return room_.size() - size_; }
  std::span<const std::byte> written() const { return room_.first(size_); }

  template <std::unsigned_integral T>
  void Write(T value) {
    if (std::byte* to = Take(sizeof(T))) StoreLittle(to, value);
  }
  void U8(std::uint8_t value) { Write(value); }
  void U16(std::uint16_t value) { Write(value); }
  void U32(std::uint32_t value) { Write(value); }
  void U64(std::uint64_t value) { Write(value); }

  void WriteBytes(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    if (std::byte* to = Take(bytes.size())) std::memcpy(to, bytes.data(), bytes.size());
  }
  void WriteZeros(std::size_t count) {
    if (count == 0) return;
    if (std::byte* to = Take(count)) std::memset(to, 0, count);
  }

 private:
  std::byte* Take(std::size_t count) {
    if (!ok_ || count > remaining()) {
      ok_ = false;
      return nullptr;
    }
    std::byte* const at = room_.data() + size_;
    size_ += count;
    return at;
  }

  std::span<std::byte> room_;
  std::size_t size_ = 0;
  bool ok_ = true;
};

}  // namespace maru
