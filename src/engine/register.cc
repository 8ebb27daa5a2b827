#include "engine/register.h"

#include <array>
#include <string>
#include <utility>

#include "base/defect.h"
#include "base/log.h"
#include "catalogue/key.h"

namespace maru::engine {

using wire::RegisterOutcome;

Status Registration::Register(Client* client, const wire::RegisterRequest& request,
                              wire::RegisterReply* reply) {
  evict_rounds_left_ = kEvictRoundsMax;
  text_slabs_left_ = kTextSlabsMax;
  full_ = {};
  std::vector<Use> uses;
  uses.reserve(request.entries.size());
  reply->items.reserve(request.entries.size());
  std::array<catalogue::KeyRef, kAhead> keys;
  const std::vector<wire::RegisterEntry>& entries = request.entries;
  for (size_t i = 0; i < entries.size() + kAhead; ++i) {
    // Before its place in the ring is overwritten.
    if (i >= kAhead) {
      const size_t entry = i - kAhead;
      reply->items.push_back(RegisterOne(client, entries[entry], keys[entry % kAhead], &uses));
    }
    if (i < entries.size()) keys[i % kAhead] = Prepare(*client, entries[i]);
  }
  // The pages that the next stores need ride along, so that a store is one round trip. The keys of
  // this request are in no list yet and cannot go for them. Without any page the reply is as good.
  granting_->Refill(client, request.refill_page_bytes, request.refill_count, &reply->refill);
  // Backwards: the first key of a batch is the most recent, so that the tail of a prefix goes
  // before its head.
  for (size_t i = uses.size(); i-- > 0;) {
    uses[i].stock->writer().SetLastUse(uses[i].record, ++core_->use_tick);
    uses[i].stock->Used(uses[i].record);
  }
  return OkStatus();
}

catalogue::KeyRef Registration::Prepare(const Client& client, const wire::RegisterEntry& entry) {
  // A key over the limit is refused in its turn and has no hash.
  if (!catalogue::CheckKey(entry.key).ok()) return {};
  const catalogue::KeyRef key = catalogue::MakeKeyRef(client.name_space, entry.key);
  for (const std::unique_ptr<Stock>& stock : core_->stocks) stock->writer().Prefetch(key);
  return key;
}

wire::RegisterReply::Item Registration::RegisterOne(Client* client,
                                                    const wire::RegisterEntry& entry,
                                                    const catalogue::KeyRef& key,
                                                    std::vector<Use>* uses) {
  Stock* const stock = core_->GrantedStock(entry.page, *client);
  if (stock == nullptr) return AnswerStale(*client, entry);
  const RecordNumber record = entry.page.record;
  Counters& counters = core_->counters;
  if (entry.length_bytes > stock->PageBytes(record) || !catalogue::CheckKey(entry.key).ok()) {
    ++counters.rejected;
    return AnswerStays(client, stock, record, RegisterOutcome::kRejected);
  }

  Core::Hit there;
  bool found = core_->Find(key, &there);
  if constexpr (kDefect == Defect::kLooksInOnePool) found = found && there.stock == stock;
  if (found) {
    there.stock->Hide(there.record);
    uses->push_back({there.stock, there.record});
    ++counters.duplicates;
    return AnswerStays(client, stock, record, RegisterOutcome::kDuplicate);
  }

  const catalogue::Writer::Birth birth{entry.length_bytes, entry.checksum, client->id,
                                       core_->use_tick + 1};
  Status registered = stock->Register(record, client, key, birth);
  if (!registered.ok()) {
    registered = RegisterWithRoom(std::move(registered), client, stock, record, key, birth);
  }
  if (!registered.ok()) {
    ++counters.rejected;
    if (registered.code() != StatusCode::kUnavailable) WarnOfRejection(*stock, registered);
    return AnswerStays(client, stock, record, RegisterOutcome::kRejected);
  }
  ++counters.registered;
  uses->push_back({stock, record});
  return {RegisterOutcome::kRegistered, entry.page.generation};
}

void Registration::WarnOfRejection(const Stock& stock, const Status& why) {
  if (core_->now_ns < next_rejection_log_ns_) return;
  next_rejection_log_ns_ = core_->now_ns + kRejectionLogNs;
  LogWarning("a key is not stored in " + stock.pool().name() +
             ", and no other may go for it: " + std::string(why.message()));
}

Status Registration::RegisterGrowing(Client* client, Stock* stock, RecordNumber record,
                                     const catalogue::KeyRef& key,
                                     const catalogue::Writer::Birth& birth) {
  Status registered = stock->Register(record, client, key, birth);
  for (int part = 0; !registered.ok() && part < kGrowthPartsMax; ++part) {
    const bool more = stock->writer().AdvanceGrowth();
    registered = stock->Register(record, client, key, birth);
    if (!more) break;
  }
  return registered;
}

Status Registration::RegisterWithRoom(Status registered, Client* client, Stock* stock,
                                      RecordNumber record, const catalogue::KeyRef& key,
                                      const catalogue::Writer::Birth& birth) {
  if (full_.stock != stock) {
    full_ = {};
    // Those of the page's own size as well: it is no page that lacks here.
    if (core_->FreeIdleRegions(stock, 0) > 0) {
      registered = RegisterGrowing(client, stock, record, key, birth);
      if (registered.ok()) return registered;
    }
    full_ = {stock, granting_->HasPageBeside(*stock, stock->PageBytes(record))};
  }
  if (full_.page_beside && !stock->SentElsewhere(record)) {
    stock->SendElsewhere(record);
    return Unavailable("another pool has room for it");
  }
  registered = RegisterInTurn(std::move(registered), client, stock, record, key, birth);
  // It took others' room, and there is no more of it than there was.
  if (registered.ok()) stock->StayWithoutRoom(key.name_space.size() + key.key.size());
  return registered;
}

Status Registration::RegisterInTurn(Status registered, Client* client, Stock* stock,
                                    RecordNumber record, const catalogue::KeyRef& key,
                                    const catalogue::Writer::Birth& birth) {
  for (int round = 0; round < kEvictRoundsPerKey && evict_rounds_left_ > 0; ++round) {
    --evict_rounds_left_;
    if (evictor_->Evict({.pool = stock}, 0) == 0) break;
    registered = stock->Register(record, client, key, birth);
    if (registered.ok()) return registered;
  }
  const uint64_t text_bytes = key.name_space.size() + key.key.size();
  if (text_slabs_left_ == 0 || stock->writer().TextFits(text_bytes)) return registered;
  // One that is not empty yet, or cannot be, is not so for the next key either.
  text_slabs_left_ = text_room_->Make(stock) ? text_slabs_left_ - 1 : 0;
  if (!stock->writer().TextFits(text_bytes)) return registered;
  return stock->Register(record, client, key, birth);
}

wire::RegisterReply::Item Registration::AnswerStays(Client* client, Stock* stock,
                                                    RecordNumber record, RegisterOutcome outcome) {
  // The new generation keeps a late repeat of this request from the page's next use. 0: the page is
  // worn and no longer the client's.
  Generation generation = stock->State(record).generation();
  if constexpr (kDefect != Defect::kDuplicateKeepsGeneration) {
    stock->Renew(record, client, &generation);
  }
  return {outcome, generation};
}

wire::RegisterReply::Item Registration::AnswerStale(const Client& client,
                                                    const wire::RegisterEntry& entry) {
  const wire::PageRef& page = entry.page;
  Stock* const stock = core_->StockOf(page);
  // A repeat of a store that is done already: the page is this key's in the life that is named.
  if (stock != nullptr &&
      stock->State(page.record) ==
          layout::StateWord::Make(layout::PageState::kLive, page.generation) &&
      stock->LivingOwner(page.record) == &client) {
    const catalogue::Writer::StoredKey stored = stock->writer().KeyOf(page.record);
    if (stored.name_space == client.name_space.text() && stored.key == entry.key) {
      return {RegisterOutcome::kRegistered, page.generation};
    }
  }
  ++core_->counters.stale;
  return {RegisterOutcome::kStale, Generation(0)};
}

}  // namespace maru::engine
