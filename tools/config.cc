#include "tools/config.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "os/file.h"

namespace maru::tools {

namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// One KEY = VALUE into `file`; "" or what is wrong with it.
std::string TakeLine(std::string_view line, std::span<const OptionRow> rows, Arguments* file) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return "KEY = VALUE is wanted";
  const std::string key(Trimmed(line.substr(0, equals)));
  const std::string value(Trimmed(line.substr(equals + 1)));
  const auto row = std::ranges::find_if(rows, [&](const OptionRow& r) { return r.flag == key; });
  if (row == rows.end() || key == kConfigFlag) return "there is no option \"" + key + "\"";
  std::vector<std::string>& values = file->values[key];
  if (row->takes == Takes::kNothing) {
    if (value != "true" && value != "false") return key + " takes true or false";
    values.assign(value == "true" ? 1 : 0, value);
    return "";
  }
  if (row->takes == Takes::kOne && !values.empty()) return key + " is given twice";
  values.push_back(value);
  return "";
}

Result<Arguments> ReadConfig(const std::string& path, std::span<const OptionRow> rows) {
  MARU_ASSIGN_OR_RETURN(const std::string text, os::ReadTextFile(path, kConfigBytesMax));
  Arguments file;
  std::string_view rest = text;
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = Trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const std::string wrong = TakeLine(line, rows, &file);
    if (!wrong.empty()) {
      return InvalidArgument("--config " + path + ":" + std::to_string(number) + ": " + wrong);
    }
  }
  return file;
}

}  // namespace

Status CompleteArguments(std::span<const OptionRow> rows, Arguments* arguments) {
  Arguments file;
  if (arguments->Has(kConfigFlag)) {
    MARU_ASSIGN_OR_RETURN(file, ReadConfig(arguments->Get(kConfigFlag), rows));
  }
  for (const OptionRow& row : rows) {
    std::vector<std::string>& values = arguments->values[row.flag];
    if (!values.empty()) continue;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment of a tool.
    const char* const set = row.environment[0] != '\0' ? std::getenv(row.environment) : nullptr;
    if (set != nullptr && set[0] != '\0') {
      values.emplace_back(set);
    } else if (file.Has(row.flag)) {
      values = file.All(row.flag);
    } else if (row.fallback[0] != '\0') {
      values.emplace_back(row.fallback);
    }
  }
  return OkStatus();
}

}  // namespace maru::tools
