#include <charconv>

#include "base/units.h"
#include "tools/command.h"

namespace maru::tools {

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

}  // namespace maru::tools
