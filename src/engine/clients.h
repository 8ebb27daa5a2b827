// The clients that live: attached, or detached with their locks still held. What each holds in each
// pool is counted here; the pages themselves lie in the lists of the pools' stocks.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"
#include "catalogue/key.h"
#include "engine/engine.h"
#include "engine/page_lists.h"

namespace maru::engine {

struct Client {
  // In one pool.
  struct Holding {
    bool present = false;        // in the pool's client table
    PageLists::Id granted{0};    // pages granted to the client
    PageLists::Id settled{0};    // those of them that the settlement under way has named
    uint64_t granted_pages = 0;  // in both lists
  };

  ClientId id{0};
  ClientSlot slot{0};
  uint64_t serial = 0;  // of all clients that this server has known: grows in the order of all()
  std::string label;
  catalogue::Namespace name_space;
  uint64_t budget_bytes = 0;  // 0: no limit
  Peer peer;
  uint64_t attached_unix_ns = 0;
  std::optional<ConnectionId> connection;  // none: detached
  uint64_t last_answered = 0;              // number of the last request answered, 0: not known
  bool settling = false;
  // It came back and has not settled yet: what it holds is not known until then.
  bool unsettled = false;
  std::unordered_set<uint64_t> named;  // pages (pool, record) that the settlement under way named

  std::vector<Holding> pools;
  // Over all pools, in whole pages.
  uint64_t granted_bytes = 0, live_bytes = 0, live_pages = 0;
  uint64_t recalled_pages = 0;  // free ones that it has been asked to give back

  uint64_t granted_pages() const;
  // Where a page goes that is granted now: with a settlement under way it counts as named.
  PageLists::Id GrantedList(PoolIndex pool) const {
    const Holding& holding = pools[pool.value()];
    return settling ? holding.settled : holding.granted;
  }
};

class Clients {
 public:
  explicit Clients(uint32_t pools);

  // REQUIRES: the slot is free in each pool where the client is present.
  Client* Add(std::unique_ptr<Client> client);
  // Its connection is forgotten with it.
  void Remove(Client* client);

  // Makes it the client's connection, in place of the one it had, which means nobody from then on.
  void Connect(Client* client, ConnectionId connection);
  void Disconnect(Client* client);

  // nullptr: nobody.
  Client* ByConnection(ConnectionId connection) const;
  Client* BySlot(PoolIndex pool, ClientSlot slot) const;
  // Ids are the pool's: two pools that were served apart may know two clients of one id.
  Client* ById(PoolIndex pool, ClientId id) const;
  bool SlotFree(ClientSlot slot) const;  // in every pool
  // The first of all() whose serial is that or greater; nullptr: there is none.
  Client* FromSerial(uint64_t serial) const;

  const std::vector<std::unique_ptr<Client>>& all() const { return clients_; }
  uint32_t detached() const;

 private:
  struct InPool {
    std::vector<Client*> by_slot;  // kClientSlots
    std::unordered_map<ClientId, Client*> by_id;
  };
  uint64_t last_serial_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;  // at most kClientSlots for each pool
  std::unordered_map<ConnectionId, Client*> by_connection_;
  std::vector<InPool> pools_;
};

}  // namespace maru::engine
