// What an embedding language does around waits: Python lets go of its interpreter lock while a
// thread of it waits for the server, and only then, so that a look-up in shared memory costs
// nothing of it.
#pragma once

namespace maru {

// Called on the waiting thread: BEFORE holds no lock that AFTER could wait for, and may hold
// others; AFTER is called without any lock of ours.
struct WaitHooks {
  void* (*before)();
  void (*after)(void* token);
};

// Of this thread; nullptr: none.
inline thread_local const WaitHooks* wait_hooks = nullptr;

// Around everything that may wait for a message or for another thread that does. Stands before the
// locks of its scope, so that they are let go first.
class Waiting {
 public:
  Waiting() : hooks_(wait_hooks) {
    if (hooks_ == nullptr) return;
    wait_hooks = nullptr;  // a wait inside is part of this one
    token_ = hooks_->before();
  }
  ~Waiting() {
    if (hooks_ == nullptr) return;
    hooks_->after(token_);
    wait_hooks = hooks_;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const WaitHooks* const hooks_;
  void* token_ = nullptr;
};

// Hooks of this thread while it lives.
class ScopedWaitHooks {
 public:
  explicit ScopedWaitHooks(const WaitHooks* hooks) : former_(wait_hooks) { wait_hooks = hooks; }
  ~ScopedWaitHooks() { wait_hooks = former_; }
  ScopedWaitHooks(const ScopedWaitHooks&) = delete;
  ScopedWaitHooks& operator=(const ScopedWaitHooks&) = delete;

 private:
  const WaitHooks* const former_;
};

}  // namespace maru
