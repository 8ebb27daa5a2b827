// Calls over the link, settlement, and the end of an attachment.

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/sequence_point.h"
#include "handler/impl.h"
#include "layout/frame.h"
#include "layout/geometry.h"

namespace maru::handler {

namespace {

// 1 for the first handler of this process.
uint64_t NextNumber() {
  static constinit std::atomic<uint64_t> last{0};
  // Relaxed: numbers that differ are all that is wanted.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Handler::Impl::Impl(HandlerOptions options, Link* link, const Clock* clock)
    : number_(NextNumber()), options_(std::move(options)), link_(link), clock_(clock) {}

Status Handler::Impl::CheckUsable() const {
  switch (phase_.load(std::memory_order_relaxed)) {
    case Phase::kNew: return Unavailable("not connected: call Connect first");
    case Phase::kOpen: return OkStatus();
    case Phase::kClosed: return Unavailable("the handler is closed");
    case Phase::kInert:
      return FailedPrecondition("this handler belongs to the parent process: make one of your own");
  }
  return Internal("unknown phase");
}

std::shared_ptr<const Session> Handler::Impl::session() const {
  ReaderLock lock(session_mutex_);
  return session_;
}

Result<std::shared_ptr<const Session>> Handler::Impl::OpenSession() const {
  MARU_RETURN_IF_ERROR(CheckUsable());
  auto current = session();
  if (current == nullptr) return Unavailable("the handler is closed");
  return current;
}

bool Handler::Impl::connected() const {
  return phase_.load(std::memory_order_relaxed) == Phase::kOpen && link_->connected();
}

Status Handler::Impl::Connect() {
  if (phase_.load(std::memory_order_relaxed) == Phase::kInert) return CheckUsable();
  const Waiting waiting;
  MutexLock call(call_mutex_);
  AwaitAttempt();
  if (phase_.load(std::memory_order_relaxed) == Phase::kOpen && link_->connected()) {
    return OkStatus();
  }
  MARU_RETURN_IF_ERROR(Reconnect());
  phase_.store(Phase::kOpen, std::memory_order_relaxed);
  return OkStatus();
}

Handler::Impl::Arrival Handler::Impl::Arrive() const {
  const Arrival arrival{clock_->Now(), failed_attempts_.load(std::memory_order_relaxed)};
  MARU_SEQUENCE_POINT("handler:arrived");
  return arrival;
}

uint64_t Handler::Impl::Waited(const Arrival& arrival) const {
  return static_cast<uint64_t>(clock_->Now() - arrival.at_ns);
}

Status Handler::Impl::CheckTurn(const Arrival& arrival) const {
  const uint64_t waited = Waited(arrival);
  if (options_.turn_wait_ns_max == 0 || waited <= options_.turn_wait_ns_max) return OkStatus();
  return DeadlineExceeded("other calls of this client have waited for the server for " +
                          std::to_string(waited / kNanosPerMilli) + " ms: it is stopped or busy");
}

Status Handler::Impl::EnsureReady(const Arrival& arrival) {
  MARU_RETURN_IF_ERROR(ShareAttempt(arrival));
  MARU_RETURN_IF_ERROR(CheckUsable());
  if (!link_->connected()) return FailedSince(arrival) ? last_failure_ : Reconnect();
  if (settle_needed_) return Settle();
  return OkStatus();
}

Status Handler::Impl::Settle() {
  // Until it is through, every generation that the server may have renewed is in doubt.
  settle_needed_ = true;
  std::vector<wire::PageRef> named;
  {
    MutexLock state(state_mutex_);
    ledger_.VisitHeld([&](PoolIndex pool, RecordNumber record, Ledger::Entry& entry) {
      named.push_back({pool, record, entry.generation});
    });
  }
  size_t done = 0;
  do {
    const size_t count = std::min<size_t>(named.size() - done, wire::kPagesPerMessageMax);
    wire::SettleRequest request;
    request.pages.assign(named.data() + done, named.data() + done + count);
    request.last = done + count == named.size();
    wire::Reply reply;
    MARU_RETURN_IF_ERROR(CallLocked(request, &reply).status());
    const auto* settled = std::get_if<wire::SettleReply>(&reply);
    if (settled == nullptr || settled->items.size() != count) {
      link_->Disconnect();
      return DataLoss("the answer to settle has not one entry for each page");
    }
    ApplySettled(request.pages, *settled);
    done += count;
  } while (done < named.size());
  settle_needed_ = false;
  PublishInTurn();
  return OkStatus();
}

void Handler::Impl::ApplySettled(std::span<const wire::PageRef> named,
                                 const wire::SettleReply& reply) {
  MutexLock state(state_mutex_);
  for (size_t i = 0; i < named.size(); ++i) {
    const wire::PageRef& page = named[i];
    Ledger::Entry& entry = ledger_.At(page.pool, page.record);
    switch (reply.items[i].verdict) {
      case wire::SettleVerdict::kKept:
        Add(counts_.settled_kept);
        entry.generation = reply.items[i].generation;
        // What was lost on its way is one of our free pages again. In flight while we settle means
        // not yet sent: it goes out with the new generation.
        if (entry.holding == Holding::kUnknown) ReturnToHand(page.pool, page.record, entry);
        break;
      case wire::SettleVerdict::kLive:
        Add(counts_.settled_live);
        ledger_.Move(page.pool, entry, Holding::kStored);
        break;
      case wire::SettleVerdict::kGone:
        Add(counts_.settled_gone);
        ledger_.Move(page.pool, entry, Holding::kNone);
        break;
    }
  }
  // What was in hand and is not any more goes from the hand's list too.
  std::erase_if(hand_, [&](const wire::PageRef& page) MARU_REQUIRES(state_mutex_) {
    return ledger_.At(page.pool, page.record).holding != Holding::kHand;
  });
}

Handler::Impl::Answer Handler::Impl::CallLocked(const wire::Request& request, wire::Reply* reply) {
  Answer answer;
  answer.road = link_->Call(request, &answer.server, reply, &answer.sent);
  if (!answer.road.ok()) settle_needed_ = true;
  return answer;
}

Handler::Impl::Answer Handler::Impl::CallReadyLocked(const Arrival& arrival,
                                                     const wire::Request& request,
                                                     wire::Reply* reply, uint64_t serial) {
  Answer answer;
  for (int attempt = 0; attempt < kSendAttempts; ++attempt) {
    answer.road = EnsureReady(arrival);
    if (!answer.road.ok()) return answer;
    if (serial != kAnySession && session()->serial != serial) {
      answer.sent = Link::Sent::kNo;
      answer.road = Unavailable("the server came back as another one meanwhile: try again");
      return answer;
    }
    answer = CallLocked(request, reply);
    if (answer.road.ok() || answer.sent == Link::Sent::kMaybe) return answer;
  }
  return answer;
}

Status Handler::Impl::CallReady(const wire::Request& request, wire::Reply* reply, uint64_t serial) {
  const Arrival arrival = Arrive();
  const Waiting waiting;
  MutexLock call(call_mutex_);
  MARU_RETURN_IF_ERROR(CheckTurn(arrival));
  const Answer answer = CallReadyLocked(arrival, request, reply, serial);
  PublishInTurn();
  return answer.status();
}

Status Handler::Impl::Ask(const wire::Request& request, wire::Reply* reply) {
  MARU_RETURN_IF_ERROR(CheckUsable());
  const Arrival arrival = Arrive();
  const Waiting waiting;
  MutexLock call(call_mutex_);
  MARU_RETURN_IF_ERROR(CheckTurn(arrival));
  const Answer answer = CallReadyLocked(arrival, request, reply);
  // The link's buffer is the next call's: what the reply points to is copied while it is ours.
  if (auto* list = std::get_if<wire::ListReply>(reply); answer.ok() && list != nullptr) {
    list->storage.reserve(list->items.size());
    for (wire::ListReply::Item& item : list->items) {
      list->storage.emplace_back(item.key);
      item.key = list->storage.back();
    }
  }
  return answer.status();
}

void Handler::Impl::PublishInTurn() {
  {
    MutexLock state(state_mutex_);
    applied_request_ = link_->last_request();
  }
  PublishCounts();
}

void Handler::Impl::PublishCounts() {
  const auto current = session();
  if (current == nullptr) return;
  MutexLock state(state_mutex_);
  for (size_t p = 0; p < current->pools.size(); ++p) {
    const PoolIndex pool(static_cast<uint8_t>(p));
    catalogue::Leases::Counts counts;
    counts.free_pages = ledger_.Count(pool, Holding::kHand);
    counts.pending_pages =
        ledger_.Count(pool, Holding::kUnknown) + ledger_.Count(pool, Holding::kInFlight);
    counts.held_pages =
        ledger_.Count(pool, Holding::kHeld) + ledger_.Count(pool, Holding::kLingers);
    counts.last_request = applied_request_;
    current->pools[p].mapped->leases().Publish(counts);
  }
}

void Handler::Impl::GiveBackHand(uint64_t keep) {
  wire::GiveBackRequest request;
  {
    MutexLock state(state_mutex_);
    while (hand_.size() > keep && request.pages.size() < wire::kPagesPerMessageMax) {
      request.pages.push_back(LeaveHand(hand_.back()));
      hand_.pop_back();
    }
  }
  GiveBack(request);
}

wire::PageRef Handler::Impl::LeaveHand(const wire::PageRef& page) {
  Ledger::Entry& entry = ledger_.At(page.pool, page.record);
  ledger_.Move(page.pool, entry, Holding::kUnknown);
  return {page.pool, page.record, entry.generation};
}

void Handler::Impl::GiveBackPagesOf(const PoolBits& pools) {
  wire::GiveBackRequest request;
  {
    MutexLock state(state_mutex_);
    std::erase_if(hand_, [&](const wire::PageRef& page) MARU_REQUIRES(state_mutex_) {
      const bool goes =
          pools[page.pool.value()] && request.pages.size() < wire::kPagesPerMessageMax;
      if (goes) request.pages.push_back(LeaveHand(page));
      return goes;
    });
  }
  GiveBack(request);
}

void Handler::Impl::GiveBack(const wire::GiveBackRequest& request) {
  if (request.pages.empty()) return;
  wire::Reply reply;
  const Answer answer = CallLocked(request, &reply);
  MutexLock state(state_mutex_);
  for (const wire::PageRef& page : request.pages) {
    Ledger::Entry& entry = ledger_.At(page.pool, page.record);
    if (answer.ok()) ledger_.Move(page.pool, entry, Holding::kNone);
  }
  if (!answer.ok()) settle_needed_ = true;
}

void Handler::Impl::GiveBackAll(HeldPages held) {
  if (held == HeldPages::kGiveBack) {
    MutexLock state(state_mutex_);
    ledger_.VisitHeld([&](PoolIndex pool, RecordNumber record, Ledger::Entry& entry)
                          MARU_REQUIRES(state_mutex_) {
                            if (entry.holding == Holding::kHeld) ReturnToHand(pool, record, entry);
                          });
  }
  bool more = true;
  while (more && link_->connected()) {
    GiveBackHand(0);
    MutexLock state(state_mutex_);
    more = !hand_.empty();
  }
}

void Handler::Impl::Close(HeldPages held) {
  // Before any lock: in a forked child another thread's lock would never be released.
  if (phase_.load(std::memory_order_relaxed) != Phase::kOpen) return;
  const Waiting waiting;
  MutexLock call(call_mutex_);
  AwaitAttempt();
  if (phase_.load(std::memory_order_relaxed) != Phase::kOpen) return;
  // Connected, so nothing is let go until the end.
  if (link_->connected() && EnsureReady(Arrive()).ok()) GiveBackAll(held);
  PublishInTurn();
  phase_.store(Phase::kClosed, std::memory_order_relaxed);
  {
    MutexLock state(state_mutex_);
    ledger_ = Ledger();
    hand_.clear();
    moved_.clear();
    holds_.clear();
  }
  {
    // Views and handles of pages keep the mapping, and with it the lock that keeps their leases and
    // grants; without them both end.
    WriterLock lock(session_mutex_);
    session_ = nullptr;
  }
  link_->Close();
}

uint64_t Handler::Impl::Tick() {
  if (!CheckUsable().ok()) return 0;
  // A call that is under way does by itself what there is to do.
  if (!call_mutex_.TryLock()) return static_cast<uint64_t>(clock_->Now()) + kBusyTickNs;
  const MutexLock call(call_mutex_, std::adopt_lock);
  return TickInTurn();
}

uint64_t Handler::Impl::TickInTurn() {
  const int64_t now = clock_->Now();
  if (connecting_) return static_cast<uint64_t>(now) + options_.grant_idle_ns;
  link_->Probe();
  if (!EnsureReady(Arrive()).ok()) return static_cast<uint64_t>(now) + options_.grant_idle_ns;
  bool idle = false, any = false;
  uint64_t keep = 0;
  {
    MutexLock state(state_mutex_);
    any = !hand_.empty();
    keep = HandKeep();
    idle = static_cast<uint64_t>(now - last_alloc_ns_) >= options_.grant_idle_ns;
    if (idle) batch_pages_ = kHandStartPages;
  }
  if (!any) return 0;
  if (!idle && Recalled() == 0) return static_cast<uint64_t>(now) + options_.grant_idle_ns;
  GiveBackHand(idle ? 0 : keep);
  PublishInTurn();
  return static_cast<uint64_t>(now) + options_.grant_idle_ns;
}

void Handler::Impl::MakeInert() { phase_.store(Phase::kInert, std::memory_order_relaxed); }

}  // namespace maru::handler
