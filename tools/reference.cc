// maru reference: docs/commands.md from the tables, so that it says what --help says.

#include "tools/commands.h"
#include "tools/output.h"

namespace maru::tools {

namespace {

constexpr const char* kHead =
    "# The `maru` command\n"
    "\n"
    "Written by `maru reference` from the tables in `tools/`; a test compares. `maru COMMAND "
    "--help`\n"
    "says the same.\n"
    "\n"
    "An option's value comes from the first of these that gives it: the line, the environment\n"
    "variable that its row names, the configuration file (`maru serve --config FILE`: lines of\n"
    "`KEY = VALUE`, the key an option without its dashes, `true` or `false` for one without a "
    "value),\n"
    "the default. Sizes read `4GiB`, `512M`, `65536`; units are powers of 1024.\n"
    "\n"
    "| exit code | meaning |\n|---|---|\n"
    "| 0 | done |\n| 1 | not there, or refused |\n| 2 | the command line is wrong |\n"
    "| 3 | no server |\n| 4 | something is broken: wrong bytes, a page that leaked, a damaged pool "
    "|\n"
    "\n"
    "With `--json` an error is one line on standard error: `{\"error\": CODE, \"message\": TEXT,\n"
    "\"exit_code\": N}`, and nothing else is written there but the log of commands that serve.\n";

// Of a cell in a table.
std::string Cell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string OptionLine(const OptionRow& row) {
  std::string flag = FlagsOf(row, ", ");
  if (row.takes != Takes::kNothing) flag += std::string(" ") + row.value;
  return "| `" + Cell(flag) + "` | " + Cell(HelpOf(row)) + " |\n";
}

std::string Section(const Command& command) {
  std::string usage = std::string("maru ") + command.name;
  for (const PositionalRow& row : command.positionals) {
    const std::string name = row.name;
    usage += row.takes == Takes::kAny    ? " [" + name + "...]"
             : row.takes == Takes::kMany ? " " + name + "..."
                                         : " " + name;
  }
  std::string out = std::string("\n## maru ") + command.name + "\n\n" + command.summary +
                    ".\n\n```\n" + usage + " [OPTIONS]\n```\n";
  if (!command.positionals.empty() || !command.options.empty()) out += "\n|  |  |\n|---|---|\n";
  for (const PositionalRow& row : command.positionals) {
    out += std::string("| `") + row.name + "` | " + Cell(row.help) + " |\n";
  }
  for (const OptionRow& row : command.options) out += OptionLine(row);
  if (command.details[0] != '\0') out += std::string("\n```\n") + command.details + "\n```\n";
  return out;
}

Result<Exit> Run(const Arguments& /*arguments*/) {
  std::string page = kHead;
  page += "\n## Options of every command\n\n|  |  |\n|---|---|\n";
  for (const OptionRow& row : CommonOptions()) page += OptionLine(row);
  for (const Command* command : Commands()) {
    if (command->summary[0] != '\0') page += Section(*command);
  }
  Print(page);
  return Exit::kDone;
}

}  // namespace

extern const Command kReference = {"reference", "", "", {}, {}, &Run};

}  // namespace maru::tools
