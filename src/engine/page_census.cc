#include "engine/page_census.h"

namespace maru::engine {

using layout::PageState;

PageCensus::PageCensus(Stock* stock, const Clients* clients, ClientCensus* by_client,
                       NamespaceUse* by_namespace)
    : stock_(stock), clients_(clients), by_client_(by_client), by_namespace_(by_namespace) {
  stock_->Watch(this);
}

PageCensus::~PageCensus() { stock_->Unwatch(this); }

void PageCensus::Advance() {
  Count(RecordNumber(static_cast<uint32_t>(frontier_)), Sign::kAdd);
  ++frontier_;
}

void PageCensus::Before(RecordNumber record) {
  if (record.value() < frontier_) Count(record, Sign::kTakeOff);
}

void PageCensus::After(RecordNumber record) {
  if (record.value() < frontier_) Count(record, Sign::kAdd);
}

PageCensus::SizeSums PageCensus::OfSize(ClassIndex size_class) const {
  return size_class.value() < sizes_.size() ? sizes_[size_class.value()] : SizeSums{};
}

PageCensus::RegionSums PageCensus::OfRegion(RegionSlot slot) const {
  const auto found = regions_.find(slot);
  return found == regions_.end() ? RegionSums{} : found->second;
}

namespace {

uint64_t* CountOf(Engine::PoolCounts* counts, PageState state) {
  switch (state) {
    case PageState::kFree: return &counts->free;
    case PageState::kQuarantined: return &counts->quarantined;
    case PageState::kGranted: return &counts->granted;
    case PageState::kLive: return &counts->live;
    case PageState::kRetiring: return &counts->retiring;
    case PageState::kCondemned: return &counts->condemned;
    case PageState::kWorn: return &counts->worn;
    default: return nullptr;  // of no page; the check of the record says so
  }
}

}  // namespace

void PageCensus::Count(RecordNumber record, Sign sign) {
  const layout::PageRecord* const fields = stock_->pool().view().Record(record);
  if (fields == nullptr) return;
  if (const Stock::Run* const run = stock_->RunOf(record)) {
    return CountPage(record, stock_->ClassOfRegion(run->slot), sign);
  }
  CountExtent(record, sign);
}

// Sums wrap around when something is taken off that was added elsewhere: only the end counts.

void PageCensus::CountPage(RecordNumber record, ClassIndex size_class, Sign sign) {
  const uint64_t one = sign == Sign::kAdd ? 1 : ~uint64_t{0};
  const uint64_t page_bytes = stock_->Class(size_class).page_bytes;
  const layout::StateWord word = stock_->State(record);
  pages_.pages += one;
  if (uint64_t* const count = CountOf(&pages_, word.state())) *count += one;
  if (size_class.value() >= sizes_.size()) sizes_.resize(size_class.value() + 1);
  sizes_[size_class.value()].pages += one;
  if (word.state() == PageState::kGranted) {
    const Client* const client = clients_->BySlot(stock_->index(), word.client());
    if (client != nullptr) (*by_client_)[client->serial].granted_bytes += one * page_bytes;
    return;
  }
  if (word.state() != PageState::kLive) return;
  sizes_[size_class.value()].live += one;
  // Relaxed: this process wrote it, or judged it when it opened the pool.
  const uint64_t length =
      stock_->pool().view().Record(record)->length_bytes.load(std::memory_order_relaxed);
  stored_bytes_ += one * length;
  CountKey(record, {.pages = 1, .bytes = page_bytes, .stored_bytes = length}, sign);
  if (const Client* const owner = stock_->LivingOwner(record)) {
    ClientSums& sums = (*by_client_)[owner->serial];
    sums.live_bytes += one * page_bytes;
    sums.live_pages += one;
  }
}

void PageCensus::CountKey(RecordNumber record, const NamespaceUse::Use& use, Sign sign) {
  const auto key = stock_->writer().ReadKey(record);
  if (!key) return;
  if (sign == Sign::kAdd) {
    by_namespace_->Add(key->name_space, use);
  } else {
    by_namespace_->TakeOff(key->name_space, use);
  }
}

void PageCensus::CountExtent(RecordNumber record, Sign sign) {
  const PageState state = stock_->State(record).state();
  if (state != PageState::kLive && state != PageState::kCondemned) return;
  const uint64_t one = sign == Sign::kAdd ? 1 : ~uint64_t{0};
  const layout::PageRecord* const fields = stock_->pool().view().Record(record);
  // Relaxed: as above.
  const uint64_t slot = fields->region_slot.load(std::memory_order_relaxed);
  const uint64_t bytes = fields->length_bytes.load(std::memory_order_relaxed);
  if (state == PageState::kLive) CountKey(record, {.extents = 1, .stored_bytes = bytes}, sign);
  for (RegionSums* const sums : {&regions_[RegionSlot(static_cast<uint32_t>(slot))], &extents_}) {
    if (state == PageState::kLive) {
      sums->live += one;
      sums->live_bytes += one * bytes;
    } else {
      sums->condemned += one;
    }
  }
}

}  // namespace maru::engine
