// The daemon: pools, engine and the unix socket in one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "maru/result.h"

namespace maru::server {

struct PoolSpec {
  std::string path;
  uint64_t create_bytes = 0;  // made when it is not there; 0: must be there
  bool checksums = false;     // for a pool that is made
  bool fresh = false;         // made anew in any case
};

struct ServerOptions {
  std::vector<PoolSpec> pools;
  std::string socket_path;
  std::string socket_group;  // name or number; its members are admitted, socket and pools 0660
  engine::EngineOptions engine;
};

class Server {
 public:
  // Opens or makes the pools, takes over what is in them, and listens. Errors name the pool or the
  // socket and what to do. REQUIRES: the clock outlives the server.
  static Result<std::unique_ptr<Server>> Create(const ServerOptions& options, const Clock* clock);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until Stop() or, when the process's stop signals were taken (os::StopSignals), one of
  // them; then closes the pools cleanly.
  Status Run();
  // From any thread.
  void Stop();

  // One line for people about each pool: path, size, keys.
  std::vector<std::string> Describe() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::server
