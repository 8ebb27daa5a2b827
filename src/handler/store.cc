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

uint64_t Handler::Impl::ChecksumOf(const StoreItem& item) {
  if (!item.page.mapping->checksums()) return 0;
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
      checksums[i] = ChecksumOf(items[i]);
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
  StoreElsewhere(arrival, items, stored);
  uint64_t keep = 0;
  bool surplus = false;
  PoolBits refusing;
  {
    MutexLock state(state_mutex_);
    keep = HandKeep();
    surplus = hand_.size() > keep;
    refusing = refusing_;
  }
  if (!connecting_ && link_->connected() && !settle_needed_) {
    if (refusing.any()) GiveBackPagesOf(refusing);
    if (surplus) GiveBackHand(keep);
  }
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

std::optional<PageHandle> Handler::Impl::PageBeside(const Arrival& arrival,
                                                    const PoolBits& refusing) {
  for (const bool asked : {false, true}) {
    if (asked && !RequestGrants(arrival).ok()) return std::nullopt;
    Handout handout;
    {
      MutexLock state(state_mutex_);
      if (!PopHandBeside(refusing, &handout)) continue;
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

void Handler::Impl::ReturnInFlight(const StoreItem& item) {
  const auto current = session();
  MutexLock state(state_mutex_);
  Ledger::Entry* const entry = EntryOf(current.get(), item.page, Holding::kInFlight);
  if (entry != nullptr) ReturnToHand(item.page.page.pool, item.page.page.record, *entry);
}

void Handler::Impl::NoteMoved(const PageHandle& from, const PageHandle& to) {
  MutexLock state(state_mutex_);
  if (moved_.size() == kMovedMax) moved_.pop_front();
  moved_.push_back({from, to});
}

std::optional<PageHandle> Handler::Impl::WhereMoved(const PageHandle& page) {
  std::optional<PageHandle> at;
  // Oldest first: a page that has moved may have moved on.
  for (const Moved& moved : moved_) {
    const PageHandle& from = at ? *at : page;
    if (moved.from.page.pool == from.page.pool && moved.from.page.record == from.page.record &&
        moved.from.handout == from.handout && moved.from.session == from.session) {
      at = moved.to;
    }
  }
  return at;
}

bool Handler::Impl::MoveRefused(const Arrival& arrival, std::span<const StoreItem> items,
                                std::span<const Stored> stored, const PoolBits& refusing,
                                std::vector<StoreItem>* moved, std::vector<size_t>* from) {
  const auto current = session();
  bool has_beside = current != nullptr && refusing.count() < current->pools.size(), any = false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (stored[i] != Stored::kRefused) continue;
    from->push_back(i);
    moved->push_back(items[i]);
    std::optional<PageHandle> page;
    if (has_beside) page = PageBeside(arrival, refusing);
    has_beside = page.has_value();
    if (!page) continue;
    any = true;
    // Before the refused page can be another call's.
    std::memcpy(page->data, items[i].page.data, items[i].length_bytes);
    ReturnInFlight(items[i]);
    NoteMoved(items[i].page, *page);
    moved->back().page = std::move(*page);
  }
  return any;
}

void Handler::Impl::StoreElsewhere(const Arrival& arrival, std::span<const StoreItem> items,
                                   std::span<Stored> stored) {
  const auto refused = [](Stored one) { return one == Stored::kRefused; };
  if (std::ranges::none_of(stored, refused)) return;
  const auto current = session();
  const size_t pools = current == nullptr ? 0 : current->pools.size();
  // Items that were refused, in the pages that refused them, and whose answers they are.
  std::vector<StoreItem> tried;
  std::vector<size_t> whose;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!refused(stored[i])) continue;
    tried.push_back(items[i]);
    whose.push_back(i);
  }
  PoolBits refusing;
  std::vector<Stored> answers(tried.size(), Stored::kRefused);
  // Each pool may refuse, and the last once more, where no other has a page any longer.
  bool moves = true;
  for (size_t attempt = 0; pools > 1 && moves && attempt <= pools; ++attempt) {
    for (size_t n = 0; n < tried.size(); ++n) {
      if (refused(answers[n])) refusing.set(tried[n].page.page.pool.value());
    }
    std::vector<StoreItem> moved;
    std::vector<size_t> from;
    moves = MoveRefused(arrival, tried, answers, refusing, &moved, &from);
    std::vector<uint64_t> checksums;
    for (size_t n = 0; n < moved.size(); ++n) {
      checksums.push_back(ChecksumOf(moved[n]));
      from[n] = whose[from[n]];
    }
    answers.assign(moved.size(), Stored::kNo);
    StoreFrames(arrival, moved, checksums, std::vector<uint8_t>(moved.size(), 1), answers);
    for (size_t n = 0; n < moved.size(); ++n) stored[from[n]] = answers[n];
    tried = std::move(moved);
    whose = std::move(from);
    if (std::ranges::none_of(answers, refused)) break;
  }
  for (size_t n = 0; n < tried.size(); ++n) {
    if (!refused(answers[n])) continue;
    ReturnInFlight(tried[n]);
    stored[whose[n]] = Stored::kNo;
    Add(counts_.failed);
    Add(counts_.refused);
  }
  MutexLock state(state_mutex_);
  refusing_ |= refusing;
}

}  // namespace maru::handler
