// maru serve

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "base/units.h"
#include "client/defaults.h"
#include "maru/log.h"
#include "os/clock.h"
#include "server/pool_spec.h"
#include "server/server.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/output.h"

namespace maru::tools {

namespace {

class StderrLog final : public LogSink {
 public:
  void Write(LogLevel level, std::string_view line) override {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char stamp[32];
    std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &parts);
    std::fprintf(stderr, "%s %s %.*s\n", stamp, std::string(LogLevelName(level)).c_str(),
                 static_cast<int>(line.size()), line.data());
  }
};

// MARU_LOG_LEVEL, else info.
Result<LogLevel> LogLevelOf() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment of a tool.
  const char* const named = std::getenv("MARU_LOG_LEVEL");
  if (named == nullptr || named[0] == '\0') return LogLevel::kInfo;
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (LogLevelName(level) == named) return level;
  }
  return InvalidArgument("MARU_LOG_LEVEL=" + std::string(named) +
                         ": debug, info, warning or error is wanted");
}

constexpr OptionRow kOptions[] = {
    {"pool", "SPEC", "auto",
     "A pool: auto, shm:size=4GiB, file:PATH,size=4GiB (with ,checksum: stores carry the hash of "
     "their bytes); may be given several times, filled in order",
     Takes::kMany},
    {"socket", "PATH", "", "Listen on this unix socket (default: MARU_SOCKET, /tmp/maru-UID.sock)",
     Takes::kOne},
    {"socket-group", "NAME", "", "Admit the members of this group; socket and pools get mode 0660",
     Takes::kOne},
    {"eviction", "lru|none", "lru",
     "When a pool is full: retire the least recently used keys, or refuse", Takes::kOne},
    {"fresh", nullptr, "", "Make the pools anew instead of going on with what is in them",
     Takes::kNothing},
    {"region-size", "SIZE", "64MiB", "Cut regions of at least this size", Takes::kOne},
    {"config", "FILE", "", "Read options from FILE (KEY = VALUE lines)", Takes::kOne},
    {"metrics", "ADDRESS", "", "Not in this version", Takes::kOne},
    {"listen", "URL", "", "Not in this version", Takes::kOne},
    {"rm-listen", "ADDRESS", "", "Not in this version", Takes::kOne},
};

Result<server::ServerOptions> OptionsOf(const Arguments& arguments) {
  for (const char* later : {"metrics", "listen", "rm-listen"}) {
    if (arguments.Has(later) && arguments.Get(later) != "none") {
      return InvalidArgument(std::string("--") + later +
                             ": this version serves its unix socket only");
    }
  }
  server::ServerOptions options;
  MARU_ASSIGN_OR_RETURN(const server::Machine machine, server::ReadMachine());
  for (const std::string& text : arguments.All("pool")) {
    MARU_ASSIGN_OR_RETURN(server::PoolSpec spec, server::ParsePoolSpec(text, machine));
    if (arguments.Has("fresh")) {
      spec.fresh = true;
      if (spec.create_bytes == 0 && text == "auto") {
        MARU_ASSIGN_OR_RETURN(spec.create_bytes, server::AutoPoolBytes(machine));
      }
    }
    options.pools.push_back(std::move(spec));
  }
  options.socket_path =
      arguments.Has("socket") ? arguments.Get("socket") : client::DefaultSocketPath();
  options.socket_group = arguments.Get("socket-group");
  const std::string eviction = arguments.Get("eviction");
  if (eviction != "lru" && eviction != "none") {
    return InvalidArgument("--eviction " + eviction + ": lru or none is wanted");
  }
  options.engine.eviction =
      eviction == "lru" ? engine::Eviction::kLeastRecentlyUsed : engine::Eviction::kNone;
  MARU_ASSIGN_OR_RETURN(options.engine.region_bytes_min, arguments.Size("region-size"));
  options.engine.server_version = MARU_VERSION;
  return options;
}

Exit Run(const Arguments& arguments) {
  const Result<LogLevel> level = LogLevelOf();
  if (!level.ok()) return Fail(level.status());
  SetLogSink(std::make_shared<StderrLog>(), *level);
  const Result<server::ServerOptions> options = OptionsOf(arguments);
  if (!options.ok()) return Fail(options.status());
  auto server = server::Server::Create(*options, &os::RealClock());
  if (!server.ok()) return Fail(server.status());
  for (const std::string& line : (*server)->Describe()) PrintLine(line);
  PrintLine("listening on " + options->socket_path);
  std::fflush(stdout);
  const Status ran = (*server)->Run();
  return ran.ok() ? Exit::kDone : Fail(ran);
}

}  // namespace

extern const Command kServe = {
    "serve",
    "Serve pools to the clients of this host",
    "Examples:\n"
    "  maru serve                                     a pool of fitting size in /dev/shm\n"
    "  maru serve --pool shm:size=64GiB\n"
    "  maru serve --pool file:/mnt/pmem/kv,size=1TiB,checksum --socket /run/maru.sock\n"
    "The pool stays when the server stops; the next one goes on with its keys.",
    kOptions,
    {},
    &Run};

}  // namespace maru::tools
