// Between one address of upstream's metadata protocol and the engine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/metadata_context.h"
#include "net/compat/metadata_endpoint.h"

namespace maru::server {

class MetadataServer final : public net::compat::MetadataService {
 public:
  // REQUIRES: the pointers outlive this. on_activity is called after whatever the engine was told.
  MetadataServer(engine::Engine* engine, const Clock* clock, std::function<void()> on_activity)
      : engine_(engine), clock_(clock), on_activity_(std::move(on_activity)) {}

  // Before the first request; what is told is told at the handshake.
  void set_rm_address(std::string address) { context_.rm_address = std::move(address); }
  // Regions are taken from these pools alone; none: from any.
  void set_pool_paths(std::vector<std::string> paths) { context_.pool_paths = std::move(paths); }
  // Of clients' leases; 0: they have none. Without a call, what the engine takes.
  void set_lease_ns(uint64_t lease_ns) { context_.lease_ns = lease_ns; }
  // Its namespace is that of all keys.
  void SetRoad(wire::compat::LocalRoad road);
  // Its address was opened, or is about to be closed.
  void StartLeasesAnew();

  wire::compat::MetadataReply Answer(wire::compat::MetadataType type,
                                     const wire::compat::MetadataRequest& request) override;
  uint64_t Begin(wire::compat::MetadataType type, const wire::compat::MetadataRequest& request,
                 wire::compat::MetadataReply* reply) override;
  std::optional<wire::compat::MetadataReply> GoOn(uint64_t number) override;
  void GiveUp(uint64_t number) override;
  void OnUndelivered(const wire::compat::MetadataReply& reply) override;

 private:
  uint64_t Now() const { return static_cast<uint64_t>(clock_->Now()); }

  engine::Engine* const engine_;
  engine::MetadataContext context_;
  const Clock* const clock_;
  const std::function<void()> on_activity_;
};

}  // namespace maru::server
