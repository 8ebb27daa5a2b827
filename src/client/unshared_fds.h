// Descriptors that no forked child keeps: a lock or a connection that a child had too would outlive
// this process's own. From the moment in which one appears until it is closed it belongs to an
// object that is told of forks, and no fork divides such a step.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "client/fork_guard.h"
#include "os/unique_fd.h"

namespace maru::client {

// Not thread-safe.
class UnsharedFds final : private ForkAware {
 public:
  UnsharedFds() = default;
  ~UnsharedFds() { Close(); }

  // Calls fill(&descriptors), where it may add some, with no fork meanwhile. Must not wait.
  template <typename Fill>
  auto FillBy(const Fill& fill) {
    const ForkPause pause;
    return fill(&fds_);
  }
  // One of OTHER's is this one's from here on.
  void TakeFrom(UnsharedFds* other, size_t index) {
    const ForkPause pause;
    fds_.push_back(std::move(other->fds_[index]));
  }
  // For a descriptor that a child may have as well.
  os::UniqueFd Release(size_t index) {
    const ForkPause pause;
    return std::move(fds_[index]);
  }
  size_t size() const { return fds_.size(); }
  void Close() {
    const ForkPause pause;
    fds_.clear();
  }

 private:
  void InForkedChild() override { fds_.clear(); }

  std::vector<os::UniqueFd> fds_;
  const ForkRegistration fork_registration_{this};
};

}  // namespace maru::client
