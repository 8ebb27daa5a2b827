// The visitor that writes a message's payload. It refuses what the reader would refuse, so that a
// message that was encoded is one that decodes; what it refuses first is kept as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/schema.h"

namespace maru::wire {

class PayloadWriter {
 public:
  explicit PayloadWriter(std::span<std::byte> room) : start_(room.data()), at_(room.data()) {
    left_ = room.size();
  }

  bool ok() const { return !full_ && error_.empty(); }
  size_t size() const { return static_cast<size_t>(at_ - start_); }
  // "key has 70000 bytes, at most 65536"; empty while all is well and when only room was missing.
  const std::string& error() const { return error_; }

  template <typename T>
  void Number(const char* name, const T& value, uint64_t max = ~uint64_t{0}) {
    if (RawOf(value) > max) return FailValue(name, RawOf(value), 0, max);
    if (std::byte* to = Take(sizeof(Raw<T>))) StoreLittle(to, RawOf(value));
  }
  void Flag(const char* name, const bool& value) { Number(name, uint8_t{value}); }
  template <typename T>
  void Choice(const char* name, const T& value, T last) {
    const auto raw = RawOf(value);
    if (raw < 1 || raw > RawOf(last)) return FailValue(name, raw, 1, RawOf(last));
    if (std::byte* to = Take(sizeof(T))) StoreLittle(to, raw);
  }
  void Pool(const char* name, const PoolIndex& pool) {
    Number(name, uint32_t{pool.value()}, layout::kPoolsMax - 1);
  }
  void Page(const char* name, const PageRef& page) {
    if (page.pool.value() >= layout::kPoolsMax) {
      return FailValue(name, page.pool.value(), 0, layout::kPoolsMax - 1);
    }
    if (std::byte* to = Take(kPageRefWireBytes)) {
      StoreLittle(to, uint32_t{page.pool.value()});
      StoreLittle(to + 4, page.record.value());
      StoreLittle(to + 8, page.generation.value());
    }
  }
  void Text(const char* name, std::string_view text, uint64_t max) {
    if (text.size() > max) return FailLength(name, text.size(), max);
    std::byte* to = Take(kCountBytes + text.size());
    if (to == nullptr) return;
    StoreLittle(to, static_cast<uint32_t>(text.size()));
    if (!text.empty()) std::memcpy(to + kCountBytes, text.data(), text.size());
  }
  void Json(const char* name, const std::string& text, uint64_t max) { Text(name, text, max); }
  void Uuid(const char*, const layout::Uuid& uuid) {
    if (std::byte* to = Take(kUuidBytes)) std::memcpy(to, uuid.data(), kUuidBytes);
  }
  void Block(const char* name, const uint64_t& offset_bytes) {
    if (!IsAligned(offset_bytes, layout::kLeaseBlockBytes) ||
        offset_bytes >= layout::kPoolBytesMax) {
      return FailBlock(name, offset_bytes);
    }
    Number(name, static_cast<uint32_t>(offset_bytes / layout::kLeaseBlockBytes));
  }
  template <typename T>
  void List(const char* name, const std::vector<T>& list, uint64_t max) {
    if (list.size() > max) return FailCount(name, list.size(), max);
    Number(name, static_cast<uint32_t>(list.size()));
    for (const T& item : list) {
      Walk(*this, item);
      if (!ok()) return;
    }
  }
  void Rest() {}

 private:
  std::byte* Take(size_t bytes) {
    if (bytes > left_) [[unlikely]] {
      full_ = true;
      left_ = 0;
      return nullptr;
    }
    std::byte* const to = at_;
    at_ += bytes;
    left_ -= bytes;
    return to;
  }

  [[gnu::cold]] void Fail(std::string text);
  [[gnu::cold]] void FailValue(const char* name, uint64_t value, uint64_t min, uint64_t max);
  [[gnu::cold]] void FailLength(const char* name, uint64_t bytes, uint64_t max);
  [[gnu::cold]] void FailCount(const char* name, uint64_t count, uint64_t max);
  [[gnu::cold]] void FailBlock(const char* name, uint64_t offset_bytes);

  std::byte* start_;
  std::byte* at_;
  size_t left_;
  bool full_ = false;
  std::string error_;
};

}  // namespace maru::wire
