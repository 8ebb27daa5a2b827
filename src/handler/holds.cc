// Memory of pages that is still in use when their handles' lives are over.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "handler/impl.h"

namespace maru::handler {

namespace {

// A page at its last generation is nobody's with the next answer that would give it a new one, and
// its region may be cut anew. A hold outlives such answers: one for a duplicate, one for each
// server that comes back.
constexpr uint32_t kGenerationsLeftMin = 1024;

void EndLease(MemoryHold* hold) {
  if (hold->leased.value() == 0) return;
  hold->mapping->leases().Release(hold->page.record, hold->leased);
  hold->leased = Generation(0);
}

}  // namespace

Result<std::shared_ptr<MemoryHold>> Handler::Impl::HoldOn(const PageHandle& page) {
  MARU_RETURN_IF_ERROR(CheckUsable());
  MARU_RETURN_IF_ERROR(CheckOwn(page));
  std::shared_ptr<const Session> current;
  MutexLock state(state_mutex_);
  current = session();
  Ledger::Entry* const entry = EntryOf(current.get(), page, Holding::kHeld);
  if (entry == nullptr) return LifeIsOver(page);
  if (page.page.generation.value() > layout::kGenerationMax - kGenerationsLeftMin) {
    return FailedPrecondition("record " + std::to_string(page.page.record.value()) +
                              " is near its last generation: its memory cannot be held on to");
  }
  std::shared_ptr<MemoryHold>& hold = holds_[KeyOf(page.page)];
  if (hold == nullptr) hold = std::make_shared<MemoryHold>(page.page, page.session, page.mapping);
  ++hold->count;
  entry->held_on = true;
  return hold;
}

void Handler::Impl::LetGo(std::shared_ptr<MemoryHold> given) {
  const std::shared_ptr<MemoryHold> hold = std::move(given);  // the last one ends the lease
  // Before any lock: in a forked child another thread's lock would never be released.
  if (phase_.load(std::memory_order_relaxed) != Phase::kOpen) return;
  {
    MutexLock state(state_mutex_);
    const auto at = holds_.find(KeyOf(hold->page));
    // Of a session that is over: nothing of it is in the ledger.
    if (at == holds_.end() || at->second != hold) return;
    MARU_CHECK(hold->count > 0) << "record " << hold->page.record << " is not held on";
    if (--hold->count > 0) return;
    holds_.erase(at);
    Ledger::Entry& entry = ledger_.At(hold->page.pool, hold->page.record);
    entry.held_on = false;
    if (entry.holding == Holding::kLingers) {
      ReturnToHand(hold->page.pool, hold->page.record, entry);
    }
  }
  PublishCounts();
}

void Handler::Impl::Linger(PoolIndex pool, RecordNumber record, Ledger::Entry& entry) {
  ledger_.Move(pool, entry, Holding::kLingers);
  // It is no key's, and this client's own: that keeps it as well.
  EndLease(holds_.at({pool.value(), record.value()}).get());
}

void Handler::Impl::LeaseHeldOn(const Arrival& arrival, std::span<const StoreItem> items,
                                std::vector<size_t>* indices) {
  // The hold of an item's page in flight, nullptr: none.
  const auto hold_of = [&](const Session* current, size_t i, Ledger::Entry** entry)
                           MARU_REQUIRES(state_mutex_) -> MemoryHold* {
    *entry = EntryOf(current, items[i].page, Holding::kInFlight);
    if (*entry == nullptr || !(*entry)->held_on) return nullptr;
    return holds_.at(KeyOf(items[i].page.page)).get();
  };
  // Each growth brings blocks, more than a frame has entries.
  for (size_t growths = 0; growths <= layout::kPoolsMax; ++growths) {
    const auto current = session();
    std::optional<size_t> full;
    {
      MutexLock state(state_mutex_);
      for (size_t n = 0; n < indices->size() && !full; ++n) {
        Ledger::Entry* entry = nullptr;
        MemoryHold* const hold = hold_of(current.get(), (*indices)[n], &entry);
        if (hold == nullptr || hold->leased == entry->generation) continue;
        EndLease(hold);
        const auto outcome =
            hold->mapping->leases().AcquireGranted(hold->page.record, entry->generation);
        if (outcome == catalogue::LeaseOutcome::kHeld) hold->leased = entry->generation;
        if (outcome == catalogue::LeaseOutcome::kNoSlot) full = hold->page.pool.value();
      }
    }
    if (!full || !GrowLeasesLocked(arrival, *current, *full).ok()) break;
  }
  const auto current = session();
  MutexLock state(state_mutex_);
  std::erase_if(*indices, [&](size_t i) MARU_REQUIRES(state_mutex_) {
    Ledger::Entry* entry = nullptr;
    const MemoryHold* const hold = hold_of(current.get(), i, &entry);
    if (hold == nullptr || hold->leased == entry->generation) return false;
    Add(counts_.failed);
    ReturnToHand(hold->page.pool, hold->page.record, *entry);
    return true;
  });
}

}  // namespace maru::handler
