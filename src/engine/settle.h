// After a connection was lost: the client names every page that it believes it holds and learns
// what is so; what it does not name comes back.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "engine/core.h"
#include "wire/messages.h"

namespace maru::engine {

class Settlement {
 public:
  explicit Settlement(Core* core) : core_(core) {}

  // Parts with last = false are collected in the client's second list: no room of their own.
  Status Settle(Client* client, const wire::SettleRequest& request, wire::SettleReply* reply);
  // Forgets the parts that came so far, for a client that starts over.
  void Abandon(Client* client);

 private:
  // The latest life of each page granted to the client that the request names.
  using Latest = std::unordered_map<uint64_t, Generation>;
  Latest LatestNamed(const Client& client, const wire::SettleRequest& request) const;
  wire::SettleReply::Item SettleOne(Client* client, const wire::PageRef& page, Latest* latest);

  Core* core_;
};

}  // namespace maru::engine
