// Numbers and text put together: the messages of validators and the lines of describe.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace maru::layout {

// Shown as 0x and at least `digits` digits.
struct Hex {
  uint64_t value = 0;
  int digits = 1;
};

// Bytes that came from outside, shown in quotes, anything but printable ASCII as \xNN, cut after
// kQuotedBytesMax of them.
struct Quoted {
  std::string_view bytes;
};
inline constexpr size_t kQuotedBytesMax = 96;

void AppendTo(std::string& out, Hex number);
void AppendTo(std::string& out, Quoted text);
inline void AppendTo(std::string& out, std::string_view text) { out.append(text); }
inline void AppendTo(std::string& out, std::integral auto number) { out += std::to_string(number); }

template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  (AppendTo(out, parts), ...);
  return out;
}

}  // namespace maru::layout
