#include "base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace maru {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length < 2 || length > text.size()) return length == 1 ? 1 : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ReplaceNonUtf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    out += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace maru
