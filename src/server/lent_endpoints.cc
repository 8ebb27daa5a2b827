#include "server/lent_endpoints.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace maru::server {

using wire::compat::RmOpenReply;
using wire::compat::RmStatus;

namespace {

RmOpenReply Refused(RmStatus status, std::string why) {
  return {.status = status, .address = {}, .message = std::move(why)};
}

// Of an endpoint that cannot be made.
RmStatus StatusOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kAlreadyExists: return RmStatus::kInUse;
    case StatusCode::kResourceExhausted: return RmStatus::kNoDescriptors;
    default: return RmStatus::kInvalid;
  }
}

}  // namespace

RmOpenReply LentEndpoints::Open(const net::compat::RmCaller& caller,
                                const wire::compat::RmOpenRequest& request) {
  if (caller.client_id.empty()) {
    return Refused(RmStatus::kInvalid, "an endpoint needs its client's id");
  }
  if (endpoints_.contains(caller.connection)) {
    return Refused(RmStatus::kInvalid, "this connection has an endpoint already");
  }
  if (endpoints_.size() >= kEndpointsMax) {
    return Refused(RmStatus::kNoMemory,
                   std::to_string(kEndpointsMax) + " endpoints are open, the most there can be");
  }
  for (const std::string_view path : request.paths) {
    if (std::ranges::find(wiring_.pool_paths, path) == wiring_.pool_paths.end()) {
      return Refused(RmStatus::kNoEntry, "no pool is served from " + std::string(path));
    }
  }
  const Status checked = CheckMetadataAddress("the endpoint", request.address, reach_);
  if (!checked.ok()) return Refused(RmStatus::kInvalid, std::string(checked.message()));
  Endpoint endpoint;
  endpoint.server =
      std::make_unique<MetadataServer>(wiring_.engine, wiring_.clock, wiring_.on_activity);
  auto socket = net::compat::MetadataEndpoint::Create(wiring_.loop, endpoint.server.get(),
                                                      request.address, wiring_.metadata_peers);
  if (!socket.ok()) {
    return Refused(StatusOf(socket.status()), std::string(socket.status().message()));
  }
  endpoint.socket = std::move(*socket);
  // Nobody is answered before this step ends.
  endpoint.server->set_rm_address(rm_address_);
  endpoint.server->set_pool_paths({request.paths.begin(), request.paths.end()});
  if (request.lease_ms.has_value()) {
    endpoint.server->set_lease_ns(*request.lease_ms * kNanosPerMilli);
  }
  wire::compat::LocalRoad road = local_road_;
  road.name_space = endpoint.socket->address();
  endpoint.server->SetRoad(std::move(road));
  endpoint.server->StartLeasesAnew();
  RmOpenReply reply{.address = endpoint.socket->address()};
  LogInfo("metadata endpoint " + reply.address + " opened for " + std::string(caller.client_id));
  endpoints_.emplace(caller.connection, std::move(endpoint));
  return reply;
}

void LentEndpoints::Close(const net::compat::RmCaller& caller) {
  const auto at = endpoints_.find(caller.connection);
  if (at == endpoints_.end()) return;
  LogInfo("metadata endpoint " + at->second.socket->address() +
          " closed: " + std::string(caller.client_id) + " is gone");
  at->second.server->StartLeasesAnew();
  endpoints_.erase(at);
}

}  // namespace maru::server
