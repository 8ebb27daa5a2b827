// maru resource-manager and maru server, which upstream's users know as maru-resource-manager and
// maru-server: this program under those names is these commands.

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/log.h"
#include "client/defaults.h"
#include "net/event_loop.h"
#include "os/clock.h"
#include "os/event.h"
#include "os/resolve.h"
#include "server/endpoint_keeper.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/serve_options.h"
#include "wire/compat/resource_manager.h"

namespace maru::tools {

namespace {

constexpr uint64_t kPortMax = 65'535;

constexpr uint32_t kResolveMs = 10'000;

// "HOST:PORT" of the two options, the host as a number: who listens does not look names up.
Result<std::string> AddressOf(const Arguments& arguments) {
  std::string host = arguments.Get("host");
  MARU_ASSIGN_OR_RETURN(const uint64_t port, arguments.Number("port", 0, kPortMax));
  if (host == "*") return "*:" + std::to_string(port);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  const auto addresses = os::Resolve({.host = host, .port = static_cast<uint16_t>(port)},
                                     os::Deadline::After(kResolveMs));
  if (addresses.ok()) return addresses->front().ToString();
  return InvalidArgument("--host " + host + ": " + std::string(addresses.status().message()));
}

constexpr std::string_view kUnused = "Taken and not used";

// What was asked for in vain is said once; the row's help is the reason.
void WarnIfUnused(const Arguments& given, const OptionRow& row) {
  const std::string_view help = row.help;
  if (help.starts_with(kUnused) && given.Has(row.flag)) {
    LogWarning(std::string("--") + row.flag + " is taken and not used" +
               std::string(help.substr(kUnused.size())));
  }
}

// --- maru resource-manager

constexpr const char* kStateDir = "state-dir";
constexpr const char* kIdleTimeout = "idle-timeout";
constexpr const char* kWorkers = "num-workers";

constexpr OptionRow kManagerOwn[] = {
    {"host", "HOST", "127.0.0.1", "Listen at this address or name of the host", Takes::kOne, "",
     'H'},
    {"port", "PORT", "9850", "Listen at this port; 0: any free one", Takes::kOne, "", 'p'},
    {"allow-remote", nullptr, "",
     "Let --host, and that of each maru-server, name an address that other hosts reach, "
     "without any protection",
     Takes::kNothing},
    {kStateDir, "FOLDER", "", "Taken and not used: all state lies in the pools", Takes::kOne, "",
     'd'},
    {kIdleTimeout, "SECONDS", "", "Taken and not used: the server stays until it is stopped",
     Takes::kOne, "", 't'},
    {kWorkers, "N", "", "Taken and not used: one thread serves all", Takes::kOne, "", 'w'},
};

// What `maru serve` has and this command says otherwise.
constexpr bool IsOtherwise(const OptionRow& row) {
  const std::string_view flag = row.flag;
  return flag == "listen" || flag == "rm-listen" || flag == "allow-remote";
}

constexpr size_t kManagerRows =
    std::size(kManagerOwn) + std::size(kServeOptions) -
    static_cast<size_t>(std::ranges::count_if(kServeOptions, IsOtherwise));

constexpr std::array<OptionRow, kManagerRows> kManagerOptions = [] {
  std::array<OptionRow, kManagerRows> rows{};
  auto* const rest = std::ranges::copy(kManagerOwn, rows.data()).out;
  auto* const end = std::ranges::copy_if(kServeOptions, rest, [](const OptionRow& row) {
                      return !IsOtherwise(row);
                    }).out;
  std::for_each(rest, end, [](OptionRow& row) {
    if (std::string_view(row.flag) == "log-level") row.letter = 'l';
  });
  return rows;
}();

Result<Exit> Manage(const Arguments& given) {
  MARU_RETURN_IF_ERROR(SetUpLog(given.Get("log-level")));
  for (const OptionRow& row : kManagerOwn) WarnIfUnused(given, row);
  Arguments arguments = given;
  MARU_ASSIGN_OR_RETURN(const std::string address, AddressOf(given));
  arguments.values["listen"] = {"none"};
  arguments.values["rm-listen"] = {address};
  return ServeWith(arguments, "--host, --port");
}

// --- maru server

constexpr const char* kDaxPath = "dax-path";
constexpr const char* kLeaseTtl = "client-lease-ttl";
constexpr const char* kCpuOnly = "cpu-only";
constexpr const char* kRemoteBind = "remote-bind";
constexpr const char* kOfRemoteBind = "Taken and not used: there is no --remote-bind";

constexpr OptionRow kServerOptions[] = {
    {"host", "HOST", "127.0.0.1", "Listen at this address or name of the resource manager's host",
     Takes::kOne},
    {"port", "PORT", "5555", "Listen at this port; 0: any free one", Takes::kOne},
    {"rm-address", "HOST:PORT", "127.0.0.1:9850", "The resource manager, which owns the pools",
     Takes::kOne},
    {kDaxPath, "PATH", "",
     "Take regions from this pool alone; may be given several times: from the first that has room",
     Takes::kMany},
    {kLeaseTtl, "SECONDS", "30",
     "A client that has a lease loses its regions when it has not renewed it for so long; 0: "
     "clients have no leases and are never taken for dead",
     Takes::kOne},
    {kCpuOnly, nullptr, "",
     "Taken and not used: there is no CPU storage tier, its clients are told so, and the endpoint "
     "serves the pools of the resource manager as without it",
     Takes::kNothing},
    {"cpu-capacity-limit", "BYTES", "", "Taken and not used: there is no CPU storage tier",
     Takes::kOne},
    {kRemoteBind, "URL", "", "Refused: pages are shared within one host", Takes::kOne},
    {"remote-pool-size", "SIZE", "", kOfRemoteBind, Takes::kOne},
    {"remote-page-bytes", "SIZE", "", kOfRemoteBind, Takes::kOne},
    {"remote-pool-id", "NAME", "", kOfRemoteBind, Takes::kOne},
    {"remote-ucx-device", "DEVICE", "", kOfRemoteBind, Takes::kOne},
    {"remote-capacity", "SIZE", "", kOfRemoteBind, Takes::kOne},
    {"remote-eviction", "lru|none", "", kOfRemoteBind, Takes::kOne},
    {"remote-reservation-ttl", "SECONDS", "", kOfRemoteBind, Takes::kOne},
    {"remote-ticket-ttl", "SECONDS", "", kOfRemoteBind, Takes::kOne},
    {"remote-quarantine-ttl", "SECONDS", "", kOfRemoteBind, Takes::kOne},
    {"log-level", "LEVEL", "info", "Log to standard error from debug, info, warning or error on",
     Takes::kOne, "MARU_LOG_LEVEL"},
};

Result<server::EndpointKeeperOptions> KeeperOptions(const Arguments& arguments) {
  server::EndpointKeeperOptions options;
  MARU_ASSIGN_OR_RETURN(const std::string address, AddressOf(arguments));
  options.address = "tcp://" + address;
  options.rm_address = arguments.Get("rm-address");
  if (!os::HostPort::Parse(options.rm_address).ok()) {
    return InvalidArgument("--rm-address " + options.rm_address.substr(0, 64) +
                           ": wanted is HOST:PORT of a resource manager, as in 127.0.0.1:9850");
  }
  options.paths = arguments.All(kDaxPath);
  MARU_ASSIGN_OR_RETURN(options.lease_ms,
                        arguments.Milliseconds(kLeaseTtl, wire::compat::kRmOpenLeaseMsMax / 1000));
  options.client_id = client::DefaultLabel();
  return options;
}

void Tell(const Arguments& arguments, const std::string& address) {
  if (arguments.json()) {
    PrintLine("{\"listening\": true, \"metadata\": " + JsonString(address) +
              ", \"resource_manager\": " + JsonString(arguments.Get("rm-address")) + "}");
  } else {
    PrintLine("listening on " + address);
  }
  std::fflush(stdout);
}

// What would serve other hosts is not done without: they would wait for ever.
Status CheckWhatIsNotOffered(const Arguments& arguments) {
  if (arguments.Has(kRemoteBind)) {
    return FailedPrecondition("--remote-bind " + arguments.Get(kRemoteBind) +
                              ": pages are shared within one host, others cannot be served; start "
                              "a server on each of them, and this one without it");
  }
  if (arguments.Has(kCpuOnly) && arguments.Has(kDaxPath)) {
    return InvalidArgument("--cpu-only and --dax-path ask for different storage: choose one");
  }
  for (const OptionRow& row : kServerOptions) WarnIfUnused(arguments, row);
  return OkStatus();
}

Result<Exit> HoldEndpoint(const Arguments& arguments) {
  MARU_RETURN_IF_ERROR(SetUpLog(arguments.Get("log-level")));
  MARU_RETURN_IF_ERROR(CheckWhatIsNotOffered(arguments));
  MARU_ASSIGN_OR_RETURN(const server::EndpointKeeperOptions options, KeeperOptions(arguments));
  MARU_ASSIGN_OR_RETURN(const os::SignalFd signals, os::DaemonSignals());
  MARU_ASSIGN_OR_RETURN(const auto loop, net::EventLoop::Create(&os::RealClock()));
  server::EndpointKeeper keeper(loop.get(), &os::RealClock(), options);
  keeper.on_open = [&](const std::string& address) { Tell(arguments, address); };
  MARU_RETURN_IF_ERROR(keeper.Connect());
  MARU_RETURN_IF_ERROR(loop->Watch(signals.fd(), os::Interest::kRead, [&](const os::ReadyEvent&) {
    const auto signal = signals.TryTake();
    if (signal && os::IsHangUp(*signal)) {
      return LogInfo("signal " + std::to_string(*signal) + ": going on");
    }
    loop->Stop();
  }));
  MARU_RETURN_IF_ERROR(loop->Run());
  loop->Unwatch(signals.fd());
  MARU_RETURN_IF_ERROR(keeper.failure());
  return Exit::kDone;
}

}  // namespace

extern const Command kResourceManager = {
    "resource-manager",
    "Own the pools, as upstream's maru-resource-manager does: `maru serve` with its options",
    "Installed as `maru-resource-manager` too. It is the server: clients of ours reach it through\n"
    "its socket, those of upstream's through the endpoints that `maru-server` opens at it.",
    kManagerOptions,
    {},
    &Manage};

extern const Command kServer = {
    "server",
    "Open a metadata endpoint at a resource manager, as upstream's maru-server",
    "Installed as `maru-server` too. The endpoint has keys of its own, the same after a restart "
    "at\n"
    "the same address, and lasts as long as this program, which goes on when the resource manager\n"
    "is started again.",
    kServerOptions,
    {},
    &HoldEndpoint};

}  // namespace maru::tools
