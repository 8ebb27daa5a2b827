// The commands of `maru`, each defined by rows of a table: a row gives an option's flag, its key in
// the configuration file, its default, its help line and its line in the documentation.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"

namespace maru::tools {

// Exit codes of every command.
enum class Exit : int {
  kDone = 0,
  kNotThere = 1,  // not there, or refused
  kUsage = 2,
  kNoServer = 3,
  kBroken = 4,  // a broken invariant
};

enum class Takes : uint8_t { kNothing, kOne, kMany };

struct OptionRow {
  const char* flag;      // "page-size": --page-size on the line, page-size in the file
  const char* value;     // what stands for the value in the help; nullptr with kNothing
  const char* fallback;  // the default, "" when there is none
  const char* help;
  Takes takes;
};

struct PositionalRow {
  const char* name;
  const char* help;
  Takes takes;  // kOne: required; kMany: one at least
};

// What stood on the command line and in the configuration file.
class Arguments {
 public:
  std::map<std::string, std::vector<std::string>, std::less<>> values;

  bool Has(std::string_view name) const;
  // The value, else the row's default (filled in before a command runs).
  std::string Get(std::string_view name) const;
  std::vector<std::string> All(std::string_view name) const;
  // InvalidArgument names the flag, the value and what is possible.
  Result<uint64_t> Size(std::string_view name) const;
  Result<uint64_t> Number(std::string_view name, uint64_t least, uint64_t most) const;
  bool json() const { return Has("json"); }
};

struct Command {
  const char* name;  // "pool init" is `maru pool init`
  const char* summary;
  const char* details;  // more for --help, with an example
  std::span<const OptionRow> options;
  std::span<const PositionalRow> positionals;
  Exit (*run)(const Arguments& arguments);
};

// Every command, in the order of the help.
std::span<const Command* const> Commands();

// The rows that every command has: --json, --server.
std::span<const OptionRow> CommonOptions();

// Writes "maru: message" to standard error; the exit code that fits the status.
Exit Fail(const Status& status);

}  // namespace maru::tools
