#include "server/resource_manager_server.h"

#include "wire/compat/resource_manager_codec.h"

namespace maru::server {

std::vector<std::byte> ResourceManagerServer::Answer(const net::compat::RmCaller& caller,
                                                     const wire::compat::RmRequest& request) {
  if (const auto* open = std::get_if<wire::compat::RmOpenRequest>(&request)) {
    return wire::compat::EncodeRmReply(endpoints_->Open(caller, *open));
  }
  const wire::compat::RmReply reply = engine_->HandleRm(caller.connection, request, Now());
  on_activity_();
  return wire::compat::EncodeRmReply(reply);
}

net::compat::RmHolds ResourceManagerServer::HoldsOf(const net::compat::RmCaller& caller) const {
  return {.endpoints = endpoints_->Has(caller) ? size_t{1} : 0,
          .regions = engine_->RmRegionsOf(caller.client_id)};
}

void ResourceManagerServer::OnClosed(const net::compat::RmCaller& caller) {
  endpoints_->Close(caller);
  engine_->RmDisconnected(caller.connection, Now());
  on_activity_();
}

}  // namespace maru::server
