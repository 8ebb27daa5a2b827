// Builds the command line from the tables, runs the command and tells its error. The only file that
// knows CLI11.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "os/errno_status.h"
#include "os/process.h"
#include "tools/command.h"
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
  if (takes == Takes::kMany) {
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
  app->footer(command.details);
  if (command.summary[0] == '\0') app->group("");  // an empty group is not shown
  bound->command = &command;
  bound->app = app;
  for (const PositionalRow& row : command.positionals) {
    AddValue(app, row.name, row.name, row.help, row.takes, &bound->arguments)->required();
  }
  for (const auto& rows : {command.options, CommonOptions()}) {
    for (const OptionRow& row : rows) AddOption(app, row, &bound->arguments);
  }
}

int Fail(const Status& status, bool as_json) {
  Note(as_json ? ErrorLine(status) : "maru: " + Printable(status.message()));
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
  std::vector<OptionRow> rows(bound->command->options.begin(), bound->command->options.end());
  rows.insert(rows.end(), CommonOptions().begin(), CommonOptions().end());
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

// This program under one of upstream's names is that command.
std::vector<char*> WordsOf(int argc, char** argv) {
  // CLI11 wants them writable.
  static char server[] = "server";
  static char resource_manager[] = "resource-manager";
  std::vector<char*> words(argv, argv + argc);
  if (words.empty()) return words;
  std::string_view program = words.front();
  program.remove_prefix(program.rfind('/') + 1);  // npos + 1 is 0
  if (program == "maru-server") words.insert(words.begin() + 1, server);
  if (program == "maru-resource-manager") words.insert(words.begin() + 1, resource_manager);
  return words;
}

int Main(int argc, char** argv) {
  CLI::App app("Maru: KV cache that LLM serving engines share in one memory pool", "maru");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 not there or refused, 2 usage, 3 no server, 4 something is "
      "broken.\nmaru COMMAND --help tells more.");
  app.set_version_flag("--version", std::string("maru ") + MARU_VERSION);
  std::vector<std::unique_ptr<Bound>> bounds;
  for (const Command* command : Commands()) {
    bounds.push_back(std::make_unique<Bound>());
    Bind(&app, *command, bounds.back().get());
  }
  if (argc <= 1) {
    Note(app.help());
    return static_cast<int>(Exit::kUsage);
  }
  const std::string_view first = argv[1];
  const bool known =
      !app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == first; }).empty();
  if (!first.starts_with('-') && !known) {
    return Fail(
        InvalidArgument("there is no command \"" + std::string(first) + "\"; see maru --help"),
        AsksForJson(argc, argv));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Fail(InvalidArgument(std::string(error.what()) + "; see " + NameOf(&app) + " --help"),
                AsksForJson(argc, argv));
  }
  for (auto& bound : bounds) {
    if (!bound->app->parsed()) continue;
    const Result<Exit> exit = Run(bound.get());
    return exit.ok() ? static_cast<int>(*exit) : Fail(exit.status(), bound->arguments.json());
  }
  return static_cast<int>(Exit::kUsage);
}

}  // namespace

}  // namespace maru::tools

int main(int argc, char** argv) {
  maru::os::PrepareProgram();
  // Standard error is ours here: the client library leaves a handler that there is in its place.
  maru::SetCheckHandler([](const maru::CheckFailure& failure) {
    std::fprintf(stderr, "%s\n", failure.ToString().c_str());
  });
  std::vector<char*> words = maru::tools::WordsOf(argc, argv);
  return maru::tools::Main(static_cast<int>(words.size()), words.data());
}
