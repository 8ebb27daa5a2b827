#include "engine/settle.h"

#include "base/check.h"

namespace maru::engine {

using layout::PageState;
using wire::SettleVerdict;

Status Settlement::Settle(Client* client, const wire::SettleRequest& request,
                          wire::SettleReply* reply) {
  client->settling = true;
  reply->items.reserve(request.pages.size());
  for (const wire::PageRef& page : request.pages) {
    reply->items.push_back(SettleOne(client, page));
  }
  if (!request.last) return OkStatus();

  // Granted in a reply that the client never saw.
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const PageLists::Id unnamed = client->pools[stock->index().value()].granted;
    while (!stock->lists().Empty(unnamed)) {
      stock->GiveBack(stock->lists().Front(unnamed), client);
      ++core_->counters.settled_returned;
    }
  }
  Abandon(client);
  return OkStatus();
}

void Settlement::Abandon(Client* client) {
  for (const std::unique_ptr<Stock>& stock : core_->stocks) stock->EndSettlement(client);
  client->settling = false;
}

wire::SettleReply::Item Settlement::SettleOne(Client* client, const wire::PageRef& page) {
  Counters& counters = core_->counters;
  Stock* const stock = core_->StockOf(page);
  const layout::StateWord word = stock == nullptr ? layout::StateWord() : stock->State(page.record);
  // By the page alone: whoever names a page that is granted to it may be writing there. That the
  // generation is another one means that an answer was lost which had raised it.
  if (word.state() == PageState::kGranted && word.client() == client->slot) {
    Generation generation{0};
    if (stock->Renew(page.record, client, &generation)) {
      stock->Settled(page.record, client);
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
