#include "server/metadata_server.h"

#include <utility>

#include "wire/compat/metadata_codec.h"

namespace maru::server {

namespace compat = wire::compat;

void MetadataServer::SetRoad(compat::LocalRoad road) {
  context_.name_space = catalogue::Namespace(road.name_space);
  context_.local_road = std::move(road);
}

std::vector<std::byte> MetadataServer::Answer(const compat::MetadataHeader& header,
                                              const compat::MetadataRequest& request) {
  const compat::MetadataReply reply =
      engine_->HandleMetadata(context_, static_cast<compat::MetadataType>(header.type), request,
                              static_cast<uint64_t>(clock_->Now()));
  on_activity_();
  return compat::EncodeMetadataReply(header, reply);
}

}  // namespace maru::server
