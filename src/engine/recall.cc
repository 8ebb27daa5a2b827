#include "engine/recall.h"

#include <algorithm>

namespace maru::engine {

uint64_t Recall::Ask(uint64_t page_bytes, uint64_t pages) {
  uint64_t asked = 0;
  for (const std::unique_ptr<Client>& client : core_->clients.all()) {
    uint64_t idle = 0;
    for (const std::unique_ptr<Stock>& stock : core_->stocks) {
      if (!client->pools[stock->index().value()].present) continue;
      idle += stock->pool().leases().ReadCounts(client->slot).free_pages;
    }
    // What a client says is bounded by what it has.
    idle = std::min(idle, GrantedOfSize(*client, page_bytes));
    const uint64_t share = std::min(idle, pages - asked);
    Set(client.get(), share);
    asked += share;
  }
  core_->counters.recalled += asked;
  return asked;
}

void Recall::Returned(Client* client, uint64_t pages) {
  if (client->recalled_pages == 0 || pages == 0) return;
  Set(client, client->recalled_pages - std::min(client->recalled_pages, pages));
}

void Recall::Set(Client* client, uint64_t pages) {
  if (!client->pools[0].present || client->recalled_pages == pages) return;
  client->recalled_pages = pages;
  core_->stocks[0]->pool().leases().SetRecall(client->slot, pages);
}

uint64_t Recall::GrantedOfSize(const Client& client, uint64_t page_bytes) const {
  uint64_t pages = 0;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const Client::Holding& holding = client.pools[stock->index().value()];
    if (!holding.present) continue;
    RecordNumber record = stock->lists().Front(holding.granted);
    for (; record.value() != 0; record = stock->lists().Next(record)) {
      if (stock->PageBytes(record) == page_bytes) ++pages;
    }
  }
  return pages;
}

}  // namespace maru::engine
