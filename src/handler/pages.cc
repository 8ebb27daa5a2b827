// Pages in hand and with the application: alloc, free, addresses.

#include <algorithm>
#include <ranges>
#include <string>

#include "base/check.h"
#include "base/defect.h"
#include "base/sequence_point.h"
#include "base/store_fence.h"
#include "catalogue/page_regions.h"
#include "handler/impl.h"

namespace maru::handler {

namespace {

// The record of a page that is named by its address.
bool RecordAt(const catalogue::PoolView& view, uint32_t region_id, uint32_t page_index,
              RecordNumber* record) {
  return catalogue::FindPageRegion(view, [&](const auto& region) {
    if (region.region_id != region_id || page_index >= region.page_count) return false;
    *record = RecordNumber(region.first_record + page_index);
    return true;
  });
}

}  // namespace

void Handler::Impl::BoundHand(const Session& session) {
  uint64_t pool_bytes = 0;
  for (const SessionPool& pool : session.pools) pool_bytes += pool.mapped->view().bytes();
  const uint64_t bytes = std::min(options_.hand_bytes_max, pool_bytes / kHandOfPools);
  const uint64_t pages = bytes / std::max<uint64_t>(1, options_.page_bytes);
  hand_pages_max_.store(std::clamp<uint64_t>(pages, 1, options_.hand_pages_max),
                        std::memory_order_relaxed);
}

uint64_t Handler::Impl::Recalled() const {
  const auto current = session();
  return current == nullptr ? 0 : current->pools.front().mapped->leases().recall();
}

uint64_t Handler::Impl::HandKeep() {
  const uint64_t recalled = std::min<uint64_t>(Recalled(), hand_.size());
  return recalled == 0 ? HandPagesMax() : std::min(HandPagesMax(), hand_.size() - recalled);
}

bool Handler::Impl::PopHand(Pick pick, Handout* handout) {
  if (pick == Pick::kFitting && refusing_.any()) return PopHandBeside(refusing_, handout);
  if (hand_.empty()) return false;
  Pop(handout);
  return true;
}

bool Handler::Impl::PopHandBeside(const PoolBits& pools, Handout* handout) {
  const auto beside = std::find_if(hand_.rbegin(), hand_.rend(), [&](const wire::PageRef& page) {
    return !pools[page.pool.value()];
  });
  if (beside == hand_.rend()) return false;
  std::swap(*beside, hand_.back());
  Pop(handout);
  return true;
}

void Handler::Impl::Pop(Handout* handout) {
  wire::PageRef& page = handout->page;
  page = hand_.back();
  hand_.pop_back();
  Ledger::Entry& entry = ledger_.At(page.pool, page.record);
  MARU_DCHECK(entry.holding == Holding::kHand);
  page.generation = entry.generation;
  handout->number = ++entry.handout;
  handout->session = session();
  ledger_.Move(page.pool, entry, Holding::kHeld);
  last_alloc_ns_ = clock_->Now();
}

void Handler::Impl::ReturnToHand(PoolIndex pool, RecordNumber record, Ledger::Entry& entry) {
  if (entry.held_on) return Linger(pool, record, entry);
  ledger_.Move(pool, entry, Holding::kHand);
  hand_.push_back({pool, record, entry.generation});
}

void Handler::Impl::TakeGrants(std::span<const wire::PageRef> pages) {
  // The last goes into the hand first: pages are handed out in the server's order, so keys stored
  // one after the other lie one after the other.
  for (const wire::PageRef& page : std::views::reverse(pages)) {
    // A page that is already ours cannot be granted to us: such an answer is not believed.
    if (page.pool.value() >= layout::kPoolsMax) continue;
    Ledger::Entry& entry = ledger_.At(page.pool, page.record);
    if (entry.holding != Holding::kNone && entry.holding != Holding::kStored) continue;
    entry.generation = page.generation;
    refusing_.reset(page.pool.value());  // the server knows better by now
    ReturnToHand(page.pool, page.record, entry);
  }
}

Status Handler::Impl::RequestGrants(const Arrival& arrival) {
  wire::GrantRequest request;
  request.page_bytes = options_.page_bytes;
  {
    MutexLock state(state_mutex_);
    request.count = static_cast<uint32_t>(std::min(batch_pages_, HandPagesMax()));
    batch_pages_ = std::min(batch_pages_ * 2, HandPagesMax());
  }
  for (uint64_t answers = 0, most = AnswersMax(); answers < most; ++answers) {
    Add(counts_.alloc_messages);
    wire::Reply reply;
    const Answer answer = CallReadyLocked(arrival, request, &reply);
    if (!answer.ok()) return answer.status();
    const auto* grant = std::get_if<wire::GrantReply>(&reply);
    if (grant == nullptr || (grant->pages.empty() && most == 1)) {
      settle_needed_ = true;
      return DataLoss("the answer to a grant names no page");
    }
    if (!grant->pages.empty()) {
      MutexLock state(state_mutex_);
      TakeGrants(grant->pages);
      return OkStatus();
    }
    if (options_.turn_wait_ns_max != 0 && Waited(arrival) > options_.turn_wait_ns_max) break;
  }
  return Unavailable("pages of " + std::to_string(request.page_bytes) +
                     " bytes are being made, and other clients took each that was: try again");
}

uint64_t Handler::Impl::AnswersMax() const {
  if (options_.page_bytes <= layout::kUnitBytes) return 1;
  // A page of several units may take several answers without it, each of which has brought a unit
  // in; and it may go to another client that waits for one. One more is for the rest of a unit,
  // and one has the page.
  uint64_t answers = 2;
  const auto current = session();
  if (current == nullptr) return answers;
  for (const SessionPool& pool : current->pools) {
    answers += pool.mapped->view().bytes() / layout::kUnitBytes;
  }
  return answers;
}

Result<PageHandle> Handler::Impl::MakeHandle(const Handout& handout, uint64_t page_bytes,
                                             uint64_t size_bytes) const {
  const wire::PageRef& page = handout.page;
  const Session& session = *handout.session;
  catalogue::PoolView::PageExtent extent;
  if (page.pool.value() >= session.pools.size() ||
      !session.pools[page.pool.value()].mapped->view().Page(page.record, &extent) ||
      extent.page_bytes < page_bytes) {
    return DataLoss("record " + std::to_string(page.record.value()) + " of pool " +
                    std::to_string(page.pool.value()) + " is granted but is no page of " +
                    std::to_string(page_bytes) + " bytes");
  }
  const std::shared_ptr<MappedPool>& mapped = session.pools[page.pool.value()].mapped;
  MARU_ASSIGN_OR_RETURN(std::byte* const data,
                        mapped->Writable(extent.offset_bytes, extent.page_bytes));
  PageHandle handle;
  handle.mapping = mapped;
  handle.page = page;
  handle.data = data;
  handle.size_bytes = size_bytes;
  handle.handler = number_;
  handle.session = session.serial;
  handle.handout = handout.number;
  handle.region_id = extent.region_id;
  handle.page_index = extent.page_index;
  return handle;
}

Result<PageHandle> Handler::Impl::Alloc(uint64_t size_bytes) {
  MARU_RETURN_IF_ERROR(CheckUsable());
  if (size_bytes == 0) return InvalidArgument("alloc of 0 bytes: a page holds at least 1");
  if (size_bytes > options_.page_bytes) {
    return InvalidArgument("alloc of " + std::to_string(size_bytes) +
                           " bytes is over the page size of " +
                           std::to_string(options_.page_bytes) + " bytes");
  }
  Add(counts_.allocs);
  Handout handout;
  bool found = false;
  {
    MutexLock state(state_mutex_);
    found = PopHand(Pick::kFitting, &handout);
  }
  // Others may take what was just granted, so a few rounds; each asks only when the hand is empty.
  for (int round = 0; !found && round < kFindAttemptsMax; ++round) {
    const Arrival arrival = Arrive();
    const Waiting waiting;
    MutexLock call(call_mutex_);
    MARU_RETURN_IF_ERROR(CheckTurn(arrival));
    MARU_RETURN_IF_ERROR(EnsureReady(arrival));
    {
      MutexLock state(state_mutex_);
      found = PopHand(Pick::kFitting, &handout);
    }
    if (found) break;
    const Status granted = RequestGrants(arrival);
    {
      MutexLock state(state_mutex_);
      // Rather a page whose pool refused a key than none: the next may be shorter.
      found = PopHand(Pick::kAny, &handout);
    }
    PublishInTurn();
    if (!found) MARU_RETURN_IF_ERROR(granted);
  }
  if (!found) return ResourceExhausted("no page: other threads took each that was granted");
  MARU_SEQUENCE_POINT("handler:page-popped");
  PublishCounts();
  Result<PageHandle> handle = MakeHandle(handout, options_.page_bytes, size_bytes);
  if (!handle.ok()) TakeBack(handout);
  return handle;
}

void Handler::Impl::TakeBack(const Handout& handout) {
  const Waiting waiting;
  MutexLock call(call_mutex_);
  MutexLock state(state_mutex_);
  Ledger::Entry* entry = ledger_.Find(handout.page.pool, handout.page.record);
  if (entry == nullptr || entry->holding != Holding::kHeld) return;
  if (entry->handout != handout.number) return;
  ledger_.Move(handout.page.pool, *entry, Holding::kUnknown);
  settle_needed_ = true;
}

Ledger::Entry* Handler::Impl::EntryOf(const Session* current, const PageHandle& page,
                                      Holding holding) {
  MARU_DCHECK(page.handler == number_);
  if (current == nullptr || page.session != current->serial) return nullptr;
  Ledger::Entry* entry = ledger_.Find(page.page.pool, page.page.record);
  if (entry == nullptr || entry->holding != holding) return nullptr;
  if (entry->handout != page.handout && kDefect != Defect::kOldHandleStores) return nullptr;
  return entry;
}

Status Handler::Impl::CheckOwn(const PageHandle& page) const {
  if (page.handler == number_) return OkStatus();
  return InvalidArgument("page " + std::to_string(page.page_index) + " of region " +
                         std::to_string(page.region_id) +
                         " is of another client: the one that it was asked of can use it");
}

Status Handler::Impl::LifeIsOver(const PageHandle& page) {
  return FailedPrecondition("this life of page " + std::to_string(page.page_index) + " of region " +
                            std::to_string(page.region_id) +
                            " is over: it was freed or stored before");
}

Status Handler::Impl::Free(const PageHandle& page, IfStored if_stored) {
  MARU_RETURN_IF_ERROR(CheckUsable());
  MARU_RETURN_IF_ERROR(CheckOwn(page));
  StoreFence();  // what was written there does not land in the page's next life
  wire::FreeRequest request;
  bool surplus = false;
  std::shared_ptr<const Session> current;
  std::optional<PageHandle> moved;
  {
    MutexLock state(state_mutex_);
    current = session();
    if (Ledger::Entry* held = EntryOf(current.get(), page, Holding::kHeld); held != nullptr) {
      ReturnToHand(page.page.pool, page.page.record, *held);
      surplus = hand_.size() > HandPagesMax();
    } else {
      const Ledger::Entry* stored = EntryOf(current.get(), page, Holding::kStored);
      if (stored == nullptr) {
        moved = WhereMoved(page);
        if (!moved) return LifeIsOver(page);
      } else if (if_stored == IfStored::kIsOver) {
        return LifeIsOver(page);
      } else {
        request.page = {page.page.pool, page.page.record, stored->generation};
      }
    }
  }
  if (moved) return Free(*moved, if_stored);
  if (request.page.generation.value() == 0) {
    if (surplus) {
      const Arrival arrival = Arrive();
      const Waiting waiting;
      MutexLock call(call_mutex_);
      // Unsettled pages are given back another time: they stay ours meanwhile.
      if (CheckTurn(arrival).ok() && EnsureReady(arrival).ok()) {
        GiveBackHand(HandPagesMax());
        PublishInTurn();
      }
    }
    PublishCounts();
    return OkStatus();
  }
  wire::Reply reply;
  const Status answered = CallReady(request, &reply, page.session);
  if (!answered.ok()) {
    // Of another pool's server by now: then the page was the old one's.
    current = session();
    return current == nullptr || current->serial == page.session ? answered : LifeIsOver(page);
  }
  const auto* freed = std::get_if<wire::FreeReply>(&reply);
  if (freed == nullptr) return DataLoss("the answer to free is of another kind");
  switch (freed->outcome) {
    case wire::FreeOutcome::kFreed: {
      MutexLock state(state_mutex_);
      current = session();
      Ledger::Entry* stored = EntryOf(current.get(), page, Holding::kStored);
      if (stored != nullptr) ledger_.Move(page.page.pool, *stored, Holding::kNone);
      return OkStatus();
    }
    case wire::FreeOutcome::kPinned:
      return FailedPrecondition("the page's key is pinned: unpin it first");
    case wire::FreeOutcome::kStale: return LifeIsOver(page);
  }
  return DataLoss("the answer to free is of another kind");
}

Result<PageHandle> Handler::Impl::FromAddress(uint32_t region_id, uint32_t page_index) {
  MARU_ASSIGN_OR_RETURN(const auto current, OpenSession());
  for (size_t p = 0; p < current->pools.size(); ++p) {
    const catalogue::PoolView& view = current->pools[p].mapped->view();
    RecordNumber record;
    if (!RecordAt(view, region_id, page_index, &record)) continue;
    const PoolIndex pool(static_cast<uint8_t>(p));
    Handout handout{{pool, record, Generation(0)}, 0, current};
    {
      MutexLock state(state_mutex_);
      const Ledger::Entry* entry = ledger_.Find(pool, record);
      if (entry == nullptr || entry->handout == 0) break;
      handout.page.generation = entry->generation;
      handout.number = entry->handout;
    }
    return MakeHandle(handout, options_.page_bytes, options_.page_bytes);
  }
  return NotFound("page " + std::to_string(page_index) + " of region " + std::to_string(region_id) +
                  " was never granted to this handler");
}

}  // namespace maru::handler
