// Builds the command line from the tables and runs the command. The only file that knows CLI11.

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "tools/command.h"

namespace maru::tools {

namespace {

constexpr OptionRow kCommon[] = {
    {"json", nullptr, "", "Print JSON for machines", Takes::kNothing},
    {"server", "URL", "",
     "Socket of the server: a path or unix:PATH (also MARU_SERVER, MARU_SOCKET)", Takes::kOne},
};

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
  const std::string flag = std::string("--") + row.flag;
  if (row.takes == Takes::kNothing) {
    app->add_flag_callback(
        flag, [arguments, row] { arguments->values[row.flag] = {"true"}; }, row.help);
    return;
  }
  std::string help = row.help;
  if (row.fallback[0] != '\0') help += std::string(" [") + row.fallback + "]";
  AddValue(app, flag, row.flag, help, row.takes, arguments)->type_name(row.value);
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
      group = parent->add_subcommand(first, "A pool at rest: init, inspect, check");
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
  for (const OptionRow& row : command.options) {
    if (std::string_view(row.flag) == "config") {
      app->set_config("--config", "", row.help)->type_name(row.value);
    } else {
      AddOption(app, row, &bound->arguments);
    }
  }
  for (const OptionRow& row : CommonOptions()) AddOption(app, row, &bound->arguments);
}

void FillDefaults(Bound* bound) {
  for (const OptionRow& row : bound->command->options) {
    auto& values = bound->arguments.values[row.flag];
    if (values.empty() && row.fallback[0] != '\0') values.push_back(row.fallback);
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Maru: KV cache that LLM serving engines share in one memory pool", "maru");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("maru ") + MARU_VERSION);
  std::vector<std::unique_ptr<Bound>> bounds;
  for (const Command* command : Commands()) {
    bounds.push_back(std::make_unique<Bound>());
    Bind(&app, *command, bounds.back().get());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(Exit::kUsage);
  }
  for (auto& bound : bounds) {
    if (!bound->app->parsed()) continue;
    FillDefaults(bound.get());
    return static_cast<int>(bound->command->run(bound->arguments));
  }
  return static_cast<int>(Exit::kUsage);
}

}  // namespace

std::span<const OptionRow> CommonOptions() { return kCommon; }

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

Exit Fail(const Status& status) {
  std::fprintf(stderr, "maru: %s\n", std::string(status.message()).c_str());
  switch (status.code()) {
    case StatusCode::kInvalidArgument: return Exit::kUsage;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded: return Exit::kNoServer;
    case StatusCode::kInternal:
    case StatusCode::kDataLoss: return Exit::kBroken;
    default: return Exit::kNotThere;
  }
}

}  // namespace maru::tools

int main(int argc, char** argv) { return maru::tools::Main(argc, argv); }
