#include "base/units.h"

#include <array>
#include <limits>

namespace maru {
namespace {

constexpr std::size_t kTextShownMax = 64;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

Status Bad(std::string_view text, std::string_view why) {
  std::string message = "size \"";
  message.append(text.substr(0, kTextShownMax)).append("\" ").append(why);
  message.append("; write for example 4GiB, 512M or 65536");
  return InvalidArgument(message);
}

// The bytes in a unit, 0 when SUFFIX is none.
std::uint64_t UnitBytes(std::string_view suffix) {
  if (suffix.empty()) return 1;
  const char first = static_cast<char>(suffix[0] | 0x20);
  const std::string_view rest = suffix.substr(1);
  if (first == 'b') return rest.empty() ? 1 : 0;
  const bool plain = rest.empty() || rest == "B" || rest == "b";
  if (!plain && rest != "iB" && rest != "ib" && rest != "IB" && rest != "Ib") return 0;
  switch (first) {
    case 'k': return kKiB;
    case 'm': return kMiB;
    case 'g': return kGiB;
    case 't': return kTiB;
    default: return 0;
  }
}

// NUMBER * 10 + DIGIT; false on overflow.
bool PushDigit(std::uint64_t& number, char digit) {
  const std::uint64_t add = static_cast<std::uint64_t>(digit - '0');
  if (number > (kMax - add) / 10) return false;
  number = number * 10 + add;
  return true;
}

}  // namespace

Result<std::uint64_t> ParseSize(std::string_view text) {
  std::size_t at = 0;
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  std::uint64_t scale = 1;  // of the fraction: a power of ten
  if (text.empty() || !IsDigit(text[0])) return Bad(text, "does not start with a digit");
  for (; at < text.size() && IsDigit(text[at]); ++at) {
    if (!PushDigit(whole, text[at])) return Bad(text, "is too large");
  }
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (at == text.size() || !IsDigit(text[at])) return Bad(text, "has no digit after its point");
    for (; at < text.size() && IsDigit(text[at]); ++at) {
      // Six places, so that fraction * unit stays within 64 bits.
      if (scale == 1'000'000) return Bad(text, "has more than six decimal places");
      fraction = fraction * 10 + static_cast<std::uint64_t>(text[at] - '0');
      scale *= 10;
    }
  }
  if (at < text.size() && text[at] == ' ') ++at;
  const std::uint64_t unit = UnitBytes(text.substr(at));
  if (unit == 0) return Bad(text, "has an unknown unit");
  if (whole > kMax / unit) return Bad(text, "is too large");
  if (fraction * unit % scale != 0) return Bad(text, "is not a whole number of bytes");
  const std::uint64_t part = fraction * unit / scale;
  const std::uint64_t bytes = whole * unit;
  if (bytes > kMax - part) return Bad(text, "is too large");
  return bytes + part;
}

std::string FormatSize(std::uint64_t bytes) {
  std::size_t unit = 0;
  std::uint64_t scale = 1;
  while (unit + 1 < kUnits.size() && bytes / scale >= 1024) {
    ++unit;
    scale *= 1024;
  }
  std::uint64_t whole = bytes / scale;
  const std::uint64_t rest = bytes % scale;
  // Rounded half up; rest < 2^40, so the product fits.
  std::uint64_t tenths = (rest * 10 + scale / 2) / scale;
  if (tenths == 10) {
    tenths = 0;
    ++whole;
    if (whole == 1024 && unit + 1 < kUnits.size()) {
      whole = 1;
      ++unit;
    }
  }
  std::string text = std::to_string(whole);
  if (tenths != 0) text.append(".").append(std::to_string(tenths));
  return text.append(" ").append(kUnits[unit]);
}

std::string FormatSizeExact(std::uint64_t bytes) {
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes);
  if (unit != 0) text.append(kUnits[unit]);
  return text;
}

}  // namespace maru
