#include "engine/record_name.h"

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <span>

#include "base/check.h"
#include "base/hash.h"

namespace maru::engine {

std::string RecordName(std::string_view name, size_t bytes_max) {
  if (name.size() <= bytes_max) return std::string(name);
  constexpr size_t kTailBytes = 1 + 16;
  MARU_CHECK_GT(bytes_max, kTailBytes);
  size_t end = bytes_max - kTailBytes;
  const auto continues = [&](size_t at) { return (static_cast<uint8_t>(name[at]) & 0xC0) == 0x80; };
  // Not within a sequence of UTF-8, which has at most three such bytes.
  for (int back = 0; back < 3 && end > 0 && continues(end); ++back) --end;
  std::array<char, kTailBytes + 1> tail;
  std::snprintf(tail.data(), tail.size(), "~%016" PRIx64,
                HashBytes64(std::as_bytes(std::span(name.data(), name.size()))));
  return std::string(name.substr(0, end)) + tail.data();
}

}  // namespace maru::engine
