#include "server/metadata_server.h"

#include <utility>

namespace maru::server {

namespace compat = wire::compat;

void MetadataServer::SetRoad(compat::LocalRoad road) {
  context_.name_space = catalogue::Namespace(road.name_space);
  context_.local_road = std::move(road);
}

compat::MetadataReply MetadataServer::Answer(compat::MetadataType type,
                                             const compat::MetadataRequest& request) {
  compat::MetadataReply reply =
      engine_->HandleMetadata(context_, type, request, static_cast<uint64_t>(clock_->Now()));
  on_activity_();
  return reply;
}

}  // namespace maru::server
