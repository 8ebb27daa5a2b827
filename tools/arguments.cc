#include <charconv>
#include <cmath>

#include "base/units.h"
#include "pool/new_pool.h"
#include "tools/command.h"

namespace maru::tools {

std::string FlagsOf(const OptionRow& row, std::string_view separator) {
  std::string flags;
  if (row.letter != '\0') flags += std::string("-") + row.letter + std::string(separator);
  return flags + "--" + row.flag;
}

std::string HelpOf(const OptionRow& row) {
  std::string help = row.help;
  if (row.fallback[0] != '\0') help += std::string(" [") + row.fallback + "]";
  if (row.environment[0] != '\0') help += std::string(" (environment: ") + row.environment + ")";
  return help;
}

bool Arguments::Has(std::string_view name) const {
  const auto at = values.find(name);
  return at != values.end() && !at->second.empty();
}

std::string Arguments::Get(std::string_view name) const {
  const auto at = values.find(name);
  return at == values.end() || at->second.empty() ? std::string() : at->second.front();
}

std::vector<std::string> Arguments::All(std::string_view name) const {
  const auto at = values.find(name);
  return at == values.end() ? std::vector<std::string>() : at->second;
}

Result<uint64_t> Arguments::Size(std::string_view name) const {
  Result<uint64_t> size = ParseSize(Get(name));
  if (size.ok()) return size;
  return InvalidArgument("--" + std::string(name) + ": " + std::string(size.status().message()));
}

Result<uint64_t> Arguments::PoolSize(std::string_view name) const {
  MARU_ASSIGN_OR_RETURN(const uint64_t size, Size(name));
  const Status fits = pool::CheckPoolBytes(size);
  if (fits.ok()) return size;
  return InvalidArgument("--" + std::string(name) + " " + Get(name) + ": " +
                         std::string(fits.message()));
}

Result<uint64_t> Arguments::Number(std::string_view name, uint64_t least, uint64_t most) const {
  const std::string text = Get(name);
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number >= least &&
      number <= most) {
    return number;
  }
  return InvalidArgument("--" + std::string(name) + " " + text + ": a number from " +
                         std::to_string(least) + " to " + std::to_string(most) + " is wanted");
}

Result<uint64_t> Arguments::Milliseconds(std::string_view name, uint64_t most) const {
  const std::string text = Get(name);
  double seconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  // No number is neither at least 0 nor at most anything.
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && seconds >= 0 &&
      seconds <= static_cast<double>(most)) {
    return static_cast<uint64_t>(std::ceil(seconds * 1000));
  }
  return InvalidArgument("--" + std::string(name) + " " + text + ": seconds from 0 to " +
                         std::to_string(most) + " are wanted");
}

}  // namespace maru::tools
