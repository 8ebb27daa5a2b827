// Clients of the resource manager's protocol: told apart by their id, alive while any connection is
// bound to it, and each with the requests that it was answered, so that a repeated one is answered
// as the first time. Plain state; the rules are in resource_manager.h.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "engine/engine.h"
#include "wire/compat/resource_manager.h"

namespace maru::engine {

struct RmClients {
  static constexpr size_t kClientsMax = 4096;
  static constexpr size_t kAnsweredMax = 128;  // of one client

  enum class Kind : uint8_t { kAlloc, kFree };
  struct Answered {
    Kind kind = Kind::kAlloc;
    uint64_t request_id = 0;
    uint64_t subject = 0;         // bytes of the allocation, or region id: the same request has it
    ConnectionId connection = 0;  // that had it last; 0: closed since, or of an earlier server
    wire::compat::RmReply reply;
    // Of an allocation: until then it may be on its way to whoever asked. Later, on another
    // connection than its own it is told to nobody.
    uint64_t repeated_until_ns = 0;
  };
  // A region of a process that another one of its name seems to have followed.
  struct Left {
    // Since then no connection was open that may be its owner's, but for those that are now.
    uint64_t since_ns = 0;
    uint64_t registered = 0;  // extents in it until then
    // Those open ones of the client that are not its owner's, who asked for something else by the
    // number of the request that the region was lent for.
    std::set<ConnectionId> others;
  };
  struct Client {
    std::set<ConnectionId> connections;
    uint64_t gone_since_ns = 0;     // while there are none
    std::deque<Answered> answered;  // the newest in front
    std::set<RegionId> regions;     // that it owns
    std::map<RegionId, Left> left;  // some of those
  };

  // A region that is asked for, and not there yet. It goes with its connection, of which the client
  // is alive as long.
  struct UnderWay {
    ConnectionId connection = 0;
    std::string client_id;
    uint64_t request_id = 0, requested_bytes = 0;
  };

  std::map<std::string, Client, std::less<>> clients;
  std::map<uint64_t, UnderWay> under_way;  // by the number of what is asked for (Lending)
  std::unordered_map<ConnectionId, std::string> bound;  // to a client's id
};

}  // namespace maru::engine
