// maru serve

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "client/defaults.h"
#include "maru/log.h"
#include "os/clock.h"
#include "os/process.h"
#include "server/pool_spec.h"
#include "server/server.h"
#include "tools/commands.h"
#include "tools/connect.h"
#include "tools/output.h"
#include "tools/serve_options.h"
#include "tools/stderr_log.h"

namespace maru::tools {

Status SetUpLog(const std::string& level_name) {
  // Whoever reads what the server says may go; its clients stay.
  os::IgnoreBrokenPipes();
  std::string named = level_name;
  for (char& c : named) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (named == "warn") named = "warning";
  for (LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (LogLevelName(level) != named) continue;
    SetLogSink(std::make_shared<StderrLog>(&os::RealClock()), level);
    return OkStatus();
  }
  return InvalidArgument("--log-level " + level_name + ": debug, info, warning or error is wanted");
}

namespace {

// Their help lines say what to use instead.
constexpr std::string_view kLater[] = {"metrics"};

Status RefuseWhatComesLater(const Arguments& arguments) {
  for (const OptionRow& row : kServeOptions) {
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
                                              const char* fallback, std::string option) {
  if (!arguments.Has(flag)) {
    return server::ListenOptions{fallback, server::WhenTaken::kDoWithout, std::move(option)};
  }
  const std::string address = arguments.Get(flag);
  if (address.empty()) return InvalidArgument("--" + std::string(flag) + " is empty: write none");
  return server::ListenOptions{address == "none" ? "" : address, server::WhenTaken::kRefuse,
                               std::move(option)};
}

Status AddUpstream(const Arguments& arguments, const std::string& rm_option,
                   server::ServerOptions* options) {
  server::UpstreamOptions& upstream = options->upstream;
  MARU_ASSIGN_OR_RETURN(upstream.metadata,
                        ListenOptionsOf(arguments, "listen", server::kMetadataAddress, "--listen"));
  MARU_ASSIGN_OR_RETURN(
      upstream.resource_manager,
      ListenOptionsOf(arguments, "rm-listen", server::kResourceManagerAddress, rm_option));
  if (arguments.Has("allow-remote")) upstream.reach = server::Reach::kAnyHost;
  MARU_ASSIGN_OR_RETURN(const uint64_t hold_s,
                        arguments.Number("wire-hold", 0, kWireHoldSecondsMax));
  options->engine.wire_hold_ns = hold_s * 1'000'000'000;
  return OkStatus();
}

Result<server::ServerOptions> OptionsOf(const Arguments& arguments, const std::string& rm_option) {
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
  MARU_RETURN_IF_ERROR(AddUpstream(arguments, rm_option, &options));
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

}  // namespace

Result<Exit> Serve(const Arguments& arguments) { return ServeWith(arguments, "--rm-listen"); }

Result<Exit> ServeWith(const Arguments& arguments, const std::string& rm_option) {
  os::GiveLargeBuffersBack();
  MARU_RETURN_IF_ERROR(SetUpLog(arguments.Get("log-level")));
  MARU_ASSIGN_OR_RETURN(const server::ServerOptions options, OptionsOf(arguments, rm_option));
  MARU_ASSIGN_OR_RETURN(const auto server, server::Server::Create(options, &os::RealClock()));
  if (arguments.json()) {
    TellMachines(*server);
  } else {
    TellPeople(options, *server);
  }
  if (std::fflush(stdout) != 0) LogWarning("where the server listens could not be printed");
  std::clearerr(stdout);
  MARU_RETURN_IF_ERROR(server->Run());
  return Exit::kDone;
}

extern const Command kServe = {
    "serve",
    "Serve pools to the clients of this host",
    "Examples:\n"
    "  maru serve                                     a pool of fitting size in /dev/shm\n"
    "  maru serve --pool shm:size=64GiB\n"
    "  maru serve --pool file:/mnt/pmem/kv,size=1TiB,checksum --socket /run/maru.sock\n"
    "The pool stays when the server stops; the next one goes on with its keys.",
    kServeOptions,
    {},
    &Serve};

}  // namespace maru::tools
