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

uint64_t ResourceManagerServer::Begin(const net::compat::RmCaller& caller,
                                      const wire::compat::RmRequest& request,
                                      std::vector<std::byte>* reply) {
  if (!std::holds_alternative<wire::compat::RmAllocRequest>(request)) {
    *reply = Answer(caller, request);
    return 0;
  }
  wire::compat::RmReply answer;
  const uint64_t number = engine_->BeginRm(caller.connection, request, Now(), &answer);
  on_activity_();
  if (number == 0) *reply = wire::compat::EncodeRmReply(answer);
  return number;
}

std::optional<std::vector<std::byte>> ResourceManagerServer::GoOn(uint64_t number) {
  const std::optional<wire::compat::RmReply> reply = engine_->GoOnRm(number, Now());
  on_activity_();
  if (!reply.has_value()) return std::nullopt;
  return wire::compat::EncodeRmReply(*reply);
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
