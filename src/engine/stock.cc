#include "engine/stock.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/prefetch.h"

namespace maru::engine {

using layout::PageState;

Stock::Stock(pool::Pool* pool, PoolIndex index, const Shared& shared, uint64_t quarantine_ns)
    : pool_(pool),
      index_(index),
      clients_(shared.clients),
      namespaces_(shared.namespaces),
      quarantine_ns_(quarantine_ns),
      recency_(pool->view(), &lists_),
      condemned_(lists_.New(ListKind::kCondemned)),
      quarantined_(lists_.New(ListKind::kQuarantined)),
      condemned_extents_(lists_.New(ListKind::kCondemned)),
      on_hold_(lists_.New(ListKind::kCondemned)),
      client_regions_(pool, shared.regions) {}

// --- What is there.

const layout::PageRecord& Stock::Record(RecordNumber record) const {
  const layout::PageRecord* const page = pool_->view().Record(record);
  MARU_CHECK(page != nullptr) << "record " << record << " in " << pool_->name();
  return *page;
}

bool Stock::Known(RecordNumber record) const {
  // Relaxed: this process is the one that stores it.
  const uint64_t end = pool_->view().root().record_high.load(std::memory_order_relaxed);
  return record.value() != 0 && record.value() < end && pool_->view().Record(record) != nullptr &&
         State(record).state() != PageState::kAbsent;
}

ClassIndex Stock::ClassOf(RecordNumber record) const {
  // Relaxed: this process wrote it, or validated it when it opened the pool.
  const uint64_t slot = Record(record).region_slot.load(std::memory_order_relaxed);
  MARU_DCHECK(slot < class_of_region_.size());
  return class_of_region_[static_cast<uint32_t>(slot)];
}

std::optional<ClassIndex> Stock::FindClass(uint64_t page_bytes) const {
  const auto found = by_page_bytes_.find(page_bytes);
  if (found == by_page_bytes_.end()) return std::nullopt;
  return found->second;
}

Client* Stock::LivingOwner(RecordNumber record) const {
  // Relaxed: as above. The upper half is reserved.
  const uint64_t owner = Record(record).owner.load(std::memory_order_relaxed);
  return clients_->ById(index_, ClientId(static_cast<uint32_t>(owner)));
}

const Stock::Run* Stock::RunOf(RecordNumber record) const {
  const auto behind = runs_.upper_bound(record.value());
  if (behind == runs_.begin()) return nullptr;
  const auto& [first, run] = *std::prev(behind);
  return record.value() - first < run.count ? &run : nullptr;
}

bool Stock::KeysFit() const {
  if (!refused_key_.has_value()) return true;
  const uint64_t gone = refused_key_->keys - std::min(Keys(), refused_key_->keys);
  return gone >= std::max<uint64_t>(1, refused_key_->keys / kKeysGonePart) ||
         pool_->usage().free_bytes > refused_key_->free_bytes;
}

void Stock::StayWithoutRoom(uint64_t text_bytes) {
  refused_key_ = {text_bytes, Keys(), pool_->usage().free_bytes};
}

// --- Regions.

ClassIndex Stock::AddClass(uint64_t page_bytes) {
  const auto unused = std::ranges::find(classes_, uint64_t{0}, &SizeClass::pages);
  if (unused != classes_.end()) {
    const ClassIndex index(static_cast<uint32_t>(unused - classes_.begin()));
    MARU_CHECK_EQ(unused->free_pages + unused->live_pages, 0u);
    by_page_bytes_.erase(unused->page_bytes);
    by_page_bytes_.emplace(page_bytes, index);
    unused->page_bytes = page_bytes;
    return index;
  }
  const ClassIndex index(static_cast<uint32_t>(classes_.size()));
  SizeClass added;
  added.page_bytes = page_bytes;
  added.free = lists_.New(ListKind::kFree);
  MARU_CHECK_NE(added.free.value(), 0u);
  classes_.push_back(added);
  recency_.AddClass();
  by_page_bytes_.emplace(page_bytes, index);
  return index;
}

size_t Stock::SizesInUse() const {
  const auto has_pages = [](const SizeClass& size_class) { return size_class.pages > 0; };
  const auto to_come = [this](const auto& cutting) {
    const auto known = FindClass(cutting.first);
    return !known.has_value() || Class(*known).pages == 0;
  };
  return static_cast<size_t>(std::ranges::count_if(classes_, has_pages) +
                             std::ranges::count_if(cuttings_, to_come));
}

void Stock::SetClass(RegionSlot slot, ClassIndex size_class) {
  if (class_of_region_.size() <= slot.value()) class_of_region_.resize(slot.value() + 1);
  class_of_region_[slot.value()] = size_class;
}

void Stock::AdoptClientRegion(const pool::Pool::ClientRegion& region) {
  SetClass(region.slot, kExtentClass);
  client_regions_.Add(region);
}

Result<ClientRegions::Region*> Stock::CutForClient(uint64_t bytes,
                                                   const pool::Pool::ClientCut& client) {
  MARU_ASSIGN_OR_RETURN(const pool::Pool::ClientRegion region, pool_->CutForClient(bytes, client));
  AdoptClientRegion(region);
  return client_regions_.BySlot(region.slot);
}

Result<ClientRegions::Region*> Stock::EndClientCut(const pool::Pool::ClientCutting& cutting,
                                                   const pool::Pool::ClientCut& client) {
  MARU_ASSIGN_OR_RETURN(const pool::Pool::ClientRegion region,
                        pool_->EndClientCut(cutting, client));
  AdoptClientRegion(region);
  return client_regions_.BySlot(region.slot);
}

Result<RecordNumber> Stock::RegisterExtent(const ClientRegions::Region& region,
                                           const catalogue::KeyRef& key,
                                           const catalogue::Writer::ExtentBirth& birth) {
  MARU_CHECK_EQ(birth.region, region.cut.slot);
  MARU_ASSIGN_OR_RETURN(const RecordNumber record, writer().RegisterExtent(key, birth));
  lists_.Cover(RecordNumber(record.value() + 1));
  EnterLiveExtent(record);
  Changed(record);
  return record;
}

void Stock::AdoptExtent(RecordNumber record) {
  lists_.Cover(RecordNumber(record.value() + 1));
  if (State(record).state() == PageState::kLive) return EnterLiveExtent(record);
  client_regions_.BecameCondemned(record);
  lists_.PushBack(condemned_extents_, record);
  ++extents_condemned_;
}

void Stock::AdoptRegion(const pool::Pool::PageRegion& region) {
  const auto known = FindClass(region.page_bytes);
  SetClass(region.slot, known.has_value() ? *known : AddClass(region.page_bytes));
  runs_.emplace(region.first_record.value(), Run{0, region.slot});
  AdoptMore(region, region.page_count);
}

void Stock::AdoptMore(const pool::Pool::PageRegion& region, uint32_t pages) {
  lists_.Cover(RecordNumber(region.first_record.value() + region.page_count));
  runs_.at(region.first_record.value()).count = region.page_count;
  classes_[ClassOfRegion(region.slot).value()].pages += pages;
  counts_.pages += pages;
}

Result<Stock::Cut> Stock::CutUnit(uint64_t page_bytes, uint64_t wanted_bytes) {
  Cut cut = Cut::kGoneOn;
  auto at = cuttings_.find(page_bytes);
  if (at == cuttings_.end()) {
    const auto known = FindClass(page_bytes);
    const bool has_pages = known.has_value() && Class(*known).pages > 0;
    if (!has_pages && SizesInUse() >= kPageSizesMax) {
      cut_failure_ =
          ResourceExhausted(pool_->name() + " has pages of " + std::to_string(kPageSizesMax) +
                            " sizes already, none of them of " + std::to_string(page_bytes) +
                            " bytes: a region of one of them has to be without keys first");
      return cut_failure_;
    }
    cut_failure_ = OkStatus();
    MARU_ASSIGN_OR_RETURN(const pool::Pool::Cutting begun,
                          pool_->BeginCut(page_bytes, wanted_bytes));
    at = cuttings_.emplace(page_bytes, begun).first;
    cut = Cut::kBegun;
  }
  MARU_RETURN_IF_ERROR(ContinueCut(at));
  return cut;
}

bool Stock::CutAnyUnit() {
  if (cuttings_.empty()) return false;
  // An error ends the region; a grant that finds no page says what was wrong.
  (void)ContinueCut(cuttings_.begin());
  return true;
}

Status Stock::ContinueCut(Cuttings::iterator cutting) {
  pool::Pool::Cutting& cut = cutting->second;
  const uint32_t before = cut.region.page_count;
  const Result<uint32_t> added = pool_->ContinueCut(&cut);
  if (added.ok() && *added > 0) {
    if (before == 0) {
      AdoptRegion(cut.region);
    } else {
      AdoptMore(cut.region, *added);
    }
    for (uint32_t i = before; i < cut.region.page_count; ++i) {
      const RecordNumber record(cut.region.first_record.value() + i);
      EnterFree(record, End::kBack);
      Changed(record);
    }
  }
  if (cut.over()) cuttings_.erase(cutting);
  cut_failure_ = added.status();
  return cut_failure_;
}

void Stock::EndCut(Cuttings::iterator cutting) {
  pool_->EndCut(&cutting->second);
  cuttings_.erase(cutting);
}

bool Stock::Idle(const pool::Pool::PageRegion& region) const {
  for (uint32_t i = 0; i < region.page_count; ++i) {
    const RecordNumber record(region.first_record.value() + i);
    if (State(record).state() != PageState::kFree && !WornOut(record)) return false;
  }
  return true;
}

bool Stock::WornOut(RecordNumber record) const {
  return State(record).state() == PageState::kWorn && LivingOwner(record) == nullptr;
}

void Stock::FreeRegion(const pool::Pool::PageRegion& region) {
  for (uint32_t i = 0; i < region.page_count; ++i) {
    const RecordNumber record(region.first_record.value() + i);
    for (StockWatch* const watch : watches_) watch->Before(record);
    if (State(record).state() == PageState::kFree) {
      LeaveFree(record);
    } else {
      --counts_.worn;
    }
  }
  runs_.erase(region.first_record.value());
  classes_[class_of_region_[region.slot.value()].value()].pages -= region.page_count;
  counts_.pages -= region.page_count;
  MARU_CHECK_OK(pool_->FreePages(region.slot));
}

uint32_t Stock::FreeIdleRegions(uint64_t kept_page_bytes) {
  // What is being cut for another size is not gone on with, whatever its pages are used for.
  for (auto at = cuttings_.begin(); at != cuttings_.end();) {
    const auto cutting = at++;
    if (cutting->first != kept_page_bytes) EndCut(cutting);
  }
  return FreeWholeIdleRegions(kept_page_bytes);
}

uint32_t Stock::FreeWholeIdleRegions(uint64_t kept_page_bytes) {
  uint32_t freed = 0;
  for (const pool::Pool::PageRegion& region : pool_->PageRegions()) {
    if (region.page_bytes == kept_page_bytes || !Idle(region)) continue;
    const auto cut = cuttings_.find(region.page_bytes);
    if (cut != cuttings_.end() && cut->second.region.slot == region.slot) continue;
    FreeRegion(region);
    ++freed;
  }
  return freed;
}

// --- Clients.

void Stock::Welcome(Client* client) {
  Client::Holding& holding = client->pools[index_.value()];
  holding.granted = lists_.New(ListKind::kGranted);
  holding.settled = lists_.New(ListKind::kGranted);
  MARU_CHECK(holding.granted.value() != 0 && holding.settled.value() != 0);
}

void Stock::Forget(Client* client) {
  Client::Holding& holding = client->pools[index_.value()];
  MARU_CHECK_EQ(holding.granted_pages, 0u);
  lists_.Delete(holding.granted);
  lists_.Delete(holding.settled);
  recency_.OwnerDied(client->id);
}

void Stock::Settled(RecordNumber record, Client* client) {
  lists_.Remove(record);
  lists_.PushBack(client->pools[index_.value()].settled, record);
}

void Stock::EndSettlement(Client* client) {
  Client::Holding& holding = client->pools[index_.value()];
  lists_.Append(holding.settled, holding.granted);
}

// --- The two halves of a transition beside the record: list and counts.

void Stock::EnterFree(RecordNumber record, End end) {
  // The writer makes a page WORN that would become FREE at its last generation.
  if (State(record).state() == PageState::kWorn) {
    ++counts_.worn;
    return;
  }
  SizeClass& size_class = classes_[ClassOf(record).value()];
  if (end == End::kFront) {
    lists_.PushFront(size_class.free, record);
  } else {
    lists_.PushBack(size_class.free, record);
  }
  ++size_class.free_pages;
  ++counts_.free;
}

void Stock::LeaveFree(RecordNumber record) {
  lists_.Remove(record);
  --classes_[ClassOf(record).value()].free_pages;
  --counts_.free;
}

void Stock::EnterGranted(RecordNumber record, Client* client) {
  lists_.PushBack(client->GrantedList(index_), record);
  ++client->pools[index_.value()].granted_pages;
  client->granted_bytes += PageBytes(record);
  ++counts_.granted;
}

void Stock::LeaveGranted(RecordNumber record, Client* client) {
  lists_.Remove(record);
  if (!sent_elsewhere_.empty()) sent_elsewhere_.erase(record.value());
  --client->pools[index_.value()].granted_pages;
  client->granted_bytes -= PageBytes(record);
  --counts_.granted;
}

void Stock::EnterQuarantine(RecordNumber record, uint64_t now_ns) {
  lists_.PushBack(quarantined_, record);
  const uint64_t at_ns = now_ns + quarantine_ns_;
  if (endings_.empty() || endings_.back().at_ns != at_ns) endings_.push_back({at_ns, 0});
  ++endings_.back().pages;
  ++counts_.quarantined;
}

void Stock::EnterLive(RecordNumber record) {
  SizeClass& size_class = classes_[ClassOf(record).value()];
  ++size_class.live_pages;
  ++counts_.live;
  const uint64_t length = Record(record).length_bytes.load(std::memory_order_relaxed);
  stored_bytes_ += length;
  namespaces_->Add(writer().KeyOf(record).name_space,
                   {.pages = 1, .bytes = size_class.page_bytes, .stored_bytes = length});
  if (Client* const owner = LivingOwner(record)) {
    owner->live_bytes += size_class.page_bytes;
    ++owner->live_pages;
  }
}

void Stock::LeaveLive(RecordNumber record) {
  Hide(record);
  SizeClass& size_class = classes_[ClassOf(record).value()];
  --size_class.live_pages;
  --counts_.live;
  const uint64_t length = Record(record).length_bytes.load(std::memory_order_relaxed);
  stored_bytes_ -= length;
  namespaces_->TakeOff(writer().KeyOf(record).name_space,
                       {.pages = 1, .bytes = size_class.page_bytes, .stored_bytes = length});
  if (Client* const owner = LivingOwner(record)) {
    owner->live_bytes -= size_class.page_bytes;
    --owner->live_pages;
  }
}

void Stock::EnterLiveExtent(RecordNumber record) {
  client_regions_.BecameLive(record);
  const uint64_t length = Record(record).length_bytes.load(std::memory_order_relaxed);
  namespaces_->Add(writer().KeyOf(record).name_space, {.extents = 1, .stored_bytes = length});
}

void Stock::LeaveLiveExtent(RecordNumber record) {
  client_regions_.LeftLive(record);
  const uint64_t length = Record(record).length_bytes.load(std::memory_order_relaxed);
  namespaces_->TakeOff(writer().KeyOf(record).name_space, {.extents = 1, .stored_bytes = length});
}

void Stock::EnterCondemned(RecordNumber record) {
  lists_.PushBack(condemned_, record);
  ++counts_.condemned;
}

// --- Transitions.

bool Stock::Grant(ClassIndex size_class, Client* client, wire::PageRef* page) {
  // Each turn takes a page out of the free list.
  while (!lists_.Empty(Class(size_class).free)) {
    const RecordNumber record = lists_.Front(Class(size_class).free);
    const Change change(this, record);
    Generation generation{0};
    LeaveFree(record);
    if (writer().Grant(record, client->slot, &generation)) {
      EnterGranted(record, client);
      *page = Ref(record, generation);
      return true;
    }
    ++counts_.worn;
  }
  return false;
}

bool Stock::Renew(RecordNumber record, Client* client, Generation* generation) {
  const Change change(this, record);
  if (!writer().Renew(record, client->id, generation)) {
    LeaveGranted(record, client);
    ++counts_.worn;
    *generation = Generation(0);
    return false;
  }
  return true;
}

void Stock::GiveBack(RecordNumber record, Client* client) {
  const Change change(this, record);
  LeaveGranted(record, client);
  writer().GiveBack(record);
  EnterFree(record, End::kFront);
}

void Stock::Quarantine(RecordNumber record, Client* client, uint64_t now_ns) {
  const Change change(this, record);
  LeaveGranted(record, client);
  writer().Quarantine(record);
  EnterQuarantine(record, now_ns);
}

uint64_t Stock::EndQuarantines(uint64_t now_ns) {
  for (uint64_t ended = 0; ended < kQuarantinesEndedMax; ++ended) {
    if (endings_.empty() || endings_.front().at_ns > now_ns) break;
    const RecordNumber record = lists_.Front(quarantined_);
    const Change change(this, record);
    lists_.Remove(record);
    --counts_.quarantined;
    writer().EndQuarantine(record);
    EnterFree(record, End::kBack);
    if (--endings_.front().pages == 0) endings_.pop_front();
  }
  return endings_.empty() ? 0 : endings_.front().at_ns;
}

Status Stock::Register(RecordNumber record, Client* client, const catalogue::KeyRef& key,
                       const catalogue::Writer::Birth& birth) {
  const Change change(this, record);
  const uint64_t text_bytes = key.name_space.size() + key.key.size();
  Status registered = writer().Register(record, key, birth);
  if (!registered.ok()) {
    StayWithoutRoom(text_bytes);
    return registered;
  }
  // A shorter one says nothing of those that need more.
  if (refused_key_.has_value() && text_bytes >= refused_key_->text_bytes) refused_key_.reset();
  LeaveGranted(record, client);
  EnterLive(record);
  return OkStatus();
}

ClientId Stock::RecencyOwner(RecordNumber record) const {
  const Client* const owner = LivingOwner(record);
  return owner == nullptr ? ClientId(0) : owner->id;
}

void Stock::Hide(RecordNumber record) {
  if (!lists_.Linked(record)) return;
  recency_.Remove(ClassOf(record), RecencyOwner(record), record);
}

void Stock::Used(RecordNumber record) {
  if (IsExtent(record)) return;
  Hide(record);
  recency_.Insert(ClassOf(record), RecencyOwner(record), record);
}

void Stock::PrefetchUse(RecordNumber record) const {
  const layout::PageRecord* const page = pool_->view().Record(record);
  if (page == nullptr) return;
  Prefetch(page);
  Prefetch(&page->last_use);
  lists_.Prefetch(record);
}

void Stock::Retire(RecordNumber record) {
  const Change change(this, record);
  writer().Retire(record);
}

void Stock::Revert(RecordNumber record) {
  const Change change(this, record);
  writer().Revert(record);
}

void Stock::Condemn(RecordNumber record) {
  const Change change(this, record);
  if (IsExtent(record)) {
    LeaveLiveExtent(record);
    client_regions_.BecameCondemned(record);
    writer().Condemn(record);
    lists_.PushBack(condemned_extents_, record);
    ++extents_condemned_;
    return;
  }
  LeaveLive(record);
  writer().Condemn(record);
  EnterCondemned(record);
}

void Stock::Free(RecordNumber record) {
  const Change change(this, record);
  lists_.Remove(record);
  if (IsExtent(record)) {
    ClientRegions::Region& region = client_regions_.Of(record);
    --extents_condemned_;
    writer().FreeExtent(record);
    client_regions_.LeftCondemned(&region);
    return;
  }
  --counts_.condemned;
  writer().Free(record);
  EnterFree(record, End::kFront);
}

void Stock::KeepCondemned(RecordNumber record) {
  lists_.Remove(record);
  lists_.PushBack(IsExtent(record) ? condemned_extents_ : condemned_, record);
}

void Stock::HoldCondemned(RecordNumber record, uint64_t until_unix_ns) {
  lists_.Remove(record);
  lists_.PushBack(on_hold_, record);
  holds_.emplace(until_unix_ns, record);
}

uint64_t Stock::EndHolds(uint64_t now_unix_ns) {
  for (uint64_t i = 0; i < kHoldsEndedMax; ++i) {
    if (holds_.empty() || holds_.top().first > now_unix_ns) break;
    const RecordNumber record = holds_.top().second;
    holds_.pop();
    lists_.Remove(record);
    lists_.PushBack(condemned_, record);
  }
  return holds_.empty() ? 0 : holds_.top().first;
}

void Stock::Adopt(RecordNumber record, uint64_t now_ns) {
  const layout::StateWord word = State(record);
  switch (word.state()) {
    case PageState::kFree:
    case PageState::kWorn: return EnterFree(record, End::kBack);
    case PageState::kGranted:
      if (Client* const client = clients_->BySlot(index_, word.client())) {
        return EnterGranted(record, client);
      }
      writer().Quarantine(record);
      return EnterQuarantine(record, now_ns);
    case PageState::kQuarantined: return EnterQuarantine(record, now_ns);
    case PageState::kLive: EnterLive(record); return Used(record);
    case PageState::kCondemned: return EnterCondemned(record);
    case PageState::kAbsent:
    case PageState::kRetiring: break;  // the writer reverts RETIRING before this
  }
  MARU_CHECK(false) << "record " << record << " in " << pool_->name() << " is in state "
                    << word.state();
}

}  // namespace maru::engine
