// The commands of `maru`, each defined by rows of a table: a row gives an option's flag, its key in
// the configuration file, its environment variable, its default, its help line and its line in
// docs/commands.md.
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

enum class Takes : uint8_t { kNothing, kOne, kMany, kAny };

struct OptionRow {
  const char* flag;      // "page-size": --page-size on the line, page-size in the file
  const char* value;     // what stands for the value in the help; nullptr with kNothing
  const char* fallback;  // the default, "" when there is none
  const char* help;
  Takes takes;
  const char* environment = "";  // the variable that gives it, "" when there is none
  char letter = '\0';            // "-p" beside "--port", where upstream's command has one
};

// Reads more options from a file (config.h); only what a command lists can stand there.
inline constexpr const char* kConfigFlag = "config";

struct PositionalRow {
  const char* name;
  const char* help;
  Takes takes;  // kOne: required; kMany: one at least; kAny: or none
};

// "-p,--port" with a letter and that separator, "--port" without.
std::string FlagsOf(const OptionRow& row, std::string_view separator);
// The help line with the default and the variable.
std::string HelpOf(const OptionRow& row);

// What a command was told, from the first of these that says it: the line, the environment, the
// configuration file, the row's default.
class Arguments {
 public:
  std::map<std::string, std::vector<std::string>, std::less<>> values;

  bool Has(std::string_view name) const;
  // The first value, "" when there is none.
  std::string Get(std::string_view name) const;
  std::vector<std::string> All(std::string_view name) const;
  // InvalidArgument names the flag, the value and what is possible.
  Result<uint64_t> Size(std::string_view name) const;
  Result<uint64_t> PoolSize(std::string_view name) const;
  Result<uint64_t> Number(std::string_view name, uint64_t least, uint64_t most) const;
  // Of a number of seconds, "0.5" as well. `most`: seconds.
  Result<uint64_t> Milliseconds(std::string_view name, uint64_t most) const;
  bool json() const { return Has("json"); }
};

struct Command {
  const char* name;     // "pool init" is `maru pool init`
  const char* summary;  // "": not for people, so not in the help
  const char* details;  // more for --help, with an example
  std::span<const OptionRow> options;
  std::span<const PositionalRow> positionals;
  // An error is printed by the caller and becomes the exit code that fits it (ExitOf).
  Result<Exit> (*run)(const Arguments& arguments);
};

// Every command, in the order of the help.
std::span<const Command* const> Commands();

// The rows that every command has: --json, --server, --server-user.
std::span<const OptionRow> CommonOptions();

}  // namespace maru::tools
