// Builds the command line from the tables, runs the command and tells its error. The only file that
// knows CLI11.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "os/errno_status.h"
#include "os/process.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/config.h"
#include "tools/error_line.h"
#include "tools/output.h"

namespace maru::tools {

namespace {

struct Bound {
  const Command* command = nullptr;
  CLI::App* app = nullptr;
  Arguments arguments;
};

CLI::Option* AddValue(CLI::App* app, const std::string& flag, const char* name,
                      const std::string& help, Takes takes, Arguments* arguments) {
  if (takes == Takes::kMany || takes == Takes::kAny) {
    return app->add_option(flag, arguments->values[name], help)->allow_extra_args(flag == name);
  }
  // Not a list: it would take what stands behind it on the line.
  return app->add_option_function<std::string>(
      flag, [arguments, name](const std::string& value) { arguments->values[name] = {value}; },
      help);
}

void AddOption(CLI::App* app, const OptionRow& row, Arguments* arguments) {
  const std::string flag = FlagsOf(row, ",");
  if (row.takes == Takes::kNothing) {
    app->add_flag_callback(
        flag, [arguments, row] { arguments->values[row.flag] = {"true"}; }, row.help);
    return;
  }
  AddValue(app, flag, row.flag, HelpOf(row), row.takes, arguments)->type_name(row.value);
}

// The command's own, and the common ones that it does not have in another way.
std::vector<OptionRow> RowsOf(const Command& command, std::span<const OptionRow> common) {
  std::vector<OptionRow> rows(command.options.begin(), command.options.end());
  for (const OptionRow& row : common) {
    const bool has = std::ranges::any_of(command.options, [&row](const OptionRow& own) {
      return std::string_view(own.flag) == row.flag;
    });
    if (!has) rows.push_back(row);
  }
  return rows;
}

void BindRows(CLI::App* app, const Command& command, std::span<const OptionRow> common,
              Bound* bound) {
  bound->command = &command;
  bound->app = app;
  app->footer(command.details);
  for (const PositionalRow& row : command.positionals) {
    AddValue(app, row.name, row.name, row.help, row.takes, &bound->arguments)
        ->required(row.takes != Takes::kAny);
  }
  for (const OptionRow& row : RowsOf(command, common)) AddOption(app, row, &bound->arguments);
}

void Bind(CLI::App* parent, const Command& command, Bound* bound) {
  std::string name = command.name;
  CLI::App* group = parent;
  const size_t space = name.find(' ');
  if (space != std::string::npos) {
    const std::string first = name.substr(0, space);
    name = name.substr(space + 1);
    const auto groups =
        parent->get_subcommands([&](const CLI::App* app) { return app->get_name() == first; });
    group = groups.empty() ? nullptr : const_cast<CLI::App*>(groups.front());
    if (group == nullptr) {
      group = parent->add_subcommand(first, "A pool's file, mostly at rest");
      group->require_subcommand(1);
    }
  }
  CLI::App* app = group->add_subcommand(name, command.summary);
  if (command.summary[0] == '\0') app->group("");  // an empty group is not shown
  BindRows(app, command, CommonOptions(), bound);
}

// `program` is the name that this one was started under.
int Fail(const std::string& program, const Status& status, bool as_json) {
  Note(as_json ? ErrorLine(status) : program + ": " + Printable(status.message()));
  return static_cast<int>(ExitOf(status));
}

// What a server answers is its own to say: an answer that lacks what the command looks for is an
// error of the command.
Result<Exit> RunCommand(const Bound& bound) {
  try {
    return bound.command->run(bound.arguments);
  } catch (const nlohmann::json::exception& error) {
    return DataLoss(std::string("the server's answer is not what this maru expects: ") +
                    error.what());
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory: free some, or raise the limit (ulimit -v)");
  }
}

Result<Exit> Run(Bound* bound) {
  const std::vector<OptionRow> rows = RowsOf(*bound->command, CommonOptions());
  MARU_RETURN_IF_ERROR(CompleteArguments(rows, &bound->arguments));
  Result<Exit> exit = RunCommand(*bound);
  // What was printed and got lost is not done.
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (exit.ok() && lost) return os::ErrnoStatus(errno, "write", "standard output");
  return exit;
}

// Of a line that could not be read: before "--", which ends the options.
bool AsksForJson(int argc, char** argv) {
  char** const end = std::find(argv, argv + argc, std::string_view("--"));
  return std::find(argv, end, std::string_view("--json")) != end;
}

// The command that the line names as far as it could be read, with what begins its help.
std::string NameOf(const CLI::App* app) {
  std::string name = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return name;
}

// Reads the line; when that is all there is to do, or goes wrong, the exit code.
std::optional<int> Parse(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app->exit(error);  // --help, --version
    return Fail(app->get_name(),
                InvalidArgument(std::string(error.what()) + "; see " + NameOf(app) + " --help"),
                AsksForJson(argc, argv));
  }
}

int RunAndTell(const std::string& program, Bound* bound) {
  const Result<Exit> exit = Run(bound);
  return exit.ok() ? static_cast<int>(*exit)
                   : Fail(program, exit.status(), bound->arguments.json());
}

void AddVersion(CLI::App* app) {
  app->set_version_flag("--version", app->get_name() + " " + MARU_VERSION);
}

// This program under one of upstream's names is that command alone, which has no server to ask.
int MainUnder(const std::string& program, const Command& command, int argc, char** argv) {
  CLI::App app(command.summary, program);
  AddVersion(&app);
  Bound bound;
  BindRows(&app, command, CommonOptions().first(1), &bound);
  const std::optional<int> read = Parse(&app, argc, argv);
  return read ? *read : RunAndTell(program, &bound);
}

// What stands behind the options of every command: a command, if it is one; empty: nothing does.
std::string_view FirstWord(int argc, char** argv) {
  int at = 1;
  while (at < argc) {
    const std::string_view word = argv[at];
    const std::string_view flag = word.substr(0, word.find('='));
    const auto row = std::ranges::find_if(CommonOptions(), [flag](const OptionRow& option) {
      return flag.starts_with("--") && flag.substr(2) == option.flag;
    });
    if (row == CommonOptions().end()) return word;
    at += row->takes == Takes::kNothing || flag != word ? 1 : 2;
  }
  return {};
}

int Main(int argc, char** argv) {
  CLI::App app("Maru: KV cache that LLM serving engines share in one memory pool", "maru");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 not there or refused, 2 usage, 3 no server, 4 something is "
      "broken.\nmaru COMMAND --help tells more.");
  AddVersion(&app);
  Arguments before;  // what stands before the command
  for (const OptionRow& row : CommonOptions()) AddOption(&app, row, &before);
  std::vector<std::unique_ptr<Bound>> bounds;
  for (const Command* command : Commands()) {
    bounds.push_back(std::make_unique<Bound>());
    Bind(&app, *command, bounds.back().get());
  }
  if (argc <= 1) {
    Note(app.help());
    return static_cast<int>(Exit::kUsage);
  }
  const std::string_view first = FirstWord(argc, argv);
  const bool known =
      !app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == first; }).empty();
  if (!first.empty() && !first.starts_with('-') && !known) {
    return Fail(
        app.get_name(),
        InvalidArgument("there is no command \"" + std::string(first) + "\"; see maru --help"),
        AsksForJson(argc, argv));
  }
  if (const std::optional<int> read = Parse(&app, argc, argv)) return *read;
  for (auto& bound : bounds) {
    if (!bound->app->parsed()) continue;
    bound->arguments.values.merge(before.values);  // what stands behind the command counts first
    return RunAndTell(app.get_name(), bound.get());
  }
  return static_cast<int>(Exit::kUsage);
}

// What the program is under the name that it was started by.
int Start(int argc, char** argv) {
  std::string_view program = argc > 0 ? argv[0] : "maru";
  program.remove_prefix(program.rfind('/') + 1);  // npos + 1 is 0
  for (const Command* const command : {&kServer, &kResourceManager}) {
    const std::string name = std::string("maru-") + command->name;
    if (program == name) return MainUnder(name, *command, argc, argv);
  }
  return Main(argc, argv);
}

}  // namespace

}  // namespace maru::tools

int main(int argc, char** argv) {
  maru::os::PrepareProgram();
  // Standard error is ours here: the client library leaves a handler that there is in its place.
  maru::SetCheckHandler([](const maru::CheckFailure& failure) {
    std::fprintf(stderr, "%s\n", failure.ToString().c_str());
  });
  return maru::tools::Start(argc, argv);
}
