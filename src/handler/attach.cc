// Attachment and reconnection: as the client of before where the server goes on with it.

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/sequence_point.h"
#include "handler/impl.h"
#include "layout/frame.h"
#include "layout/geometry.h"

namespace maru::handler {

namespace {

// An attempt to connect, from its beginning to its end, however it ends. Made and ended under the
// lock that guards both.
class Attempt {
 public:
  Attempt(bool* under_way, CondVar* over) : under_way_(under_way), over_(over) {
    *under_way_ = true;
  }
  ~Attempt() {
    *under_way_ = false;
    over_->NotifyAll();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

 private:
  bool* const under_way_;
  CondVar* const over_;
};

}  // namespace

void Handler::Impl::AwaitAttempt() {
  while (connecting_) attempt_over_.Wait(call_mutex_);
}

bool Handler::Impl::FailedSince(const Arrival& arrival) const {
  return failed_attempts_.load(std::memory_order_relaxed) != arrival.failed_attempts;
}

Status Handler::Impl::ShareAttempt(const Arrival& arrival) {
  while (connecting_) {
    MARU_SEQUENCE_POINT("handler:shares-attempt");
    attempt_over_.Wait(call_mutex_);
    // Not again for one that another call has begun since.
    if (FailedSince(arrival)) return last_failure_;
  }
  return OkStatus();
}

Status Handler::Impl::Reconnect() {
  Status done = AttachAndSettle();
  if (!done.ok()) {
    last_failure_ = done;
    failed_attempts_.fetch_add(1, std::memory_order_relaxed);
  }
  return done;
}

Status Handler::Impl::AttachAndSettle() {
  const auto former = session();
  const bool goes_on = former != nullptr && odd_answers_ < kOddAnswersMax;
  Attached attached;
  Status done;
  {
    const Attempt attempt(&connecting_, &attempt_over_);
    const MutexUnlock unlocked(call_mutex_);
    done = Attach(goes_on ? former.get() : nullptr, &attached);
  }
  if (goes_on && done.code() == StatusCode::kDataLoss) ++odd_answers_;
  MARU_RETURN_IF_ERROR(done);
  odd_answers_ = 0;
  if (ever_connected_) Add(counts_.reconnects);
  ever_connected_ = true;
  const bool same_client = attached.reply.same_client;
  Adopt(std::move(attached));
  if (same_client) return Settle();
  // A new client holds nothing yet, so there is nothing to settle either.
  settle_needed_ = false;
  return OkStatus();
}

Status Handler::Impl::Attach(const Session* former, Attached* attached) {
  MARU_ASSIGN_OR_RETURN(attached->name_space, link_->Find(options_.name_space));
  MARU_RETURN_IF_ERROR(catalogue::CheckNamespace(attached->name_space));
  // In another namespace nothing that is in hand or in flight would mean what it did.
  const bool elsewhere = former != nullptr && former->name_space.text() != attached->name_space;
  wire::AttachRequest request;
  request.protocol_version = layout::kProtocolVersion;
  request.layout_version = layout::kLayoutVersion;
  request.label = options_.label;
  request.name_space = attached->name_space;
  request.budget_bytes = options_.budget_bytes;
  return AttachAs(elsewhere ? nullptr : former, request, attached);
}

Status Handler::Impl::AttachAs(const Session* former, wire::AttachRequest request,
                               Attached* attached) {
  wire::AttachReply& reply = attached->reply;
  if (former != nullptr) {
    request.previous_client = former->client;
    request.previous_pool = former->pools.front().mapped->uuid();
  }
  MARU_RETURN_IF_ERROR(link_->Connect(request, &reply, &attached->pools));
  Status fits = CheckPoolCount(reply.pools.size());
  if (fits.ok() && reply.same_client && !SamePools(former, reply, attached->pools)) {
    link_->Disconnect();
    if (former == nullptr) return DataLoss("the server goes on with a client that was never");
    // It knows this client by its first pool, and serves others beside it or in another order: what
    // the ledger calls pool 1 is not its pool 1. So begin anew; what the former client holds ends
    // with its lock.
    request.previous_client = ClientId(0);
    request.previous_pool = {};
    return AttachAs(nullptr, request, attached);
  }
  if (fits.ok()) fits = AdoptLeaseBlocks(reply, attached->pools);
  if (!fits.ok()) link_->Disconnect();
  return fits;
}

Status Handler::Impl::CheckPoolCount(size_t pools) {
  if (pools > 0 && pools <= layout::kPoolsMax) return OkStatus();
  return DataLoss("the server named " + std::to_string(pools) + " pools; 1 to " +
                  std::to_string(layout::kPoolsMax) + " are possible");
}

bool Handler::Impl::SamePools(const Session* former, const wire::AttachReply& reply,
                              std::span<const std::shared_ptr<MappedPool>> pools) {
  if (former == nullptr || former->pools.size() != reply.pools.size()) return false;
  if (pools.size() != reply.pools.size()) return false;
  for (size_t p = 0; p < pools.size(); ++p) {
    const std::shared_ptr<MappedPool>& was = former->pools[p].mapped;
    if (pools[p] != was || was->uuid() != reply.pools[p].uuid) return false;
  }
  return true;
}

Status Handler::Impl::AdoptLeaseBlocks(const wire::AttachReply& reply,
                                       std::span<const std::shared_ptr<MappedPool>> pools) {
  if (reply.pools.size() != pools.size()) {
    return DataLoss("the server named " + std::to_string(reply.pools.size()) + " pools, " +
                    std::to_string(pools.size()) + " are mapped");
  }
  for (size_t p = 0; p < pools.size(); ++p) {
    // The server scans slots by the ordinals of their blocks. One that it has added in an answer
    // that was lost has to be added here, or all later ones would be others than it believes.
    const std::span<const uint64_t> blocks(reply.pools[p].lease_blocks);
    const std::vector<uint64_t> known = pools[p]->LeaseBlocks();
    if (blocks.size() < known.size()) {
      return DataLoss("the server named " + std::to_string(blocks.size()) +
                      " lease blocks of a client that has " + std::to_string(known.size()));
    }
    const auto [named, had] =
        std::mismatch(blocks.begin(), blocks.end(), known.begin(), known.end());
    if (had != known.end()) {
      return DataLoss("the server named the lease block at " + std::to_string(*named) +
                      " where this client has one at " + std::to_string(*had));
    }
    if (blocks.size() == known.size()) continue;
    MARU_RETURN_IF_ERROR(pools[p]->AddLeaseBlocks(blocks.subspan(known.size())));
  }
  return OkStatus();
}

void Handler::Impl::Adopt(Attached attached) {
  const bool same_client = attached.reply.same_client;
  const auto former = session();
  auto next = std::make_shared<Session>();
  next->client = attached.reply.client;
  next->name_space = catalogue::Namespace(attached.name_space);
  next->serial = former != nullptr && same_client ? former->serial : ++last_serial_;
  for (auto& pool : attached.pools) {
    catalogue::Reader reader(pool->view());
    next->pools.push_back({std::move(pool), reader});
  }
  if (former != nullptr && !same_client) ForgetFormer(*former);
  BoundHand(*next);
  WriterLock lock(session_mutex_);
  session_ = std::move(next);
}

void Handler::Impl::ForgetFormer(const Session& former) {
  uint64_t pins = 0;
  for (const SessionPool& pool : former.pools) pins += pool.mapped->leases().pins();
  if (pins > 0) {
    LogWarning("the server begins anew with client " + std::to_string(former.client.value()) +
               " (" + options_.label + "): its " + std::to_string(pins) + " pins are lost");
  }
  // The old grants are not ours any more. Handles of the old session are stale from here on; views
  // go on by themselves.
  MutexLock state(state_mutex_);
  ledger_ = Ledger();
  hand_.clear();
  refusing_.reset();
  moved_.clear();
  holds_.clear();
  Add(epoch_changes_);
}

}  // namespace maru::handler
