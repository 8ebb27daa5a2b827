// What the servers of upstream's protocols stand on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "net/compat/zmq_peers.h"
#include "net/event_loop.h"

namespace maru::server {

struct UpstreamWiring {
  engine::Engine* engine = nullptr;
  net::EventLoop* loop = nullptr;
  const Clock* clock = nullptr;
  std::function<void()> on_activity;  // called after whatever the engine was told
  std::vector<std::string> pool_paths;
  net::compat::PeerLimit* metadata_peers = nullptr;
  size_t rm_connections_max = 0;
};

}  // namespace maru::server
