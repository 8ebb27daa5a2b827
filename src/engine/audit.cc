#include "engine/audit.h"

#include <array>
#include <span>

#include "base/bytes.h"
#include "base/hash.h"
#include "engine/json.h"

namespace maru::engine {

using layout::PageState;

Engine::PoolCounts CountPages(const Stock& stock) {
  std::array<uint64_t, layout::kPageStateLast + 1> states{};
  uint64_t pages = 0;
  for (const pool::Pool::PageRegion& region : stock.pool().PageRegions()) {
    pages += region.page_count;
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      ++states[static_cast<uint8_t>(stock.State(record).state())];
    }
  }
  const auto of = [&states](PageState state) { return states[static_cast<uint8_t>(state)]; };
  return {.pages = pages,
          .free = of(PageState::kFree),
          .quarantined = of(PageState::kQuarantined),
          .granted = of(PageState::kGranted),
          .live = of(PageState::kLive),
          .retiring = of(PageState::kRetiring),
          .condemned = of(PageState::kCondemned),
          .worn = of(PageState::kWorn)};
}

std::string AuditRun::Name(const Stock& stock, RecordNumber record) const {
  return "pool " + stock.pool().name() + " record " + std::to_string(record.value()) + ": ";
}

void AuditRun::Offend(std::string what) {
  if (offenders_.size() < kOffendersMax) {
    offenders_.push_back(std::move(what));
  } else {
    ++offenders_left_out_;
  }
}

void AuditRun::Run(Bytes bytes) {
  bytes_ = bytes;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) CheckPool(*stock);
  CheckClients();
}

void AuditRun::CheckPool(const Stock& stock) {
  places_.assign(stock.pool().view().root().record_high.load(std::memory_order_relaxed),
                 Place::kNone);
  counts_ = CountPages(stock);
  CheckLists(stock);
  CheckExtents(stock);
  CheckRecords(stock);
  CheckCounts(stock);
  CheckIndex(stock);
}

// --- Lists.

uint64_t AuditRun::Walk(const Stock& stock, PageLists::Id list, Place place) {
  uint64_t pages = 0;
  RecordNumber record = stock.lists().Front(list);
  // A list that runs in a circle meets a page twice.
  for (; record.value() != 0; record = stock.lists().Next(record)) {
    if (record.value() >= places_.size() || places_[record.value()] != Place::kNone) {
      Offend(Name(stock, record) + "in two lists, or twice in one");
      break;
    }
    places_[record.value()] = place;
    ++pages;
  }
  return pages;
}

void AuditRun::WalkLive(const Stock& stock, PageLists::Id list) {
  Walk(stock, list, Place::kLive);
  uint64_t newer = ~uint64_t{0};
  RecordNumber record = stock.lists().Front(list);
  for (uint64_t i = 0; record.value() != 0 && i < places_.size(); ++i) {
    const uint64_t use = stock.recency().LastUse(record);
    if (use > newer) Offend(Name(stock, record) + "out of the order of last use");
    if (use > core_->use_tick) Offend(Name(stock, record) + "used later than now");
    newer = use;
    record = stock.lists().Next(record);
  }
}

void AuditRun::CheckLists(const Stock& stock) {
  std::vector<PageLists::Id> live;
  for (uint32_t i = 0; i < stock.classes().size(); ++i) {
    const Stock::SizeClass& size_class = stock.classes()[i];
    const uint64_t free = Walk(stock, size_class.free, Place::kFree);
    if (free != size_class.free_pages) {
      Offend("pool " + stock.pool().name() + ": " + std::to_string(free) +
             " pages in the free list of " + std::to_string(size_class.page_bytes) +
             " bytes, counted " + std::to_string(size_class.free_pages));
    }
    stock.recency().Lists(ClassIndex(i), &live);
  }
  for (const PageLists::Id list : live) WalkLive(stock, list);
  Walk(stock, stock.quarantined(), Place::kQuarantined);
  Walk(stock, stock.condemned(), Place::kCondemned);
  Walk(stock, stock.condemned_extents(), Place::kCondemned);
  for (const std::unique_ptr<Client>& client : core_->clients.all()) {
    const Client::Holding& holding = client->pools[stock.index().value()];
    if (!holding.present) continue;
    const uint64_t granted = Walk(stock, holding.granted, Place::kGranted) +
                             Walk(stock, holding.settled, Place::kGranted);
    if (granted != holding.granted_pages) {
      Offend("client " + std::to_string(client->id.value()) + " in pool " + stock.pool().name() +
             ": " + std::to_string(granted) + " pages in its lists, counted " +
             std::to_string(holding.granted_pages));
    }
  }
}

// --- Records.

void AuditRun::CheckRecords(const Stock& stock) {
  std::vector<uint64_t> pages(stock.classes().size()), live(stock.classes().size());
  for (const pool::Pool::PageRegion& region : stock.pool().PageRegions()) {
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      if (record.value() >= places_.size() || !stock.Known(record)) {
        Offend(Name(stock, record) + "of region " + std::to_string(region.id.value()) +
               ", but absent");
        continue;
      }
      if (stock.PageBytes(record) != region.page_bytes) {
        Offend(Name(stock, record) + "names a region with pages of another size");
        continue;
      }
      CheckPage(stock, record, places_[record.value()]);
      places_[record.value()] = Place::kNone;
      ++pages[stock.ClassOf(record).value()];
      if (stock.State(record).state() == PageState::kLive) {
        ++live[stock.ClassOf(record).value()];
      }
    }
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] == Place::kNone) continue;
    Offend(Name(stock, RecordNumber(static_cast<uint32_t>(i))) + "in a list, but of no region");
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    const Stock::SizeClass& size_class = stock.classes()[i];
    if (pages[i] == size_class.pages && live[i] == size_class.live_pages) continue;
    Offend("pool " + stock.pool().name() + ", pages of " + std::to_string(size_class.page_bytes) +
           " bytes: " + std::to_string(pages[i]) + ", " + std::to_string(live[i]) +
           " live, counted " + std::to_string(size_class.pages) + " and " +
           std::to_string(size_class.live_pages));
  }
}

void AuditRun::CheckPage(const Stock& stock, RecordNumber record, Place place) {
  const layout::StateWord word = stock.State(record);
  if (!word.Valid()) Offend(Name(stock, record) + "its state word is not valid");
  Place expected = Place::kNone;
  switch (word.state()) {
    case PageState::kFree: expected = Place::kFree; break;
    case PageState::kQuarantined: expected = Place::kQuarantined; break;
    case PageState::kCondemned: expected = Place::kCondemned; break;
    case PageState::kWorn: break;
    case PageState::kRetiring: Offend(Name(stock, record) + "RETIRING between two steps"); return;
    case PageState::kGranted:
      expected = Place::kGranted;
      if (core_->clients.BySlot(stock.index(), word.client()) == nullptr) {
        Offend(Name(stock, record) + "granted to slot " + std::to_string(word.client().value()) +
               ", where no client lives");
      }
      break;
    case PageState::kLive:
      expected = Place::kLive;
      ++keys_;
      CheckKey(stock, record);
      if (bytes_ == Bytes::kVerify) VerifyBytes(stock, record);
      break;
    default: Offend(Name(stock, record) + "in no known state"); return;
  }
  if (place == expected) return;
  Offend(Name(stock, record) + "in state " + std::to_string(static_cast<int>(word.state())) +
         ", but in list " + std::to_string(static_cast<int>(place)) + " instead of " +
         std::to_string(static_cast<int>(expected)));
}

void AuditRun::CheckKey(const Stock& stock, RecordNumber record) {
  const catalogue::Writer::StoredKey stored = stock.writer().KeyOf(record);
  const catalogue::Namespace name_space(stored.name_space);
  const catalogue::KeyRef key = catalogue::MakeKeyRef(name_space, stored.key);
  for (const std::unique_ptr<Stock>& other : core_->stocks) {
    catalogue::Writer::Hit hit;
    const bool found = other->writer().Lookup(key, &hit);
    if (other.get() == &stock) {
      if (!found) Offend(Name(stock, record) + "its key is not found");
      if (found && hit.record != record) {
        Offend(Name(stock, record) + "has the key of record " + std::to_string(hit.record.value()));
      }
    } else if (found && other->index() < stock.index()) {
      Offend(Name(stock, record) + "its key is in pool " + other->pool().name() + " as well");
    }
  }
}

void AuditRun::VerifyBytes(const Stock& stock, RecordNumber record) {
  if ((stock.pool().superblock().flags & layout::kFlagChecksums) == 0) return;
  const catalogue::PoolView& view = stock.pool().view();
  catalogue::PoolView::PageExtent page;
  const layout::PageRecord* const fields = view.Record(record);
  const uint64_t length_bytes = fields->length_bytes.load(std::memory_order_relaxed);
  if (!view.Page(record, &page) || length_bytes > page.page_bytes) {
    Offend(Name(stock, record) + "its page lies nowhere");
    return;
  }
  ++keys_verified_;
  const uint64_t sum = HashBytes64(std::span(view.base() + page.offset_bytes, length_bytes));
  if (sum == fields->checksum.load(std::memory_order_relaxed)) return;
  Offend(Name(stock, record) + "its bytes do not match their checksum");
}

void AuditRun::CheckIndex(const Stock& stock) {
  std::vector<catalogue::Writer::Offender> found;
  const uint64_t all = stock.writer().CheckIndex(&found, kOffendersMax);
  for (const auto& offender : found) Offend(Name(stock, offender.record) + offender.what);
  if (all > found.size()) offenders_left_out_ += all - found.size();
}

// --- Counts.

void AuditRun::CheckCounts(const Stock& stock) {
  const Engine::PoolCounts& believed = stock.counts();
  const Engine::PoolCounts& is = counts_;
  const auto check = [&](const char* what, uint64_t counted, uint64_t expected) {
    if (counted == expected) return;
    Offend("pool " + stock.pool().name() + ": " + std::to_string(counted) + " pages " + what +
           ", counted " + std::to_string(expected));
  };
  check("in all states, of all pages",
        is.free + is.quarantined + is.granted + is.live + is.retiring + is.condemned + is.worn,
        is.pages);
  check("in all", is.pages, believed.pages);
  check("free", is.free, believed.free);
  check("quarantined", is.quarantined, believed.quarantined);
  check("granted", is.granted, believed.granted);
  check("live", is.live, believed.live);
  check("condemned", is.condemned, believed.condemned);
  check("worn", is.worn, believed.worn);
}

void AuditRun::CheckClients() {
  struct Sum {
    uint64_t granted_bytes = 0, live_bytes = 0, live_pages = 0;
  };
  std::unordered_map<const Client*, Sum> sums;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const pool::Pool::PageRegion& region : stock->pool().PageRegions()) {
      for (uint32_t i = 0; i < region.page_count; ++i) {
        const RecordNumber record(region.first_record.value() + i);
        const layout::StateWord word = stock->State(record);
        if (word.state() == PageState::kGranted) {
          sums[core_->clients.BySlot(stock->index(), word.client())].granted_bytes +=
              region.page_bytes;
        } else if (word.state() == PageState::kLive) {
          Sum& sum = sums[stock->LivingOwner(record)];
          sum.live_bytes += region.page_bytes;
          ++sum.live_pages;
        }
      }
    }
  }
  for (const std::unique_ptr<Client>& client : core_->clients.all()) {
    const Sum& sum = sums[client.get()];
    if (sum.granted_bytes != client->granted_bytes || sum.live_bytes != client->live_bytes ||
        sum.live_pages != client->live_pages) {
      Offend("client " + std::to_string(client->id.value()) + ": " +
             std::to_string(sum.granted_bytes) + " bytes granted and " +
             std::to_string(sum.live_bytes) + " live in " + std::to_string(sum.live_pages) +
             " keys, counted " + std::to_string(client->granted_bytes) + ", " +
             std::to_string(client->live_bytes) + " and " + std::to_string(client->live_pages));
    }
    CheckPublished(*client);
  }
}

void AuditRun::CheckPublished(const Client& client) {
  // What a client publishes is compared when nothing is on its way: the last request that was
  // answered is the last of which it has taken the reply in. A page that moves from one of its
  // counts to another while they are read makes the sum wrong for a moment.
  for (int read = 0; read < kCountReadsMax; ++read) {
    uint64_t published = 0, pending = 0, last_request = 0;
    for (const std::unique_ptr<Stock>& stock : core_->stocks) {
      if (!client.pools[stock->index().value()].present) continue;
      const auto counts = stock->pool().leases().ReadCounts(client.slot);
      published += counts.free_pages + counts.pending_pages + counts.held_pages;
      pending += counts.pending_pages;
      last_request = std::max(last_request, counts.last_request);
    }
    // A page whose fate the client does not know is settled before it counts.
    if (client.last_answered == 0 || last_request != client.last_answered || pending != 0 ||
        client.unsettled) {
      if (unchecked_.size() < kUncheckedMax) {
        unchecked_.push_back("client " + std::to_string(client.id.value()) +
                             ": its published counts, it is not quiet");
      } else {
        ++unchecked_left_out_;
      }
      return;
    }
    if (published == client.granted_pages()) return;
    if (read + 1 < kCountReadsMax) continue;
    Offend("client " + std::to_string(client.id.value()) + " (" + client.label + "): it holds " +
           std::to_string(published) + " pages, " + std::to_string(client.granted_pages()) +
           " are granted to it");
  }
}

void AuditRun::Reply(wire::AuditReply* reply) const {
  reply->clean = offenders_.empty();
  JsonWriter json;
  json.BeginObject().Key("clean").Bool(reply->clean);
  json.Field("keys", keys_).Field("keys_verified", keys_verified_).Field("extents", extents_);
  json.Field("clients", core_->clients.all().size());
  json.Key("pools").BeginArray();
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const Engine::PoolCounts counts = CountPages(*stock);
    json.BeginObject()
        .Field("name", stock->pool().name())
        .Field("pages", counts.pages)
        .Field("free", counts.free)
        .Field("quarantined", counts.quarantined)
        .Field("granted", counts.granted)
        .Field("live", counts.live)
        .Field("retiring", counts.retiring)
        .Field("condemned", counts.condemned)
        .Field("worn", counts.worn)
        .EndObject();
  }
  json.EndArray().Key("offenders").BeginArray();
  for (const std::string& offender : offenders_) json.Text(offender);
  json.EndArray().Field("offenders_left_out", offenders_left_out_);
  json.Key("unchecked").BeginArray();
  for (const std::string& unchecked : unchecked_) json.Text(unchecked);
  json.EndArray().Field("unchecked_left_out", unchecked_left_out_).EndObject();
  reply->json = json.Take();
}

}  // namespace maru::engine
