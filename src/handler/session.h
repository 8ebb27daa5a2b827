// One attachment to a server, as lookups see it: the pools in their order. Never changes after it
// is made; a reconnection that finds other pools makes a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "catalogue/key.h"
#include "catalogue/reader.h"
#include "handler/handler.h"

namespace maru::handler {

struct SessionPool {
  std::shared_ptr<MappedPool> mapped;
  catalogue::Reader reader;
};

struct Session {
  uint64_t serial = 0;  // grows with each new client identity; handles carry it
  ClientId client{0};
  catalogue::Namespace name_space;  // its whole name
  std::vector<SessionPool> pools;
};

}  // namespace maru::handler
