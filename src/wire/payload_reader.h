// The visitor that fills a message from a payload. Bytes are from outside: nothing is read before
// it is known to be there, no list is given room before its bytes are, and the first thing that is
// wrong is kept as text that names the field and the value. Text fields point into the payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/schema.h"

namespace maru::wire {

class PayloadReader {
 public:
  explicit PayloadReader(std::span<const std::byte> payload)
      : at_(payload.data()), left_(payload.size()) {}

  bool ok() const { return error_.empty(); }
  // "entries[3].key has 70000 bytes, at most 65536"; empty while all is well.
  const std::string& error() const { return error_; }
  // To be called after the walk: a payload ends with its last field.
  void ExpectEnd() {
    if (left_ != 0) FailTrailing();
  }

  template <typename T>
  void Number(const char* name, T& to, uint64_t max = ~uint64_t{0}) {
    const std::byte* from = Take(name, sizeof(Raw<T>));
    if (from == nullptr) return;
    const auto raw = LoadLittle<Raw<T>>(from);
    if (raw > max) return FailValue(name, raw, 0, max);
    to = T(raw);
  }
  void Flag(const char* name, bool& to) {
    uint8_t raw = 0;
    Number(name, raw, 1);
    to = raw == 1;
  }
  template <typename T>
  void Choice(const char* name, T& to, T last) {
    const std::byte* from = Take(name, sizeof(T));
    if (from == nullptr) return;
    const auto raw = LoadLittle<Raw<T>>(from);
    if (raw < 1 || raw > RawOf(last)) return FailValue(name, raw, 1, RawOf(last));
    to = static_cast<T>(raw);
  }
  void Pool(const char* name, PoolIndex& to) {
    const std::byte* from = Take(name, sizeof(uint32_t));
    if (from != nullptr) StorePool(name, from, to);
  }
  void Page(const char* name, PageRef& to) {
    const std::byte* from = Take(name, kPageRefWireBytes);
    if (from == nullptr) return;
    StorePool(name, from, to.pool);
    to.record = RecordNumber(LoadLittle<uint32_t>(from + 4));
    to.generation = Generation(LoadLittle<uint32_t>(from + 8));
  }
  void Text(const char* name, std::string_view& to, uint64_t max) {
    const std::byte* from = Take(name, kCountBytes);
    if (from == nullptr) return;
    const uint32_t bytes = LoadLittle<uint32_t>(from);
    if (bytes > max) return FailLength(name, bytes, max);
    from = Take(name, bytes);
    if (from != nullptr) to = {reinterpret_cast<const char*>(from), bytes};
  }
  void Json(const char* name, std::string& to, uint64_t max) {
    std::string_view text;
    Text(name, text, max);
    to = text;
  }
  void Uuid(const char* name, layout::Uuid& to) {
    const std::byte* from = Take(name, kUuidBytes);
    if (from != nullptr) std::memcpy(to.data(), from, kUuidBytes);
  }
  void Block(const char* name, uint64_t& to) {
    uint32_t block = 0;
    Number(name, block, layout::kPoolBytesMax / layout::kLeaseBlockBytes - 1);
    to = block * layout::kLeaseBlockBytes;
  }
  template <typename T>
  void List(const char* name, std::vector<T>& to, uint64_t max) {
    to.clear();
    const std::byte* from = Take(name, kCountBytes);
    if (from == nullptr) return;
    const uint32_t count = LoadLittle<uint32_t>(from);
    if (count > max) return FailCount(name, count, max);
    if (count > left_ / kItemBytesMin<T>) return FailShortList(name, count, kItemBytesMin<T>);
    to.resize(count);
    Level level{name, 0, level_};
    level_ = &level;
    for (; level.index < count && ok(); ++level.index) Walk(*this, to[level.index]);
    level_ = level.outer;
  }
  void Rest() { left_ = 0; }

 private:
  // The list that is being read, and the one around it; for error texts.
  struct Level {
    const char* name;
    uint32_t index;
    const Level* outer;
  };

  // The next BYTES in place; nullptr when they are not there, or something was wrong before.
  const std::byte* Take(const char* name, size_t bytes) {
    if (bytes > left_) [[unlikely]] {
      FailShort(name, bytes);
      return nullptr;
    }
    const std::byte* const from = at_;
    at_ += bytes;
    left_ -= bytes;
    return from;
  }
  void StorePool(const char* name, const std::byte* from, PoolIndex& to) {
    const uint32_t pool = LoadLittle<uint32_t>(from);
    if (pool >= layout::kPoolsMax) return FailPool(name, pool);
    to = PoolIndex(static_cast<uint8_t>(pool));
  }

  [[gnu::cold]] void Fail(const char* name, std::string_view what);
  [[gnu::cold]] void FailShort(const char* name, size_t bytes);
  [[gnu::cold]] void FailValue(const char* name, uint64_t value, uint64_t min, uint64_t max);
  [[gnu::cold]] void FailPool(const char* name, uint32_t pool);
  [[gnu::cold]] void FailLength(const char* name, uint64_t bytes, uint64_t max);
  [[gnu::cold]] void FailCount(const char* name, uint64_t count, uint64_t max);
  [[gnu::cold]] void FailShortList(const char* name, uint64_t count, uint64_t item_bytes);
  [[gnu::cold]] void FailTrailing();

  const std::byte* at_;
  size_t left_;
  const Level* level_ = nullptr;
  std::string error_;
};

}  // namespace maru::wire
