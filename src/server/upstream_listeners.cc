#include "server/upstream_listeners.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "base/log.h"
#include "os/tcp_socket.h"
#include "server/kept_port.h"

namespace maru::server {

namespace {

bool IsTaken(const Status& status) { return status.code() == StatusCode::kAlreadyExists; }

Status Named(std::string_view option, const Status& status) {
  return Status(status.code(), std::string(option) + ": " + std::string(status.message()));
}

// With any port, where the own one is taken.
std::string Chosen(uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

// Regions are mapped on this host alone, so a client of an address of all interfaces takes this.
std::string ToldAddress(const os::TcpAddress& address) {
  const std::string port = std::to_string(address.port());
  if (address.host() == "0.0.0.0") return "127.0.0.1:" + port;
  if (address.host() == "::") return "[::1]:" + port;
  return address.ToString();
}

}  // namespace

UpstreamListeners::UpstreamListeners(Reach reach, wire::compat::LocalRoad local_road,
                                     const UpstreamWiring& wiring)
    : loop_(wiring.loop),
      metadata_peers_(wiring.metadata_peers),
      rm_connections_max_(wiring.rm_connections_max),
      pool_paths_(wiring.pool_paths),
      metadata_(wiring.engine, wiring.clock, wiring.on_activity),
      lent_(wiring, reach, local_road),
      resource_manager_(wiring.engine, wiring.clock, &lent_, wiring.on_activity) {
  metadata_.SetRoad(std::move(local_road));
}

Result<std::unique_ptr<UpstreamListeners>> UpstreamListeners::Open(
    const UpstreamOptions& options, wire::compat::LocalRoad local_road,
    const UpstreamWiring& wiring) {
  std::unique_ptr<UpstreamListeners> listeners(
      new UpstreamListeners(options.reach, std::move(local_road), wiring));
  MARU_RETURN_IF_ERROR(listeners->OpenMetadata(options));
  MARU_RETURN_IF_ERROR(listeners->OpenResourceManager(options));
  const UpstreamAddresses& at = listeners->addresses_;
  if (!at.metadata.empty() && at.resource_manager.empty()) {
    LogWarning(
        "upstream's own clients of " + at.metadata +
        " cannot map what they get: they are told of no resource manager, and ask whoever "
        "listens at their own default; --rm-listen ADDRESS serves them (handlers of ours need "
        "none)");
  }
  return listeners;
}

Status UpstreamListeners::OpenMetadata(const UpstreamOptions& options) {
  const ListenOptions& listen = options.metadata;
  if (listen.address.empty()) return OkStatus();
  auto endpoint =
      net::compat::MetadataEndpoint::Create(loop_, &metadata_, listen.address, metadata_peers_);
  if (!endpoint.ok() && IsTaken(endpoint.status()) && listen.when_taken == WhenTaken::kDoWithout) {
    LogWarning("clients of upstream's metadata protocol are not served: somebody else listens at " +
               listen.address + "; stop that and start again, or name another with --listen URL");
    return OkStatus();
  }
  if (!endpoint.ok()) return Named(listen.option, endpoint.status());
  metadata_endpoint_ = std::move(*endpoint);
  addresses_.metadata = metadata_endpoint_->address();
  return OkStatus();
}

Result<std::unique_ptr<net::compat::ResourceManagerEndpoint>> UpstreamListeners::ListenAt(
    std::string_view address) {
  MARU_ASSIGN_OR_RETURN(const os::TcpAddress parsed, os::TcpAddress::Parse(address));
  return net::compat::ResourceManagerEndpoint::Create(loop_, &resource_manager_, parsed,
                                                      rm_connections_max_);
}

Result<std::unique_ptr<net::compat::ResourceManagerEndpoint>> UpstreamListeners::ListenElsewhere() {
  if (const std::optional<uint16_t> kept = LoadKeptPort(pool_paths_)) {
    auto endpoint = ListenAt(Chosen(*kept));
    if (endpoint.ok()) return endpoint;
  }
  return ListenAt(Chosen(0));
}

void UpstreamListeners::KeepPort() const {
  if (resource_manager_endpoint_ == nullptr) return;
  const uint16_t port = resource_manager_endpoint_->address().port();
  const std::optional<uint16_t> kept = LoadKeptPort(pool_paths_);
  if (kept.has_value() && *kept != port) {
    LogWarning("the resource manager was at " + Chosen(*kept) +
               " before: clients that were told so by an endpoint go on asking there; start them "
               "again");
  }
  if (rm_port_ == Port::kChosen) {
    server::KeepPort(pool_paths_, port);
  } else if (kept.has_value()) {
    ForgetPort(pool_paths_);
  }
}

Status UpstreamListeners::OpenResourceManager(const UpstreamOptions& options) {
  const ListenOptions& listen = options.resource_manager;
  if (listen.address.empty()) return OkStatus();
  auto endpoint = ListenAt(listen.address);
  if (!endpoint.ok() && IsTaken(endpoint.status()) && listen.when_taken == WhenTaken::kDoWithout) {
    if (addresses_.metadata.empty()) {
      LogWarning(
          "clients of upstream's resource manager are not served: somebody else listens at " +
          listen.address + "; stop that and start again, or name another with --rm-listen ADDRESS");
      return OkStatus();
    }
    endpoint = ListenElsewhere();
    if (endpoint.ok()) {
      rm_port_ = Port::kChosen;
      LogWarning("somebody else listens at " + listen.address + ": the resource manager is at " +
                 (*endpoint)->address().ToString() + ", which clients of " + addresses_.metadata +
                 " are told");
    }
  }
  if (!endpoint.ok()) return Named(listen.option, endpoint.status());
  resource_manager_endpoint_ = std::move(*endpoint);
  addresses_.resource_manager = resource_manager_endpoint_->address().ToString();
  const std::string told = ToldAddress(resource_manager_endpoint_->address());
  metadata_.set_rm_address(told);
  lent_.set_rm_address(told);
  return OkStatus();
}

}  // namespace maru::server
