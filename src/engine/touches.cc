#include "engine/touches.h"

#include <algorithm>

namespace maru::engine {

using layout::PageState;

namespace {
// Records whose memory is asked for before the first of them is looked at. Each use costs half a
// dozen cache misses, which overlap this way.
constexpr size_t kPrefetchGroup = 32;
}  // namespace

void Touches::Mark(Stock* stock, RecordNumber record) {
  stock->writer().SetLastUse(record, ++core_->use_tick);
  stock->Used(record);
}

void Touches::Drain() { (void)DrainRings(rings()); }

Touches::Left Touches::DrainRound() {
  left_in_round_ = std::min(left_in_round_, rings());  // clients may have gone
  if (left_in_round_ == 0) left_in_round_ = rings();
  left_in_round_ -= DrainRings(left_in_round_);
  return left_in_round_ == 0 ? Left::kNone : Left::kSome;
}

uint64_t Touches::DrainRings(uint64_t rings_max) {
  const uint64_t pools = core_->stocks.size();
  uint64_t looked_at = 0, taken = 0;
  while (looked_at < rings_max && taken < kPerStep) {
    if (next_ring_ >= rings()) next_ring_ = 0;  // all had their turn, or clients have gone
    const Client& client = *core_->clients.all()[next_ring_ / pools];
    Stock* const stock = core_->stocks[next_ring_ % pools].get();
    ++next_ring_;
    ++looked_at;
    if (client.pools[stock->index().value()].present) taken += DrainRing(stock, client.slot);
  }
  return looked_at;
}

uint64_t Touches::DrainRing(Stock* stock, ClientSlot slot) {
  touched_.clear();
  stock->pool().leases().DrainTouches(slot,
                                      [this](RecordNumber record) { touched_.push_back(record); });
  for (size_t at = 0; at < touched_.size(); at += kPrefetchGroup) {
    const size_t count = std::min(kPrefetchGroup, touched_.size() - at);
    TakeIn(stock, std::span(touched_).subspan(at, count));
  }
  return touched_.size();
}

void Touches::TakeIn(Stock* stock, std::span<const RecordNumber> records) {
  for (const RecordNumber record : records) stock->PrefetchUse(record);
  for (const RecordNumber record : records) {
    if (stock->Known(record)) stock->lists().PrefetchBeside(record);
  }
  for (const RecordNumber record : records) {
    if (!stock->Known(record)) continue;
    if (stock->State(record).state() != PageState::kLive) continue;
    // In no list: stored or confirmed in this very step, which gives it its place at the end.
    if (!stock->lists().Linked(record)) continue;
    ++core_->counters.touches;
    Mark(stock, record);
  }
}

}  // namespace maru::engine
