// Stores: one message for each frame of entries, and where every page is afterwards.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/defect.h"
#include "base/hash.h"
#include "base/sequence_point.h"
#include "base/store_fence.h"
#include "handler/impl.h"
#include "wire/codec.h"

namespace maru::handler {

Status Handler::Impl::CheckItem(const StoreItem& item) const {
  MARU_RETURN_IF_ERROR(catalogue::CheckKey(item.key));
  if (item.length_bytes == 0 || item.length_bytes > options_.page_bytes) {
    return InvalidArgument("store of " + std::to_string(item.length_bytes) +
                           " bytes: a page of this handler holds 1 to " +
                           std::to_string(options_.page_bytes));
  }
  // Behind it lies what the page's former keys left there.
  if (item.length_bytes > item.page.size_bytes) {
    return InvalidArgument("store of " + std::to_string(item.length_bytes) +
                           " bytes: " + std::to_string(item.page.size_bytes) +
                           " were asked of alloc, of a page of " +
                           std::to_string(options_.page_bytes));
  }
  return OkStatus();
}

uint64_t Handler::Impl::ChecksumOf(const Session& session, const StoreItem& item) const {
  const size_t pool = item.page.page.pool.value();
  if (pool >= session.pools.size() || !session.pools[pool].mapped->checksums()) return 0;
  return HashBytes64({item.page.data, item.length_bytes});
}

Result<bool> Handler::Impl::Store(std::string_view key, const PageHandle& page,
                                  uint64_t length_bytes) {
  MARU_RETURN_IF_ERROR(CheckUsable());
  MARU_RETURN_IF_ERROR(CheckOwn(page));
  const StoreItem item{key, page, length_bytes};
  MARU_RETURN_IF_ERROR(CheckItem(item));
  std::shared_ptr<const Session> current;
  {
    MutexLock state(state_mutex_);
    current = session();
    if (EntryOf(current.get(), page, Holding::kHeld) == nullptr) {
      Add(counts_.stale);
      return LifeIsOver(page);
    }
  }
  MARU_ASSIGN_OR_RETURN(const std::vector<bool> stored, BatchStore({&item, 1}));
  return stored.front();
}

Result<std::vector<bool>> Handler::Impl::BatchStore(std::span<const StoreItem> items) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  for (const StoreItem& item : items) MARU_RETURN_IF_ERROR(CheckOwn(item.page));
  // Checksums are computed outside every lock; the pages are the caller's until they are taken
  // below.
  std::vector<uint64_t> checksums(items.size(), 0);
  std::vector<uint8_t> fits(items.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    fits[i] = CheckItem(items[i]).ok() ? 1 : 0;
    if (fits[i] != 0 && items[i].page.session == current->serial) {
      checksums[i] = ChecksumOf(*current, items[i]);
    }
  }
  const Arrival arrival = Arrive();
  const Waiting waiting;
  MutexLock call(call_mutex_);
  MARU_RETURN_IF_ERROR(CheckTurn(arrival));
  MARU_RETURN_IF_ERROR(ShareAttempt(arrival));
  MARU_RETURN_IF_ERROR(CheckUsable());
  // Of a connection that there is, settling waits until the pages are taken: whether it succeeds or
  // not, each item gets its answer.
  if (!link_->connected()) MARU_RETURN_IF_ERROR(EnsureReady(arrival));

  // From here on all pages are ours; a handle whose life is over changes nothing.
  Add(counts_.stores, items.size());
  std::vector<uint8_t> taken(items.size(), 0);
  {
    const auto attached = session();  // of a connection that was just made, it may be another one
    MutexLock state(state_mutex_);
    for (size_t i = 0; i < items.size(); ++i) {
      const wire::PageRef& page = items[i].page.page;
      Ledger::Entry* entry = EntryOf(attached.get(), items[i].page, Holding::kHeld);
      if (entry == nullptr) {
        Add(counts_.stale);
      } else if (fits[i] == 0) {
        Add(counts_.failed);
        ReturnToHand(page.pool, page.record, *entry);
      } else {
        ledger_.Move(page.pool, *entry, Holding::kInFlight);
        taken[i] = 1;
      }
    }
  }
  std::vector<Stored> stored(items.size(), Stored::kNo);
  StoreFrames(arrival, items, checksums, taken, stored);
  StoreElsewhere(arrival, items, checksums, stored);
  uint64_t keep = 0;
  bool surplus = false;
  {
    MutexLock state(state_mutex_);
    keep = HandKeep();
    surplus = hand_.size() > keep;
  }
  if (surplus && !connecting_ && link_->connected() && !settle_needed_) GiveBackHand(keep);
  PublishInTurn();
  std::vector<bool> answers(items.size());
  for (size_t i = 0; i < items.size(); ++i) answers[i] = stored[i] == Stored::kYes;
  return answers;
}

void Handler::Impl::StoreFrames(const Arrival& arrival, std::span<const StoreItem> items,
                                std::span<const uint64_t> checksums, std::span<const uint8_t> taken,
                                std::span<Stored> stored) {
  std::vector<size_t> indices;
  std::vector<wire::RegisterEntry> entries;  // of their sizes alone: generations are not final yet
  for (size_t i = 0; i < items.size(); ++i) {
    if (taken[i] == 0) continue;
    indices.push_back(i);
    entries.push_back({{}, 0, 0, items[i].key});
  }
  std::vector<std::vector<size_t>> frames;
  for (size_t cut = 0; cut < indices.size(); cut += frames.back().size()) {
    const auto begin = indices.begin() + static_cast<ptrdiff_t>(cut);
    const size_t count = wire::EntriesThatFit(std::span(entries).subspan(cut));
    frames.emplace_back(begin, begin + static_cast<ptrdiff_t>(count));
  }
  // Last to first, as the server takes the keys of one frame: earlier keys count as more recent, so
  // that the tail of a prefix is evicted first.
  for (size_t frame = frames.size(); frame-- > 0;) {
    StoreFrame(arrival, items, checksums, &frames[frame], stored);
  }
}

void Handler::Impl::StoreFrame(const Arrival& arrival, std::span<const StoreItem> items,
                               std::span<const uint64_t> checksums, std::vector<size_t>* indices,
                               std::span<Stored> stored) {
  for (int attempt = 0; attempt < kSendAttempts; ++attempt) {
    if (!EnsureReady(arrival).ok()) break;
    LeaseHeldOn(arrival, items, indices);
    wire::RegisterRequest request;
    BuildRegister(items, checksums, indices, &request);
    if (indices->empty()) return;
    MARU_SEQUENCE_POINT("handler:register-built");
    wire::Reply reply;
    StoreFence();  // the caller may have copied with non-temporal stores
    const Answer answer = CallLocked(request, &reply);
    MARU_SEQUENCE_POINT("handler:register-answered");
    if (!answer.road.ok() && answer.sent == Link::Sent::kNo) continue;
    return ApplyRegistered(items, *indices, answer, reply, stored);
  }
  // Not sent, so nothing about these pages is in doubt: they are free again.
  const auto current = session();
  MutexLock state(state_mutex_);
  for (size_t i : *indices) {
    const wire::PageRef& page = items[i].page.page;
    Ledger::Entry* const entry = EntryOf(current.get(), items[i].page, Holding::kInFlight);
    if (entry != nullptr) ReturnToHand(page.pool, page.record, *entry);
  }
  Add(counts_.failed, indices->size());
}

void Handler::Impl::BuildRegister(std::span<const StoreItem> items,
                                  std::span<const uint64_t> checksums, std::vector<size_t>* indices,
                                  wire::RegisterRequest* request) {
  const auto current = session();
  MutexLock state(state_mutex_);
  // Settling may have found that a page is not ours any more: its item stays False. So may another
  // call's, while this one had let go of the lock; the page may be in flight again then, for that.
  std::erase_if(*indices, [&](size_t i) MARU_REQUIRES(state_mutex_) {
    const bool lost = EntryOf(current.get(), items[i].page, Holding::kInFlight) == nullptr;
    if (lost) Add(counts_.failed);
    return lost;
  });
  for (size_t i : *indices) {
    wire::PageRef page = items[i].page.page;
    page.generation = ledger_.At(page.pool, page.record).generation;
    request->entries.push_back({page, items[i].length_bytes, checksums[i], items[i].key});
  }
  request->refill_page_bytes = options_.page_bytes;
  const uint64_t wanted = Recalled() > 0 ? 0 : std::min(batch_pages_, HandPagesMax());
  if (hand_.size() < wanted) request->refill_count = static_cast<uint32_t>(wanted - hand_.size());
}

void Handler::Impl::ApplyRegistered(std::span<const StoreItem> items,
                                    std::span<const size_t> indices, const Answer& answer,
                                    const wire::Reply& reply, std::span<Stored> stored) {
  const auto* registered = std::get_if<wire::RegisterReply>(&reply);
  const size_t answered =
      answer.ok() && registered != nullptr ? std::min(registered->items.size(), indices.size()) : 0;
  if (answered < indices.size()) settle_needed_ = true;
  MutexLock state(state_mutex_);
  for (size_t n = 0; n < indices.size(); ++n) {
    const size_t i = indices[n];
    if (n < answered) {
      ApplyOutcome(items[i], registered->items[n], &stored[i]);
      continue;
    }
    const wire::PageRef& page = items[i].page.page;
    Ledger::Entry& entry = ledger_.At(page.pool, page.record);
    Add(counts_.failed);
    if constexpr (kDefect == Defect::kMissingReplyIsTrue) stored[i] = Stored::kYes;
    if (kDefect == Defect::kBatchFailureIsTrue && items.size() > 1) stored[i] = Stored::kYes;
    if constexpr (kDefect == Defect::kReusesUnknownPages) {
      ReturnToHand(page.pool, page.record, entry);
    } else {
      ledger_.Move(page.pool, entry, Holding::kUnknown);
    }
  }
  if (answered > 0) TakeGrants(registered->refill);
}

void Handler::Impl::ApplyOutcome(const StoreItem& item, const wire::RegisterReply::Item& outcome,
                                 Stored* stored) {
  const wire::PageRef& page = item.page.page;
  Ledger::Entry& entry = ledger_.At(page.pool, page.record);
  switch (outcome.outcome) {
    case wire::RegisterOutcome::kRegistered:
      ledger_.Move(page.pool, entry, Holding::kStored);
      *stored = Stored::kYes;
      return;
    case wire::RegisterOutcome::kDuplicate:
    case wire::RegisterOutcome::kRejected:
      if (outcome.outcome == wire::RegisterOutcome::kDuplicate) {
        Add(counts_.duplicates);
        *stored = Stored::kYes;
      } else {
        *stored = Stored::kRefused;
      }
      // Worn: this page has had its last life.
      if (outcome.generation.value() == 0 || kDefect == Defect::kLoserPageIsLost) {
        ledger_.Move(page.pool, entry, Holding::kNone);
        return;
      }
      entry.generation = outcome.generation;
      if (*stored != Stored::kRefused) ReturnToHand(page.pool, page.record, entry);
      return;
    case wire::RegisterOutcome::kStale:
      Add(counts_.failed);
      ledger_.Move(page.pool, entry, Holding::kNone);
      return;
  }
}

std::optional<PageHandle> Handler::Impl::PageBeside(const Arrival& arrival, PoolIndex pool) {
  const auto is_beside = [pool](const wire::PageRef& page) { return page.pool != pool; };
  for (const bool asked : {false, true}) {
    if (asked && !RequestGrants(arrival).ok()) return std::nullopt;
    Handout handout;
    {
      MutexLock state(state_mutex_);
      // The next in hand is the last.
      const auto next = std::find_if(hand_.rbegin(), hand_.rend(), is_beside);
      if (next == hand_.rend()) continue;
      std::swap(*next, hand_.back());
      MARU_CHECK(PopHand(&handout));
    }
    Result<PageHandle> handle = MakeHandle(handout, options_.page_bytes, options_.page_bytes);
    MutexLock state(state_mutex_);
    Ledger::Entry& entry = ledger_.At(handout.page.pool, handout.page.record);
    ledger_.Move(handout.page.pool, entry, handle.ok() ? Holding::kInFlight : Holding::kUnknown);
    if (handle.ok()) return std::move(*handle);
    settle_needed_ = true;
    return std::nullopt;
  }
  return std::nullopt;
}

void Handler::Impl::ReturnRefused(std::span<const StoreItem> items, std::span<Stored> stored) {
  const auto current = session();
  MutexLock state(state_mutex_);
  for (size_t i = 0; i < items.size(); ++i) {
    if (stored[i] != Stored::kRefused) continue;
    const wire::PageRef& page = items[i].page.page;
    Ledger::Entry* const entry = EntryOf(current.get(), items[i].page, Holding::kInFlight);
    if (entry != nullptr) ReturnToHand(page.pool, page.record, *entry);
    stored[i] = Stored::kNo;
  }
}

void Handler::Impl::StoreElsewhere(const Arrival& arrival, std::span<const StoreItem> items,
                                   std::span<const uint64_t> checksums, std::span<Stored> stored) {
  const auto refused = [](Stored one) { return one == Stored::kRefused; };
  if (std::ranges::none_of(stored, refused)) return;
  PoolBits pools;
  std::vector<StoreItem> moved;
  std::vector<uint64_t> moved_checksums;
  std::vector<size_t> moved_from;
  const auto current = session();
  const bool has_others = current != nullptr && current->pools.size() > 1;
  for (size_t i = 0; i < items.size() && has_others; ++i) {
    if (!refused(stored[i])) continue;
    const PoolIndex pool = items[i].page.page.pool;
    pools.set(pool.value());
    std::optional<PageHandle> page = PageBeside(arrival, pool);
    if (!page) break;
    // Before the refused page can be another call's.
    std::memcpy(page->data, items[i].page.data, items[i].length_bytes);
    moved.push_back({items[i].key, std::move(*page), items[i].length_bytes});
    moved_checksums.push_back(checksums[i]);
    moved_from.push_back(i);
  }
  const auto count_refused = static_cast<uint64_t>(std::ranges::count_if(stored, refused));
  ReturnRefused(items, stored);
  std::vector<Stored> there(moved.size(), Stored::kNo);
  StoreFrames(arrival, moved, moved_checksums, std::vector<uint8_t>(moved.size(), 1), there);
  const auto refused_again = static_cast<uint64_t>(std::ranges::count_if(there, refused));
  for (size_t n = 0; n < moved.size(); ++n) {
    if (refused(there[n])) pools.set(moved[n].page.page.pool.value());
  }
  ReturnRefused(moved, there);
  for (size_t n = 0; n < moved.size(); ++n) stored[moved_from[n]] = there[n];
  const uint64_t failed = count_refused - moved.size() + refused_again;
  Add(counts_.failed, failed);
  Add(counts_.refused, failed);
  if (has_others && !connecting_ && link_->connected() && !settle_needed_) GiveBackPagesOf(pools);
}

}  // namespace maru::handler
