// maru serve

#include <algorithm>
#include <cstdio>
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

constexpr OptionRow kOptions[] = {
    {"pool", "SPEC", "auto",
     "A pool: auto, shm:size=4GiB, shm:NAME,size=4GiB, file:PATH,size=4GiB (with ,checksum: stores "
     "carry the hash of their bytes); may be given several times, filled in order",
     Takes::kMany},
    {"socket", "SOCKET", "",
     "Listen there: a PATH, which has an abstract socket beside it, or @NAME (default: "
     "/tmp/maru-UID.sock)",
     Takes::kOne, "MARU_SOCKET"},
    {"socket-group", "NAME", "", "Admit the members of this group; socket and pools get mode 0660",
     Takes::kOne},
    {"eviction", "lru|none", "lru",
     "When a pool is full: retire the least recently used keys, or refuse", Takes::kOne},
    {"fresh", nullptr, "", "Make the pools anew instead of going on with what is in them",
     Takes::kNothing},
    {"region-size", "SIZE", "64MiB", "Cut regions of at least this size", Takes::kOne},
    {"log-level", "LEVEL", "info", "Log to standard error from debug, info, warning or error on",
     Takes::kOne, "MARU_LOG_LEVEL"},
    {kConfigFlag, "FILE", "", "Read options from FILE, lines of KEY = VALUE", Takes::kOne},
    {"listen", "URL", "none", "Not in this version: clients come through --socket", Takes::kOne},
    {"rm-listen", "ADDRESS", "none", "Not in this version: --pool names the pools", Takes::kOne},
    {"metrics", "ADDRESS", "none", "Not in this version: maru stat --json has the numbers",
     Takes::kOne},
};

Status SetUpLog(const Arguments& arguments) {
  const std::string named = arguments.Get("log-level");
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (LogLevelName(level) != named) continue;
    SetLogSink(std::make_shared<StderrLog>(), level);
    return OkStatus();
  }
  return InvalidArgument("--log-level " + named + ": debug, info, warning or error is wanted");
}

// Their help lines say what to use instead.
constexpr std::string_view kLater[] = {"listen", "rm-listen", "metrics"};

Status RefuseWhatComesLater(const Arguments& arguments) {
  for (const OptionRow& row : kOptions) {
    const bool later = std::ranges::find(kLater, row.flag) != std::end(kLater);
    if (!later || arguments.Get(row.flag) == "none") continue;
    return InvalidArgument(std::string("--") + row.flag + " " + arguments.Get(row.flag) + ": " +
                           row.help);
  }
  return OkStatus();
}

Result<server::ServerOptions> OptionsOf(const Arguments& arguments) {
  MARU_RETURN_IF_ERROR(RefuseWhatComesLater(arguments));
  server::ServerOptions options;
  MARU_ASSIGN_OR_RETURN(const server::Machine machine, server::ReadMachine());
  const auto start = arguments.Has("fresh") ? server::Start::kFresh : server::Start::kGoOn;
  for (const std::string& text : arguments.All("pool")) {
    MARU_ASSIGN_OR_RETURN(server::PoolSpec spec, server::ParsePoolSpec(text, machine, start));
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

void TellPeople(const server::ServerOptions& options, const server::Server& server) {
  const auto pools = server.pools();
  for (size_t i = 0; i < pools.size(); ++i) {
    std::string line = "pool " + Printable(pools[i].path) + ": " + FormatSize(pools[i].pool_bytes) +
                       ", " + std::to_string(pools[i].keys) + " keys";
    const std::string& note = options.pools[i].note;
    if (!note.empty()) line += "; " + note;
    PrintLine(line);
  }
  const auto& addresses = server.addresses();
  for (size_t i = 1; i < addresses.size(); ++i) {
    PrintLine("also at " + addresses[i] + ", for containers that share the network alone");
  }
  PrintLine("listening on " + Printable(addresses[0]));
}

void TellMachines(const server::Server& server) {
  std::string pools;
  for (const auto& pool : server.pools()) {
    pools += std::string(pools.empty() ? "" : ", ") + "{\"path\": " + JsonString(pool.path) +
             ", \"pool_bytes\": " + std::to_string(pool.pool_bytes) +
             ", \"keys\": " + std::to_string(pool.keys) + "}";
  }
  std::string sockets;
  for (const std::string& address : server.addresses()) {
    sockets += std::string(sockets.empty() ? "" : ", ") + JsonString(address);
  }
  PrintLine("{\"listening\": true, \"sockets\": [" + sockets + "], \"pools\": [" + pools + "]}");
}

Result<Exit> Run(const Arguments& arguments) {
  MARU_RETURN_IF_ERROR(SetUpLog(arguments));
  MARU_ASSIGN_OR_RETURN(const server::ServerOptions options, OptionsOf(arguments));
  MARU_ASSIGN_OR_RETURN(const auto server, server::Server::Create(options, &os::RealClock()));
  if (arguments.json()) {
    TellMachines(*server);
  } else {
    TellPeople(options, *server);
  }
  std::fflush(stdout);
  MARU_RETURN_IF_ERROR(server->Run());
  return Exit::kDone;
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
