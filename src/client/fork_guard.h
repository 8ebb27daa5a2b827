// What a forked child must not do for its parent: release leases, keep the socket and the lock
// open, answer recalls. Whoever holds such things registers here; in a child each is told before
// fork returns, while it is the only thread.
#pragma once

namespace maru::client {

class ForkAware {
 public:
  // In the child, from the fork handler: takes no lock that another thread may have held.
  virtual void InForkedChild() = 0;

 protected:
  ~ForkAware() = default;
};

// While one lives no fork divides what is done; threads that fork wait meanwhile, so nothing that
// waits is done under it. REQUIRES: no ForkRegistration is made or destroyed under it.
class ForkPause {
 public:
  ForkPause();
  ~ForkPause();
  ForkPause(const ForkPause&) = delete;
  ForkPause& operator=(const ForkPause&) = delete;
};

// The last member of who registers: he is whole before it and still whole after it.
class ForkRegistration {
 public:
  explicit ForkRegistration(ForkAware* object);
  ~ForkRegistration();
  ForkRegistration(const ForkRegistration&) = delete;
  ForkRegistration& operator=(const ForkRegistration&) = delete;

 private:
  friend class ForkList;
  ForkAware* const object_;
  ForkRegistration* previous_ = nullptr;
  ForkRegistration* next_ = nullptr;
};

}  // namespace maru::client
