// The daemon: pools, engine, the unix socket and upstream's two protocols in one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "maru/result.h"
#include "server/pool_set.h"
#include "server/upstream_listeners.h"

namespace maru::server {

struct ServerOptions {
  std::vector<PoolSpec> pools;
  // A path, or "@name" in the abstract namespace. Beside a path there is always an abstract socket
  // that is named for the first pool, see addresses().
  std::string socket_path;
  std::string socket_group;  // name or number; its members are admitted, socket and pools 0660
  UpstreamOptions upstream;
  // Without a handle key: that is in a file of mode 0600 beside the first pool's, "POOL.key", which
  // is made when upstream's protocols are served for the first time.
  engine::EngineOptions engine;
};

class Server {
 public:
  // Opens or makes the pools, takes over what is in them, takes the process's stop signals
  // (os::DaemonSignals), and listens. Errors name the pool or the socket and what to do; every pool
  // is then as it was, less what any start drops after a boot. REQUIRES: the clock outlives this.
  static Result<std::unique_ptr<Server>> Create(const ServerOptions& options, const Clock* clock);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until Stop() or a stop signal; then closes the pools cleanly.
  Status Run();
  // From any thread.
  void Stop();

  struct PoolSummary {
    std::string path;
    uint64_t pool_bytes = 0, keys = 0;
  };
  std::vector<PoolSummary> pools() const;
  // Where it listens, as clients name it: what the options said, then the abstract socket beside a
  // path, which is missing when somebody else has that name.
  const std::vector<std::string>& addresses() const;
  UpstreamAddresses upstream() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::server
