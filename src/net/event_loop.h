// One thread that waits for descriptors and calls who asked for them. All calls but Stop() belong
// to that thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

#include "base/clock.h"
#include "maru/result.h"
#include "os/event.h"

namespace maru::net {

class EventLoop {
 public:
  using Callback = std::function<void(const os::ReadyEvent& event)>;

  // REQUIRES: the clock outlives the loop.
  static Result<std::unique_ptr<EventLoop>> Create(const Clock* clock);

  // Watches a descriptor until Unwatch, which must come before it is closed.
  Status Watch(int fd, os::Interest interest, Callback callback);
  Status Change(int fd, os::Interest interest);
  void Unwatch(int fd);

  // Called when the clock has reached a time, once. 0: not any more. There is one such call.
  void CallAt(uint64_t time_ns, std::function<void()> callback);

  // Called in one of the rounds to come, after whoever watches what is ready: of all such calls one
  // in a round, the earliest asked for first. For work of which nobody may have to wait for more
  // than one piece. Returns its number, which is not 0.
  uint64_t CallInTurn(std::function<void()> callback);
  // It is not called any more. REQUIRES: it has not been called.
  void ForgetTurn(uint64_t number);

  // Until Stop() was called. An error of the poller itself ends it.
  Status Run();
  // From any thread or callback.
  void Stop();

 private:
  EventLoop(const Clock* clock, os::Poller poller, os::WakeFd wake)
      : clock_(clock), poller_(std::move(poller)), wake_(std::move(wake)) {}
  // Milliseconds until the timed call is due; -1: none.
  int32_t WaitMs() const;
  void CallWhenDue();
  void CallNextInTurn();

  const Clock* const clock_;
  os::Poller poller_;
  os::WakeFd wake_;
  bool stopping_ = false;
  uint64_t next_token_ = 1;
  struct Watched {
    int fd;
    Callback callback;
  };
  // By token: an event that was fetched before its descriptor went away finds nobody.
  std::unordered_map<uint64_t, std::shared_ptr<Watched>> watched_;
  std::unordered_map<int, uint64_t> tokens_;
  uint64_t call_at_ns_ = 0;
  std::function<void()> timed_call_;
  struct Turn {
    uint64_t number;
    std::function<void()> callback;
  };
  std::deque<Turn> turns_;
  uint64_t next_turn_ = 1;
};

}  // namespace maru::net
