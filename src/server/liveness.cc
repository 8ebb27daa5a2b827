#include "server/liveness.h"

#include "base/log.h"
#include "layout/geometry.h"
#include "os/ofd_lock.h"

namespace maru::server {

Status OsLiveness::Take(ClientSlot slot) {
  const uint64_t byte = layout::kLivenessOffset + slot.value();
  std::vector<os::UniqueFd> descriptors;
  for (const os::File* pool : pools_) {
    MARU_ASSIGN_OR_RETURN(os::File fresh, pool->Reopen(os::Access::kReadWrite));
    MARU_ASSIGN_OR_RETURN(const os::LockAttempt attempt, os::TryLockByte(fresh.fd(), byte));
    if (attempt == os::LockAttempt::kHeldByAnother) {
      return FailedPrecondition("the liveness byte of client slot " + std::to_string(slot.value()) +
                                " of " + pool->name() + " is locked by another process");
    }
    descriptors.push_back(fresh.Release());
  }
  taken_[slot] = std::move(descriptors);
  return OkStatus();
}

bool OsLiveness::Held(ClientSlot slot, PoolIndex pool) const {
  const auto state =
      os::TestByte(pools_[pool.value()]->fd(), layout::kLivenessOffset + slot.value());
  if (state.ok()) return *state == os::LockState::kHeld;
  // A lock that cannot be tested is taken for held: a page is freed late rather than early.
  LogWarning("liveness of client slot " + std::to_string(slot.value()) + ": " +
             std::string(state.status().message()));
  return true;
}

std::vector<os::UniqueFd> OsLiveness::TakenDescriptors(ClientSlot slot) {
  const auto at = taken_.find(slot);
  if (at == taken_.end()) return {};
  std::vector<os::UniqueFd> descriptors = std::move(at->second);
  taken_.erase(at);
  return descriptors;
}

}  // namespace maru::server
