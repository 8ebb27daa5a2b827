#include "engine/clients.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "layout/geometry.h"

namespace maru::engine {

uint64_t Client::granted_pages() const {
  uint64_t pages = 0;
  for (const Holding& holding : pools) pages += holding.granted_pages;
  return pages;
}

Clients::Clients(uint32_t pools) : pools_(pools) {
  for (InPool& pool : pools_) pool.by_slot.resize(layout::kClientSlots, nullptr);
}

Client* Clients::Add(std::unique_ptr<Client> client) {
  MARU_CHECK_EQ(client->pools.size(), pools_.size());
  MARU_CHECK_LT(client->slot.value(), layout::kClientSlots);
  for (size_t i = 0; i < pools_.size(); ++i) {
    if (!client->pools[i].present) continue;
    Client*& place = pools_[i].by_slot[client->slot.value()];
    MARU_CHECK(place == nullptr) << "slot " << client->slot;
    place = client.get();
    MARU_CHECK(pools_[i].by_id.emplace(client->id, client.get()).second) << "id " << client->id;
  }
  client->serial = ++last_serial_;
  clients_.push_back(std::move(client));
  return clients_.back().get();
}

void Clients::Remove(Client* client) {
  Disconnect(client);
  for (size_t i = 0; i < pools_.size(); ++i) {
    if (!client->pools[i].present) continue;
    pools_[i].by_slot[client->slot.value()] = nullptr;
    pools_[i].by_id.erase(client->id);
  }
  const auto at = std::find_if(clients_.begin(), clients_.end(),
                               [client](const auto& other) { return other.get() == client; });
  MARU_CHECK(at != clients_.end());
  clients_.erase(at);
}

void Clients::Connect(Client* client, ConnectionId connection) {
  Disconnect(client);
  MARU_CHECK(by_connection_.emplace(connection, client).second) << "connection " << connection;
  client->connection = connection;
}

void Clients::Disconnect(Client* client) {
  if (!client->connection.has_value()) return;
  by_connection_.erase(*client->connection);
  client->connection.reset();
}

Client* Clients::ByConnection(ConnectionId connection) const {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

Client* Clients::BySlot(PoolIndex pool, ClientSlot slot) const {
  const std::vector<Client*>& by_slot = pools_[pool.value()].by_slot;
  return slot.value() < by_slot.size() ? by_slot[slot.value()] : nullptr;
}

Client* Clients::ById(PoolIndex pool, ClientId id) const {
  const auto& by_id = pools_[pool.value()].by_id;
  const auto found = by_id.find(id);
  return found == by_id.end() ? nullptr : found->second;
}

bool Clients::SlotFree(ClientSlot slot) const {
  return std::all_of(pools_.begin(), pools_.end(),
                     [slot](const InPool& pool) { return pool.by_slot[slot.value()] == nullptr; });
}

Client* Clients::FromSerial(uint64_t serial) const {
  const auto at =
      std::lower_bound(clients_.begin(), clients_.end(), serial,
                       [](const auto& client, uint64_t wanted) { return client->serial < wanted; });
  return at == clients_.end() ? nullptr : at->get();
}

uint32_t Clients::detached() const {
  return static_cast<uint32_t>(
      std::count_if(clients_.begin(), clients_.end(),
                    [](const auto& client) { return !client->connection.has_value(); }));
}

}  // namespace maru::engine
