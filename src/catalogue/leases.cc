#include "catalogue/leases.h"

#include <array>

#include "base/check.h"
#include "base/mutex.h"
#include "base/sequence_point.h"
#include "base/waiting.h"
#include "catalogue/lease_slots.h"
#include "catalogue/lease_table.h"

namespace maru::catalogue {

namespace {

using layout::PageState;
using layout::SlotWord;
using layout::StateWord;
using Kind = layout::SlotWord::Kind;
using Pending = LeaseEntry::Pending;

constexpr uint32_t kShards = 64;
// How often one call waits for others' Confirm; then it answers kGone: find again.
constexpr int kJoinWaitsMax = 1000;

// What inert children leave behind, as a list: it stays reachable, so that no leak checker counts
// it. Relaxed: nobody reads it.
std::atomic<void*> abandoned{nullptr};

}  // namespace

class Leases::Impl {
 public:
  Impl(PoolView view, layout::LeaseHeader* header) : header_(header), view_(view), slots_(header) {}

  LeaseOutcome Take(RecordNumber record, Generation generation, What what);
  LeaseOutcome TakeGranted(RecordNumber record, Generation generation);
  LeaseOutcome Confirm(RecordNumber record, Generation generation, What what, Server verdict);
  void Release(RecordNumber record, Generation generation);
  bool Unpin(RecordNumber record, Generation generation);
  bool Pinned(RecordNumber record, Generation generation);
  void Touch(RecordNumber record);
  void Publish(const Counts& counts);
  // Relaxed, with LeaseAreas::SetRecall: a wish, by itself.
  uint64_t recall() const { return inert() ? 0 : header_->recall.load(std::memory_order_relaxed); }
  template <typename Visit>
  void ForEach(const Visit& visit);

  LeaseSlotPool& slots() { return slots_; }
  // Relaxed: set once, by the only thread of a forked child.
  bool inert() const { return inert_.load(std::memory_order_relaxed); }
  void MakeInert() { inert_.store(true, std::memory_order_relaxed); }
  // In place of destruction: what other threads of a forked child's parent may have locked, or wait
  // on, must not be destroyed.
  void Abandon() { abandoned_before_ = abandoned.exchange(this, std::memory_order_relaxed); }

 private:
  // A mutex holds over the filling of a slot and its check, so no thread meets one that is filled
  // and not checked; it is never held while anybody is waited for.
  struct alignas(64) Shard {
    Mutex mutex;
    CondVar confirmed;
    LeaseTable table MARU_GUARDED_BY(mutex);
  };
  enum class Check : uint8_t { kLive, kRetiring, kOver };

  Shard& ShardOf(RecordNumber record) {
    return shards_[(record.value() * 0x9e3779b97f4a7c15) >> 58 & (kShards - 1)];
  }
  Check ReadState(RecordNumber record, Generation generation) const;
  static LeaseEntry* FindEntry(Shard& shard, RecordNumber record, Generation generation)
      MARU_REQUIRES(shard.mutex);
  LeaseOutcome TakeFirst(Shard& shard, SlotWord word, What what) MARU_REQUIRES(shard.mutex);
  LeaseOutcome Upgrade(LeaseEntry& entry);
  // Puts the slot to what the counts say.
  void Settle(Shard& shard, LeaseEntry* entry) MARU_REQUIRES(shard.mutex);

  static SlotWord Plain(RecordNumber record, Generation generation) {
    return SlotWord::Make(record, generation, Kind::kLease);
  }
  static SlotWord Marked(SlotWord word) {
    return SlotWord::Make(word.record(), word.generation(), Kind::kPin);
  }

  std::array<Shard, kShards> shards_;
  layout::LeaseHeader* const header_;
  void* abandoned_before_ = nullptr;
  const PoolView view_;
  LeaseSlotPool slots_;
  std::atomic<bool> inert_{false};
};

LeaseEntry* Leases::Impl::FindEntry(Shard& shard, RecordNumber record, Generation generation) {
  if (generation.value() > layout::kGenerationMax) return nullptr;
  return shard.table.Find(Plain(record, generation));
}

Leases::Impl::Check Leases::Impl::ReadState(RecordNumber record, Generation generation) const {
  const layout::PageRecord* page = view_.Record(record);
  if (page == nullptr) return Check::kOver;
  // Seq_cst after the slot's seq_cst exchange, with the writer's seq_cst exchange of RETIRING and
  // the scan's seq_cst loads: either this reads RETIRING or later, or the scan reads the slot.
  const StateWord state(page->state_word.load(std::memory_order_seq_cst));
  MARU_SEQUENCE_POINT("lease:state-read");
  if (state == StateWord::Make(PageState::kLive, generation)) return Check::kLive;
  if (state == StateWord::Make(PageState::kRetiring, generation)) return Check::kRetiring;
  return Check::kOver;
}

LeaseOutcome Leases::Impl::Take(RecordNumber record, Generation generation, What what) {
  if (inert() || generation.value() == 0 || generation.value() > layout::kGenerationMax ||
      view_.Record(record) == nullptr) {
    return LeaseOutcome::kGone;
  }
  const SlotWord word = Plain(record, generation);
  Shard& shard = ShardOf(record);
  const MutexLock lock(shard.mutex);
  for (int waits = 0; waits < kJoinWaitsMax; ++waits) {
    LeaseEntry* entry = shard.table.Find(word);
    if (entry == nullptr) return TakeFirst(shard, word, what);
    if (what == What::kLease && entry->held()) {
      ++entry->leases;
      MARU_CHECK(entry->leases != 0) << "leases of record " << record;
      return LeaseOutcome::kHeld;
    }
    if (what == What::kPin && entry->pins != 0) {
      ++entry->pins;
      MARU_CHECK(entry->pins != 0) << "pins of record " << record;
      return LeaseOutcome::kHeld;
    }
    if (entry->pending == Pending::kNone) return Upgrade(*entry);
    MARU_SEQUENCE_POINT("lease:waits-for-confirm");
    {
      const Waiting waiting;
      shard.confirmed.Wait(shard.mutex);
      shard.mutex.Unlock();  // before what follows the wait
    }
    shard.mutex.Lock();
  }
  return LeaseOutcome::kGone;
}

LeaseOutcome Leases::Impl::TakeFirst(Shard& shard, SlotWord word, What what) {
  shard.table.ReserveOne();
  const std::optional<uint32_t> slot = slots_.Take();
  if (!slot) return LeaseOutcome::kNoSlot;
  // Seq_cst: see ReadState.
  slots_.At(*slot).exchange(what == What::kPin ? Marked(word).bits() : word.bits(),
                            std::memory_order_seq_cst);
  MARU_SEQUENCE_POINT("lease:slot-filled");
  const Check check = ReadState(word.record(), word.generation());
  if (check == Check::kOver) {
    // Release, with the scan's seq_cst load: what was read under the slot was read before. Nothing
    // was here.
    slots_.At(*slot).store(0, std::memory_order_release);
    slots_.Give(*slot);
    return LeaseOutcome::kGone;
  }
  LeaseEntry& entry = *shard.table.Insert(word);
  entry.slot = *slot;
  if (check == Check::kRetiring) {
    entry.pending = what == What::kPin ? Pending::kPin : Pending::kLease;
    return LeaseOutcome::kRetiring;
  }
  ++(what == What::kPin ? entry.pins : entry.leases);
  return LeaseOutcome::kHeld;
}

LeaseOutcome Leases::Impl::TakeGranted(RecordNumber record, Generation generation) {
  if (inert() || generation.value() == 0 || generation.value() > layout::kGenerationMax ||
      view_.Record(record) == nullptr) {
    return LeaseOutcome::kGone;
  }
  const SlotWord word = Plain(record, generation);
  Shard& shard = ShardOf(record);
  const MutexLock lock(shard.mutex);
  MARU_CHECK(shard.table.Find(word) == nullptr) << "granted record " << record << " is leased";
  shard.table.ReserveOne();
  const std::optional<uint32_t> slot = slots_.Take();
  if (!slot) return LeaseOutcome::kNoSlot;
  // Seq_cst, with the scan's loads: it comes before the message that makes the page a key's.
  slots_.At(*slot).exchange(word.bits(), std::memory_order_seq_cst);
  LeaseEntry& entry = *shard.table.Insert(word);
  entry.slot = *slot;
  entry.leases = 1;
  return LeaseOutcome::kHeld;
}

LeaseOutcome Leases::Impl::Upgrade(LeaseEntry& entry) {
  const SlotWord word(entry.word);
  MARU_SEQUENCE_POINT("pin:before-exchange");
  // Seq_cst: see ReadState. At no moment is the slot empty.
  slots_.At(entry.slot).exchange(Marked(word).bits(), std::memory_order_seq_cst);
  MARU_SEQUENCE_POINT("pin:mark-set");
  switch (ReadState(word.record(), word.generation())) {
    case Check::kLive: ++entry.pins; return LeaseOutcome::kHeld;
    case Check::kRetiring: entry.pending = Pending::kPin; return LeaseOutcome::kRetiring;
    case Check::kOver: break;
  }
  // Release, with the scan's seq_cst load: back to the lease that was there.
  slots_.At(entry.slot).store(word.bits(), std::memory_order_release);
  return LeaseOutcome::kGone;
}

void Leases::Impl::Settle(Shard& shard, LeaseEntry* entry) {
  if (entry->pins != 0 || entry->pending != Pending::kNone) return;  // the slot's word stands
  std::atomic<uint64_t>& slot = slots_.At(entry->slot);
  if (entry->leases != 0) {
    // Release, with the scan's seq_cst load.
    slot.store(entry->word, std::memory_order_release);
    return;
  }
  // Release, with the scan's seq_cst load: every read of the page's bytes was before.
  slot.store(0, std::memory_order_release);
  slots_.Give(entry->slot);
  shard.table.Erase(entry);
}

LeaseOutcome Leases::Impl::Confirm(RecordNumber record, Generation generation, What what,
                                   Server verdict) {
  if (inert()) return LeaseOutcome::kGone;
  Shard& shard = ShardOf(record);
  const MutexLock lock(shard.mutex);
  LeaseEntry* entry = FindEntry(shard, record, generation);
  MARU_CHECK(entry != nullptr) << "record " << record << " has nothing to confirm";
  MARU_CHECK_EQ(entry->pending, what == What::kPin ? Pending::kPin : Pending::kLease);
  entry->pending = Pending::kNone;
  shard.confirmed.NotifyAll();
  // The server has answered after the slot was filled, so every later scan reads it; RETIRING is
  // a later try to retire, which that scan decides.
  if (verdict == Server::kSaysLive && ReadState(record, generation) != Check::kOver) {
    ++(what == What::kPin ? entry->pins : entry->leases);
    return LeaseOutcome::kHeld;
  }
  Settle(shard, entry);
  return LeaseOutcome::kGone;
}

void Leases::Impl::Release(RecordNumber record, Generation generation) {
  if (inert()) return;
  Shard& shard = ShardOf(record);
  const MutexLock lock(shard.mutex);
  LeaseEntry* entry = FindEntry(shard, record, generation);
  MARU_CHECK(entry != nullptr && entry->leases != 0) << "record " << record << " is not leased";
  if (--entry->leases == 0) Settle(shard, entry);
}

bool Leases::Impl::Unpin(RecordNumber record, Generation generation) {
  if (inert()) return false;
  Shard& shard = ShardOf(record);
  const MutexLock lock(shard.mutex);
  LeaseEntry* entry = FindEntry(shard, record, generation);
  if (entry == nullptr || entry->pins == 0) return false;
  if (--entry->pins == 0) Settle(shard, entry);
  return true;
}

bool Leases::Impl::Pinned(RecordNumber record, Generation generation) {
  if (inert()) return false;
  Shard& shard = ShardOf(record);
  const MutexLock lock(shard.mutex);
  const LeaseEntry* entry = FindEntry(shard, record, generation);
  return entry != nullptr && entry->pins != 0;
}

void Leases::Impl::Touch(RecordNumber record) {
  if (inert()) return;
  // Relaxed, with LeaseAreas::DrainTouches: it may meet the entry of an older touch, which is as
  // good a hint.
  const uint64_t touch = header_->touch_head.fetch_add(1, std::memory_order_relaxed);
  header_->touches[touch % layout::kTouchRingEntries].store(record.value(),
                                                            std::memory_order_relaxed);
}

void Leases::Impl::Publish(const Counts& counts) {
  if (inert()) return;
  // Relaxed, with LeaseAreas::ReadCounts: last_request carries them.
  header_->free_pages.store(counts.free_pages, std::memory_order_relaxed);
  header_->pending_pages.store(counts.pending_pages, std::memory_order_relaxed);
  header_->held_pages.store(counts.held_pages, std::memory_order_relaxed);
  // Release, with the acquire of ReadCounts: the counts are those after that request, or later.
  header_->last_request.store(counts.last_request, std::memory_order_release);
}

template <typename Visit>
void Leases::Impl::ForEach(const Visit& visit) {
  if (inert()) return;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    shard.table.ForEach(visit);
  }
}

Leases::Leases(PoolView view, layout::LeaseHeader* header,
               std::span<layout::LeaseSlots* const> blocks)
    : impl_(std::make_unique<Impl>(view, header)) {
  for (layout::LeaseSlots* block : blocks) AddBlock(block);
}

Leases::~Leases() {
  if (impl_->inert()) impl_.release()->Abandon();
}

void Leases::AddBlock(layout::LeaseSlots* block) {
  if (!impl_->inert()) impl_->slots().AddBlock(block);
}

LeaseOutcome Leases::Acquire(RecordNumber record, Generation generation) {
  return impl_->Take(record, generation, What::kLease);
}

LeaseOutcome Leases::AcquireGranted(RecordNumber record, Generation generation) {
  return impl_->TakeGranted(record, generation);
}

LeaseOutcome Leases::Pin(RecordNumber record, Generation generation) {
  return impl_->Take(record, generation, What::kPin);
}

LeaseOutcome Leases::Confirm(RecordNumber record, Generation generation, What what,
                             Server verdict) {
  return impl_->Confirm(record, generation, what, verdict);
}

void Leases::Release(RecordNumber record, Generation generation) {
  impl_->Release(record, generation);
}

bool Leases::Unpin(RecordNumber record, Generation generation) {
  return impl_->Unpin(record, generation);
}

bool Leases::Pinned(RecordNumber record, Generation generation) const {
  return impl_->Pinned(record, generation);
}

void Leases::Touch(RecordNumber record) { impl_->Touch(record); }
void Leases::Publish(const Counts& counts) { impl_->Publish(counts); }
uint64_t Leases::recall() const { return impl_->recall(); }

uint32_t Leases::blocks() const {
  return static_cast<uint32_t>(impl_->slots().capacity() / layout::kLeaseSlotsPerBlock);
}

uint64_t Leases::slots_in_use() const {
  uint64_t count = 0;
  impl_->ForEach([&](const LeaseEntry&) { ++count; });
  return count;
}

uint64_t Leases::pins() const {
  uint64_t count = 0;
  impl_->ForEach([&](const LeaseEntry& entry) { count += entry.pins != 0 ? 1 : 0; });
  return count;
}

void Leases::MakeInert() { impl_->MakeInert(); }

}  // namespace maru::catalogue
