// Metadata endpoints that the daemon opens for others: each maru-server holds a connection to the
// resource manager and has one, with keys of its own, for as long as that connection lives
// (docs/formats/upstream_resource_manager.md).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/compat/resource_manager_endpoint.h"
#include "server/metadata_server.h"
#include "server/upstream_options.h"
#include "server/upstream_wiring.h"

namespace maru::server {

class LentEndpoints {
 public:
  static constexpr size_t kEndpointsMax = 64;  // each has a thread of ZeroMQ's

  // `local_road` is told to our own handlers, with each endpoint's namespace. REQUIRES: what the
  // wiring points to outlives this.
  LentEndpoints(UpstreamWiring wiring, Reach reach, wire::compat::LocalRoad local_road)
      : wiring_(std::move(wiring)), reach_(reach), local_road_(std::move(local_road)) {}

  // Told to clients of endpoints that are opened from now on.
  void set_rm_address(std::string address) { rm_address_ = std::move(address); }

  wire::compat::RmOpenReply Open(const net::compat::RmCaller& caller,
                                 const wire::compat::RmOpenRequest& request);
  bool Has(const net::compat::RmCaller& caller) const {
    return endpoints_.contains(caller.connection);
  }
  // The endpoint of a connection, if it has one.
  void Close(const net::compat::RmCaller& caller);

 private:
  struct Endpoint {
    std::unique_ptr<MetadataServer> server;
    std::unique_ptr<net::compat::MetadataEndpoint> socket;
  };

  const UpstreamWiring wiring_;
  const Reach reach_;
  const wire::compat::LocalRoad local_road_;
  std::string rm_address_;
  std::map<uint64_t, Endpoint> endpoints_;  // by connection
};

}  // namespace maru::server
