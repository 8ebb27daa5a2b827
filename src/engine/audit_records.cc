// The part of an audit that looks at one record at a time: what the record says, its list, its
// owner, its key, its bytes, all as they are at that moment.
#include <algorithm>
#include <span>
#include <string>

#include "engine/audit.h"
#include "layout/text.h"

namespace maru::engine {

using layout::PageState;

bool AuditRun::StepRecords() {
  PageCensus& pages = *run().pages;
  while (true) {
    // Relaxed: this process is the one that stores it.
    const uint64_t end = stock().pool().view().root().record_high.load(std::memory_order_relaxed);
    if (pages.frontier() >= end) break;
    const RecordNumber record(static_cast<uint32_t>(pages.frontier()));
    if (!verifying_.under_way) {
      if (!Take(1)) return false;
      CheckRecord(record);
    }
    if (verifying_.under_way && !GoOnVerifying(record)) return false;
    pages.Advance();
  }
  pages.Finish();
  return true;
}

void AuditRun::CheckRecord(RecordNumber record) {
  using KeyState = catalogue::Writer::KeyState;
  std::vector<catalogue::Writer::Offender> found;
  const KeyState key = stock().writer().CheckRecord(record, &found);
  OffendAll(found);
  if (const Stock::Run* const run = stock().RunOf(record)) {
    if (!CheckPage(record, *run)) return;
  } else {
    CheckOther(record);
  }
  if (key != KeyState::kNone) ++keys_;
  if (key == KeyState::kSound) CheckKey(record);
}

// False: the record says of itself what cannot be, the rest of it has no meaning.
bool AuditRun::CheckPage(RecordNumber record, const Stock::Run& run) {
  if (!stock().Known(record)) {
    const auto region = stock().pool().PageRegions(run.slot, 1);
    Offend(Name(record) + "of region " +
           (region.empty() || region[0].slot != run.slot ? "none"
                                                         : std::to_string(region[0].id.value())) +
           ", but absent");
    return false;
  }
  const layout::PageRecord* const fields = stock().pool().view().Record(record);
  // Relaxed: this process wrote it, or judged it when it opened the pool.
  if (fields->region_slot.load(std::memory_order_relaxed) != run.slot.value()) {
    Offend(Name(record) + "names another region than the one that has it");
    return false;
  }
  const layout::StateWord word = stock().State(record);
  if (!word.Valid()) return false;  // Writer::CheckRecord has told it
  CheckPlace(record, word);
  if (word.state() == PageState::kLive && bytes_ == Bytes::kVerify) BeginVerifying(record);
  return true;
}

namespace {

// The kind of list that pages in a state lie in; 0: in none.
uint8_t KindOf(PageState state) {
  switch (state) {
    case PageState::kFree: return static_cast<uint8_t>(ListKind::kFree);
    case PageState::kGranted: return static_cast<uint8_t>(ListKind::kGranted);
    case PageState::kQuarantined: return static_cast<uint8_t>(ListKind::kQuarantined);
    case PageState::kCondemned: return static_cast<uint8_t>(ListKind::kCondemned);
    case PageState::kLive: return static_cast<uint8_t>(ListKind::kLive);
    default: return 0;
  }
}

}  // namespace

void AuditRun::CheckPlace(RecordNumber record, layout::StateWord word) {
  const PageLists::Id list = run().lists->Where(record);
  const uint8_t kind = list.value() == 0 ? 0 : static_cast<uint8_t>(stock().lists().Kind(list));
  const uint8_t expected = KindOf(word.state());
  bool right = true;  // of those of its kind
  switch (word.state()) {
    case PageState::kRetiring: return Offend(Name(record) + "RETIRING between two steps");
    case PageState::kAbsent: return;  // told before
    case PageState::kFree: right = list == stock().Class(stock().ClassOf(record)).free; break;
    case PageState::kCondemned:
      right = list == stock().condemned() || list == stock().on_hold();
      break;
    case PageState::kGranted: {
      const Client* const client = core_->clients.BySlot(stock().index(), word.client());
      if (client == nullptr) {
        Offend(Name(record) + "granted to slot " + std::to_string(word.client().value()) +
               ", where no client lives");
        break;
      }
      const Client::Holding& holding = client->pools[stock().index().value()];
      right = list == holding.granted || list == holding.settled;
      break;
    }
    case PageState::kLive: {
      const ClassIndex size_class = stock().ClassOf(record);
      const Client* const owner = stock().LivingOwner(record);
      right = stock().recency().Holds(size_class, owner == nullptr ? ClientId(0) : owner->id, list);
      break;
    }
    default: break;
  }
  if (kind != expected) {
    Offend(Name(record) + "in state " + std::to_string(static_cast<int>(word.state())) +
           ", but in list " + std::to_string(kind) + " instead of " + std::to_string(expected));
  } else if (!right) {
    Offend(Name(record) + "in state " + std::to_string(static_cast<int>(word.state())) +
           ", but in the list of others");
  }
}

void AuditRun::CheckOther(RecordNumber record) {
  const layout::StateWord word = stock().State(record);
  switch (word.state()) {
    case PageState::kAbsent:
    case PageState::kWorn: return;
    case PageState::kLive:
    case PageState::kCondemned: return CheckExtent(record, word.state());
    case PageState::kRetiring: return Offend(Name(record) + "RETIRING between two steps");
    default:
      Offend(Name(record) + "in state " + std::to_string(static_cast<int>(word.state())) +
             ", but of no region");
  }
}

void AuditRun::CheckKey(RecordNumber record) {
  const catalogue::Writer::StoredKey stored = stock().writer().KeyOf(record);
  const catalogue::Namespace name_space(stored.name_space);
  const catalogue::KeyRef key = catalogue::MakeKeyRef(name_space, stored.key);
  for (const std::unique_ptr<Stock>& other : core_->stocks) {
    catalogue::Writer::Hit hit;
    const bool found = other->writer().Lookup(key, &hit);
    if (other.get() == &stock()) {
      if (!found) Offend(Name(record) + "its key is not found");
      if (found && hit.record != record) {
        Offend(Name(record) + "has the key of record " + std::to_string(hit.record.value()));
      }
    } else if (found && other->index() < stock().index()) {
      Offend(Name(record) + "its key is in pool " + other->pool().name() + " as well");
    }
  }
}

// --- Bytes. A large page is hashed over several steps: while its life goes on, so do its bytes.

void AuditRun::BeginVerifying(RecordNumber record) {
  if ((stock().pool().superblock().flags & layout::kFlagChecksums) == 0) return;
  const catalogue::PoolView& view = stock().pool().view();
  catalogue::PoolView::PageExtent page;
  const layout::PageRecord* const fields = view.Record(record);
  const uint64_t length_bytes = fields->length_bytes.load(std::memory_order_relaxed);
  if (!view.Page(record, &page) || length_bytes > page.page_bytes) {
    return Offend(Name(record) + "its page lies nowhere");
  }
  verifying_ = {.under_way = true,
                .word = stock().State(record),
                .offset_bytes = page.offset_bytes,
                .left_bytes = length_bytes,
                .checksum = fields->checksum.load(std::memory_order_relaxed)};
  hash_.Begin();
}

bool AuditRun::GoOnVerifying(RecordNumber record) {
  if (stock().State(record) != verifying_.word) {
    verifying_.under_way = false;  // the key is gone
    return true;
  }
  const uint64_t bytes = std::min(verifying_.left_bytes, work_ * kBytesPerWork);
  hash_.Add(std::span(stock().pool().view().base() + verifying_.offset_bytes, bytes));
  work_ -= (bytes + kBytesPerWork - 1) / kBytesPerWork;
  verifying_.offset_bytes += bytes;
  verifying_.left_bytes -= bytes;
  bytes_verified_ += bytes;
  if (verifying_.left_bytes > 0) return false;
  verifying_.under_way = false;
  if (hash_.Sum() == verifying_.checksum) {
    ++keys_verified_;
    return true;
  }
  // By its name it can be deleted.
  const std::string_view key = stock().writer().KeyOf(record).key;
  Offend(layout::Concat(Name(record), "its bytes do not match their checksum, key ",
                        layout::Quoted{key}));
  return true;
}

}  // namespace maru::engine
