#include "engine/retire.h"

#include <unordered_map>

#include "base/check.h"
#include "base/defect.h"
#include "catalogue/key.h"

namespace maru::engine {

using layout::PageState;

namespace {

enum class Kind : uint8_t { kPage, kExtent };

struct Holders {
  bool leased = false, pinned = false;
  bool told = false;  // to a reader without leases, not long ago
};

bool Spares(Cause cause, Kind kind, const Holders& by) {
  switch (cause) {
    case Cause::kDelete: return by.pinned || (by.leased && kind == Kind::kExtent);
    case Cause::kEvict: return by.pinned || by.leased || by.told || kind == Kind::kExtent;
    case Cause::kSecondKey:
    case Cause::kOverwrite: return false;
  }
  return true;
}

}  // namespace

void Retirement::Retire(std::span<Target> targets, Cause cause) {
  std::vector<Target*> in_pool;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    in_pool.clear();
    for (Target& target : targets) {
      if (target.stock == stock.get()) in_pool.push_back(&target);
    }
    if (!in_pool.empty()) RetireIn(stock.get(), in_pool, cause);
  }
}

void Retirement::RetireIn(Stock* stock, std::span<Target*> targets, Cause cause) {
  LeaseScan scan(targets.size());
  for (const Target* target : targets) {
    scan.Add(target->record, stock->State(target->record).generation());
    stock->Retire(target->record);
  }
  // Begins after every RETIRING is published: a reader whose slot it misses sees RETIRING when it
  // reads the state word again, and asks.
  scan.Run(stock->pool().leases());
  ++core_->counters.lease_scans;

  std::vector<Target*> condemned;
  for (size_t i = 0; i < targets.size(); ++i) {
    Target* const target = targets[i];
    bool pinned = scan.Pinned(i);
    if constexpr (kDefect == Defect::kScanForgetsPins) pinned = false;
    pinned = pinned || Core::GloballyPinned(*stock, target->record);
    const Kind kind = stock->IsExtent(target->record) ? Kind::kExtent : Kind::kPage;
    target->held = scan.Leased(i) || pinned;
    const bool told = core_->OnHold(*stock, target->record);
    if (Spares(cause, kind, {.leased = scan.Leased(i), .pinned = pinned, .told = told})) {
      stock->Revert(target->record);
      target->fate = Target::Fate::kSpared;
      continue;
    }
    stock->Condemn(target->record);
    target->fate = Target::Fate::kCondemned;
    condemned.push_back(target);
  }
  if (!condemned.empty()) FreeUnheld(stock, condemned);
}

void Retirement::FreeUnheld(Stock* stock, std::span<Target*> targets) {
  LeaseScan scan(targets.size());
  for (const Target* target : targets) {
    scan.Add(target->record, stock->State(target->record).generation());
  }
  // Begins after every CONDEMNED is published: from then on no reader comes to hold the page.
  scan.Run(stock->pool().leases());
  ++core_->counters.lease_scans;
  for (size_t i = 0; i < targets.size(); ++i) {
    const RecordNumber record = targets[i]->record;
    // Of an extent it is the region that is held.
    if (!stock->IsExtent(record) && core_->OnHold(*stock, record)) {
      stock->HoldCondemned(record, Core::HoldEnd(*stock, record));
      targets[i]->fate = Target::Fate::kOnHold;
      continue;
    }
    bool leased = scan.Leased(i);
    if constexpr (kDefect == Defect::kFreesLeasedPages) leased = false;
    if (leased) continue;
    stock->Free(record);
    targets[i]->fate = Target::Fate::kFreed;
  }
  stock->client_regions().EndHolds(core_->NowUnix());
}

void Retirement::AddCondemned(Stock* stock, PageLists::Id list,
                              std::vector<Target>* targets) const {
  RecordNumber record = stock->lists().Front(list);
  for (uint32_t i = 0; record.value() != 0 && i < kReapMax; ++i) {
    targets->push_back({stock, record, Target::Fate::kCondemned});
    record = stock->lists().Next(record);
  }
}

uint32_t Retirement::Reap(Stock* stock) {
  stock->EndHolds(core_->NowUnix());
  const uint64_t waiting = stock->reapable();
  if (waiting == 0) return 0;
  std::vector<Target> targets;
  targets.reserve(std::min<uint64_t>(waiting, 2 * kReapMax));
  AddCondemned(stock, stock->condemned(), &targets);
  AddCondemned(stock, stock->condemned_extents(), &targets);
  std::vector<Target*> pointers;
  for (Target& target : targets) pointers.push_back(&target);
  FreeUnheld(stock, pointers);
  uint32_t freed = 0;
  for (const Target& target : targets) {
    if (target.fate == Target::Fate::kFreed) {
      ++freed;
    } else if (target.fate == Target::Fate::kCondemned) {
      stock->KeepCondemned(target.record);
    }
  }
  return freed;
}

uint64_t Retirement::ReapInTurn(Stock* stock) {
  Turn& turn = turns_[stock->index().value()];
  const uint64_t waiting = stock->reapable();
  if (core_->now_ns >= turn.next_ns) {
    const uint64_t freed = Reap(stock);
    const bool stalled = freed * kReapYield < std::min<uint64_t>(waiting, kReapMax);
    turn.pause_ns =
        stalled ? std::clamp(2 * turn.pause_ns, kReapPauseNs, kReapPauseMaxNs) : kReapPauseNs;
    turn.next_ns = core_->now_ns + turn.pause_ns;
  }
  if (stock->reapable() > 0) return turn.next_ns;
  turn = {};
  return 0;
}

Status Retirement::Delete(const Client& client, const wire::DeleteRequest& request,
                          wire::DeleteReply* reply) {
  reply->outcomes = DeleteKeys(client.name_space, request.keys);
  return OkStatus();
}

std::vector<wire::DeleteOutcome> Retirement::DeleteKeys(const catalogue::Namespace& name_space,
                                                        std::span<const std::string_view> keys) {
  struct Asked {
    size_t target = 0;
    bool found = false, first = false;
  };
  std::vector<Target> targets;
  std::vector<Asked> asked(keys.size());
  std::unordered_map<uint64_t, size_t> by_page;  // a key that is named twice is one target
  for (size_t i = 0; i < keys.size(); ++i) {
    Core::Hit hit;
    if (!catalogue::CheckKey(keys[i]).ok()) continue;  // no such key can be there
    if (!core_->Find(catalogue::MakeKeyRef(name_space, keys[i]), &hit)) continue;
    const uint64_t page = uint64_t{hit.stock->index().value()} << 32 | hit.record.value();
    const auto [at, first] = by_page.emplace(page, targets.size());
    if (first) targets.push_back({hit.stock, hit.record, Target::Fate::kSpared});
    asked[i] = {at->second, true, first};
  }
  Retire(targets, Cause::kDelete);

  Counters& counters = core_->counters;
  std::vector<wire::DeleteOutcome> outcomes(keys.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool spared = asked[i].found && targets[asked[i].target].fate == Target::Fate::kSpared;
    if (spared) {
      outcomes[i] = wire::DeleteOutcome::kPinned;
      ++counters.delete_pinned;
    } else if (asked[i].first) {
      outcomes[i] = wire::DeleteOutcome::kDeleted;
      ++counters.deleted;
    } else {
      outcomes[i] = wire::DeleteOutcome::kMissing;
      ++counters.delete_missing;
    }
  }
  return outcomes;
}

Status Retirement::Free(Client* client, const wire::FreeRequest& request, wire::FreeReply* reply) {
  const wire::PageRef& page = request.page;
  reply->outcome = wire::FreeOutcome::kStale;
  if (Stock* const stock = core_->GrantedStock(page, *client)) {
    stock->GiveBack(page.record, client);
    ++core_->counters.pages_given_back;
    reply->outcome = wire::FreeOutcome::kFreed;
    return OkStatus();
  }
  Stock* const stock = core_->StockOf(page);
  if (stock == nullptr) return OkStatus();
  if (stock->State(page.record) != layout::StateWord::Make(PageState::kLive, page.generation)) {
    return OkStatus();
  }
  // Whoever names a life of a page has stored it or read it; a key of another namespace is neither.
  const bool own = stock->LivingOwner(page.record) == client;
  if (!own && stock->writer().KeyOf(page.record).name_space != client->name_space.text()) {
    return OkStatus();
  }
  Target target{stock, page.record, Target::Fate::kSpared};
  Retire(std::span(&target, 1), Cause::kDelete);
  const bool spared = target.fate == Target::Fate::kSpared;
  ++(spared ? core_->counters.delete_pinned : core_->counters.deleted);
  reply->outcome = spared ? wire::FreeOutcome::kPinned : wire::FreeOutcome::kFreed;
  return OkStatus();
}

}  // namespace maru::engine
