#include "server/metadata_server.h"

#include <utility>

namespace maru::server {

namespace compat = wire::compat;

void MetadataServer::SetRoad(compat::LocalRoad road) {
  context_.name_space = catalogue::Namespace(road.name_space);
  context_.local_road = std::move(road);
}

void MetadataServer::StartLeasesAnew() {
  engine_->StartLeasesAnew(context_, Now());
  on_activity_();
}

compat::MetadataReply MetadataServer::Answer(compat::MetadataType type,
                                             const compat::MetadataRequest& request) {
  compat::MetadataReply reply = engine_->HandleMetadata(context_, type, request, Now());
  on_activity_();
  return reply;
}

uint64_t MetadataServer::Begin(compat::MetadataType type, const compat::MetadataRequest& request,
                               compat::MetadataReply* reply) {
  const uint64_t number = engine_->BeginMetadata(context_, type, request, Now(), reply);
  on_activity_();
  return number;
}

std::optional<compat::MetadataReply> MetadataServer::GoOn(uint64_t number) {
  std::optional<compat::MetadataReply> reply = engine_->GoOnMetadata(number, Now());
  on_activity_();
  return reply;
}

void MetadataServer::GiveUp(uint64_t number) { engine_->GiveUpMetadata(number, Now()); }

void MetadataServer::OnUndelivered(const compat::MetadataReply& reply) {
  engine_->MetadataUndelivered(reply, Now());
  on_activity_();
}

}  // namespace maru::server
