#include "engine/settle.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/defect.h"
#include "base/log.h"

namespace maru::engine {

using layout::PageState;
using wire::SettleVerdict;

namespace {

uint64_t Place(const wire::PageRef& page) {
  return uint64_t{page.pool.value()} << 32 | page.record.value();
}

}  // namespace

Settlement::Latest Settlement::LatestNamed(const Client& client,
                                           const wire::SettleRequest& request) const {
  Latest latest;
  for (const wire::PageRef& page : request.pages) {
    const Stock* const stock = core_->StockOf(page);
    if (stock == nullptr) continue;
    const layout::StateWord word = stock->State(page.record);
    if (word.state() != PageState::kGranted || word.client() != client.slot) continue;
    if (client.named.contains(Place(page))) continue;  // by an earlier part
    Generation& generation = latest[Place(page)];
    generation = std::max(generation, page.generation);
  }
  return latest;
}

Status Settlement::Settle(Client* client, const wire::SettleRequest& request,
                          wire::SettleReply* reply) {
  client->settling = true;
  Latest latest = LatestNamed(*client, request);
  reply->items.reserve(request.pages.size());
  for (const wire::PageRef& page : request.pages) {
    reply->items.push_back(SettleOne(client, page, &latest));
  }
  if (!request.last) return OkStatus();

  // Granted in a reply that the client never saw.
  uint64_t returned = 0;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const PageLists::Id unnamed = client->pools[stock->index().value()].granted;
    while (!stock->lists().Empty(unnamed)) {
      stock->GiveBack(stock->lists().Front(unnamed), client);
      ++returned;
    }
  }
  core_->counters.settled_returned += returned;
  if (LogEnabled(LogLevel::kDebug)) {
    LogDebug("client " + std::to_string(client->id.value()) + " has settled: it keeps " +
             std::to_string(client->named.size()) + " pages, " + std::to_string(returned) +
             " that it did not name come back");
  }
  Abandon(client);
  client->unsettled = false;
  return OkStatus();
}

void Settlement::Abandon(Client* client) {
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    // A pool that joined after the client was there holds nothing of it.
    if (client->pools[stock->index().value()].present) stock->EndSettlement(client);
  }
  client->settling = false;
  client->named.clear();
}

wire::SettleReply::Item Settlement::SettleOne(Client* client, const wire::PageRef& page,
                                              Latest* latest) {
  Counters& counters = core_->counters;
  Stock* const stock = core_->StockOf(page);
  const layout::StateWord word = stock == nullptr ? layout::StateWord() : stock->State(page.record);
  // By the page, whatever its life now: whoever names a page that is granted to it may be writing
  // there. Another generation means that an answer which had raised it was lost. One that names two
  // lives of a page means the later one: the other was over before.
  const auto named = latest->find(Place(page));
  if (named != latest->end() && named->second == page.generation) {
    latest->erase(named);
    client->named.insert(Place(page));
    Generation generation{0};
    if (stock->Renew(page.record, client, &generation)) {
      if constexpr (kDefect != Defect::kSettleForgetsNamed) stock->Settled(page.record, client);
      ++counters.settled_kept;
      return {SettleVerdict::kKept, generation};
    }
  }
  if (word == layout::StateWord::Make(PageState::kLive, page.generation) &&
      stock->LivingOwner(page.record) == client) {
    ++counters.settled_live;
    return {SettleVerdict::kLive, page.generation};
  }
  ++counters.settled_gone;
  return {SettleVerdict::kGone, Generation(0)};
}

}  // namespace maru::engine
