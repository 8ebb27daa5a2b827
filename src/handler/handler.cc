#include "handler/handler.h"

#include <utility>

#include "handler/impl.h"

namespace maru::handler {

View::View(View&& other) noexcept
    : pool_(std::move(other.pool_)),
      bytes_(std::exchange(other.bytes_, {})),
      page_(other.page_),
      region_id_(other.region_id_),
      page_index_(other.page_index_) {}

View& View::operator=(View&& other) noexcept {
  if (this == &other) return *this;
  Release();
  pool_ = std::move(other.pool_);
  bytes_ = std::exchange(other.bytes_, {});
  page_ = other.page_;
  region_id_ = other.region_id_;
  page_index_ = other.page_index_;
  return *this;
}

View::~View() { Release(); }

void View::Release() {
  if (pool_ == nullptr) return;
  pool_->leases().Release(page_.record, page_.generation);
  pool_ = nullptr;
  bytes_ = {};
}

MemoryHold::~MemoryHold() {
  if (leased.value() != 0) mapping->leases().Release(page.record, leased);
}

Handler::Handler(HandlerOptions options, Link* link, const Clock* clock)
    : impl_(std::make_unique<Impl>(std::move(options), link, clock)) {}
Handler::~Handler() { impl_->Close(HeldPages::kGiveBack); }

Status Handler::Connect() { return impl_->Connect(); }
void Handler::Close(HeldPages held) { impl_->Close(held); }
bool Handler::connected() const { return impl_->connected(); }
Result<PageHandle> Handler::Alloc(uint64_t size_bytes) { return impl_->Alloc(size_bytes); }
Result<bool> Handler::Store(std::string_view key, const PageHandle& page, uint64_t length_bytes) {
  return impl_->Store(key, page, length_bytes);
}
Result<std::vector<bool>> Handler::BatchStore(std::span<const StoreItem> items) {
  return impl_->BatchStore(items);
}
Status Handler::Free(const PageHandle& page, IfStored if_stored) {
  return impl_->Free(page, if_stored);
}
Result<PageHandle> Handler::FromAddress(uint32_t region_id, uint32_t page_index) const {
  return impl_->FromAddress(region_id, page_index);
}
Result<std::shared_ptr<MemoryHold>> Handler::HoldOn(const PageHandle& page) {
  return impl_->HoldOn(page);
}
void Handler::LetGo(std::shared_ptr<MemoryHold> hold) { impl_->LetGo(std::move(hold)); }
Result<std::vector<RegionOfPages>> Handler::Regions() const { return impl_->Regions(); }
Result<RegionMemory> Handler::BytesOfRegion(uint32_t region_id, uint64_t offset_bytes,
                                            uint64_t length_bytes) const {
  return impl_->RegionBytes(region_id, offset_bytes, length_bytes);
}
Result<View> Handler::Retrieve(std::string_view key, Verify verify) {
  return impl_->Retrieve(key, verify);
}
Result<std::vector<View>> Handler::BatchRetrieve(std::span<const std::string_view> keys,
                                                 Verify verify) {
  return impl_->BatchRetrieve(keys, verify);
}
Result<bool> Handler::Exists(std::string_view key) { return impl_->Exists(key); }
Result<std::vector<bool>> Handler::BatchExists(std::span<const std::string_view> keys) {
  return impl_->BatchExists(keys);
}
Result<uint64_t> Handler::MatchPrefix(std::span<const std::string_view> keys) {
  return impl_->MatchPrefix(keys);
}
Result<bool> Handler::Pin(std::string_view key) { return impl_->Pin(key); }
Result<bool> Handler::Unpin(std::string_view key) { return impl_->Unpin(key); }

Result<std::vector<bool>> Handler::BatchPin(std::span<const std::string_view> keys) {
  return impl_->BatchPin(keys);
}
Result<std::vector<bool>> Handler::BatchUnpin(std::span<const std::string_view> keys) {
  return impl_->BatchUnpin(keys);
}

Result<wire::DeleteOutcome> Handler::Delete(std::string_view key) {
  MARU_ASSIGN_OR_RETURN(const std::vector<wire::DeleteOutcome> outcomes,
                        impl_->BatchDelete({&key, 1}));
  return outcomes.front();
}
Result<std::vector<wire::DeleteOutcome>> Handler::BatchDelete(
    std::span<const std::string_view> keys) {
  return impl_->BatchDelete(keys);
}

Status Handler::Ping() {
  wire::Reply reply;
  return impl_->Ask(wire::PingRequest{}, &reply);
}
Status Handler::Ask(const wire::Request& request, wire::Reply* reply) {
  return impl_->Ask(request, reply);
}
uint64_t Handler::Tick() { return impl_->Tick(); }
Handler::Counters Handler::counters() const { return impl_->counters(); }
ClientId Handler::client() const { return impl_->client(); }
uint64_t Handler::epoch_changes() const { return impl_->epoch_changes(); }
void Handler::MakeInert() { impl_->MakeInert(); }

Handler::Counters Handler::Impl::counters() const {
  const auto read = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  Counters all;
  // Another thread of the parent may have held the locks below when this process was forked.
  if (phase_.load(std::memory_order_relaxed) == Phase::kInert) return all;
  all.allocs = read(counts_.allocs);
  all.alloc_messages = read(counts_.alloc_messages);
  all.stores = read(counts_.stores);
  all.duplicates = read(counts_.duplicates);
  all.stale = read(counts_.stale);
  all.failed = read(counts_.failed);
  all.refused = read(counts_.refused);
  all.hits = read(counts_.hits);
  all.misses = read(counts_.misses);
  all.server_asks = read(counts_.server_asks);
  all.reconnects = read(counts_.reconnects);
  all.settled_kept = read(counts_.settled_kept);
  all.settled_live = read(counts_.settled_live);
  all.settled_gone = read(counts_.settled_gone);
  const auto current = session();
  if (current != nullptr) {
    for (const SessionPool& pool : current->pools) {
      all.leases += pool.mapped->leases().slots_in_use();
      all.pins += pool.mapped->leases().pins();
    }
  }
  MutexLock state(state_mutex_);
  all.free_in_hand = ledger_.Count(Holding::kHand);
  all.held = ledger_.Count(Holding::kHeld) + ledger_.Count(Holding::kLingers);
  all.unknown = ledger_.Count(Holding::kUnknown) + ledger_.Count(Holding::kInFlight);
  return all;
}

}  // namespace maru::handler
