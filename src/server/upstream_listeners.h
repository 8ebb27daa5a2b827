// The addresses at which a daemon serves upstream's two protocols (docs/upstream_clients.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "maru/result.h"
#include "server/lent_endpoints.h"
#include "server/metadata_server.h"
#include "server/resource_manager_server.h"
#include "server/upstream_options.h"
#include "server/upstream_wiring.h"

namespace maru::server {

// Where a protocol is served, with the port that was chosen; empty: it is not.
struct UpstreamAddresses {
  std::string metadata;          // "tcp://127.0.0.1:5555"
  std::string resource_manager;  // "127.0.0.1:9850"
};

class UpstreamListeners {
 public:
  // Errors name the option, the address and what to do. `local_road` is told to our own handlers.
  // REQUIRES: what the wiring points to outlives this; the options are checked.
  static Result<std::unique_ptr<UpstreamListeners>> Open(const UpstreamOptions& options,
                                                         wire::compat::LocalRoad local_road,
                                                         const UpstreamWiring& wiring);
  UpstreamListeners(const UpstreamListeners&) = delete;
  UpstreamListeners& operator=(const UpstreamListeners&) = delete;

  const UpstreamAddresses& addresses() const { return addresses_; }

  // Where the resource manager is, for the next server: if its port was chosen, which it is where
  // its own was taken. A warning where clients were told another. Once the start is certain.
  void KeepPort() const;

 private:
  UpstreamListeners(Reach reach, wire::compat::LocalRoad local_road, const UpstreamWiring& wiring);
  Status OpenMetadata(const UpstreamOptions& options);
  Status OpenResourceManager(const UpstreamOptions& options);
  Result<std::unique_ptr<net::compat::ResourceManagerEndpoint>> ListenAt(std::string_view address);
  // Where an earlier server did, if that is free, or anywhere.
  Result<std::unique_ptr<net::compat::ResourceManagerEndpoint>> ListenElsewhere();

  enum class Port : uint8_t { kAsked, kChosen };

  net::EventLoop* const loop_;
  net::compat::PeerLimit* const metadata_peers_;
  const size_t rm_connections_max_;
  const std::vector<std::string> pool_paths_;
  MetadataServer metadata_;
  LentEndpoints lent_;
  ResourceManagerServer resource_manager_;
  UpstreamAddresses addresses_;
  Port rm_port_ = Port::kAsked;
  // Below what they call.
  std::unique_ptr<net::compat::MetadataEndpoint> metadata_endpoint_;
  std::unique_ptr<net::compat::ResourceManagerEndpoint> resource_manager_endpoint_;
};

}  // namespace maru::server
