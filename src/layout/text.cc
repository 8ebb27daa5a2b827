#include "layout/text.h"

namespace maru::layout {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr int kHexDigitsMax = 16;

}  // namespace

void AppendTo(std::string& out, Hex number) {
  char digits[kHexDigitsMax];
  int count = 0;
  for (uint64_t rest = number.value; count < kHexDigitsMax; rest >>= 4) {
    if (rest == 0 && count >= number.digits && count > 0) break;
    digits[count++] = kDigits[rest & 0xF];
  }
  out += "0x";
  while (count > 0) out += digits[--count];
}

void AppendTo(std::string& out, Quoted text) {
  out += '"';
  for (const char c : text.bytes.substr(0, kQuotedBytesMax)) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 0xF];
    }
  }
  out += text.bytes.size() > kQuotedBytesMax ? "\"..." : "\"";
}

}  // namespace maru::layout
