// Between upstream's resource-manager protocol and the engine, and the endpoints that are opened by
// it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "net/compat/resource_manager_endpoint.h"
#include "server/lent_endpoints.h"

namespace maru::server {

class ResourceManagerServer final : public net::compat::ResourceManagerService {
 public:
  // REQUIRES: the pointers outlive this. on_activity is called after whatever the engine was told.
  ResourceManagerServer(engine::Engine* engine, const Clock* clock, LentEndpoints* endpoints,
                        std::function<void()> on_activity)
      : engine_(engine),
        clock_(clock),
        endpoints_(endpoints),
        on_activity_(std::move(on_activity)) {}

  std::vector<std::byte> Answer(const net::compat::RmCaller& caller,
                                const wire::compat::RmRequest& request) override;
  uint64_t Begin(const net::compat::RmCaller& caller, const wire::compat::RmRequest& request,
                 std::vector<std::byte>* reply) override;
  std::optional<std::vector<std::byte>> GoOn(uint64_t number) override;
  net::compat::RmHolds HoldsOf(const net::compat::RmCaller& caller) const override;
  void OnClosed(const net::compat::RmCaller& caller) override;

 private:
  uint64_t Now() const { return static_cast<uint64_t>(clock_->Now()); }

  engine::Engine* const engine_;
  const Clock* const clock_;
  LentEndpoints* const endpoints_;
  const std::function<void()> on_activity_;
};

}  // namespace maru::server
