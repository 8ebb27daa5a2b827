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
    {"listen", "URL", "",
     "Serve clients of upstream's metadata protocol there, or none (default: tcp://127.0.0.1:5555; "
     "when that is taken, the server says so and goes on without)",
     Takes::kOne},
    {"rm-listen", "ADDRESS", "",
     "Serve clients of upstream's resource-manager protocol there, or none (default: "
     "127.0.0.1:9850; when that is taken, any free port, which clients are told at --listen)",
     Takes::kOne},
    {"allow-remote", nullptr, "",
     "Let --listen and --rm-listen name addresses that other hosts reach, without any protection",
     Takes::kNothing},
    {"wire-hold", "SECONDS", "60",
     "Keep a page for so long that a client of upstream's, which holds no lease, was told of",
     Takes::kOne},
    {"region-size", "SIZE", "64MiB", "Cut regions of at least this size", Takes::kOne},
    {"log-level", "LEVEL", "info", "Log to standard error from debug, info, warning or error on",
     Takes::kOne, "MARU_LOG_LEVEL"},
    {kConfigFlag, "FILE", "", "Read options from FILE, lines of KEY = VALUE", Takes::kOne},
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
constexpr std::string_view kLater[] = {"metrics"};

Status RefuseWhatComesLater(const Arguments& arguments) {
  for (const OptionRow& row : kOptions) {
    const bool later = std::ranges::find(kLater, row.flag) != std::end(kLater);
    if (!later || arguments.Get(row.flag) == "none") continue;
    return InvalidArgument(std::string("--") + row.flag + " " + arguments.Get(row.flag) + ": " +
                           row.help);
  }
  return OkStatus();
}

constexpr uint64_t kWireHoldSecondsMax = 86'400;

// What was not asked for may be done without.
Result<server::ListenOptions> ListenOptionsOf(const Arguments& arguments, std::string_view flag,
                                              const char* fallback) {
  if (!arguments.Has(flag)) return server::ListenOptions{fallback, server::WhenTaken::kDoWithout};
  const std::string address = arguments.Get(flag);
  if (address.empty()) return InvalidArgument("--" + std::string(flag) + " is empty: write none");
  return server::ListenOptions{address == "none" ? "" : address, server::WhenTaken::kRefuse};
}

Status AddUpstream(const Arguments& arguments, server::ServerOptions* options) {
  server::UpstreamOptions& upstream = options->upstream;
  MARU_ASSIGN_OR_RETURN(upstream.metadata,
                        ListenOptionsOf(arguments, "listen", server::kMetadataAddress));
  MARU_ASSIGN_OR_RETURN(upstream.resource_manager,
                        ListenOptionsOf(arguments, "rm-listen", server::kResourceManagerAddress));
  if (arguments.Has("allow-remote")) upstream.reach = server::Reach::kAnyHost;
  MARU_ASSIGN_OR_RETURN(const uint64_t hold_s,
                        arguments.Number("wire-hold", 0, kWireHoldSecondsMax));
  options->engine.wire_hold_ns = hold_s * 1'000'000'000;
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
  MARU_RETURN_IF_ERROR(AddUpstream(arguments, &options));
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
  const server::UpstreamAddresses upstream = server.upstream();
  if (!upstream.metadata.empty()) {
    PrintLine("upstream's metadata protocol at " + upstream.metadata);
  }
  if (!upstream.resource_manager.empty()) {
    PrintLine("upstream's resource-manager protocol at " + upstream.resource_manager);
  }
  const auto& addresses = server.addresses();
  for (size_t i = 1; i < addresses.size(); ++i) {
    PrintLine("also at " + addresses[i] + ", for containers that share the network alone");
  }
  PrintLine("listening on " + Printable(addresses[0]));
}

std::string AddressOrNull(const std::string& address) {
  return address.empty() ? "null" : JsonString(address);
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
  const server::UpstreamAddresses upstream = server.upstream();
  PrintLine("{\"listening\": true, \"sockets\": [" + sockets +
            "], \"metadata\": " + AddressOrNull(upstream.metadata) + ", \"resource_manager\": " +
            AddressOrNull(upstream.resource_manager) + ", \"pools\": [" + pools + "]}");
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
