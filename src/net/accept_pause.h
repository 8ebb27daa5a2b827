// A listener that cannot accept, most likely because no descriptor is left, is reported again and
// again while somebody waits at it. So its endpoint looks away for a while: until one of its own
// connections has ended, or for kPauseNs, since others of the process may have freed a descriptor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/event_loop.h"
#include "os/event.h"

namespace maru::net {

class AcceptPause {
 public:
  static constexpr int64_t kPauseNs = 100'000'000;

  // `over` is called at the end of a pause. REQUIRES: the loop outlives this.
  static Result<std::unique_ptr<AcceptPause>> Create(EventLoop* loop, std::function<void()> over) {
    Result<os::TimerFd> timer = os::TimerFd::Create();
    if (!timer.ok()) return timer.status();
    std::unique_ptr<AcceptPause> pause(new AcceptPause(loop, std::move(*timer)));
    const AcceptPause* const self = pause.get();
    MARU_RETURN_IF_ERROR(loop->Watch(self->timer_.fd(), os::Interest::kRead,
                                     [self, over = std::move(over)](const os::ReadyEvent&) {
                                       if (self->timer_.Drain() > 0) over();
                                     }));
    return pause;
  }
  ~AcceptPause() { loop_->Unwatch(timer_.fd()); }
  AcceptPause(const AcceptPause&) = delete;
  AcceptPause& operator=(const AcceptPause&) = delete;

  // Says why, once until somebody is accepted.
  void Begin(std::string_view why) {
    MARU_CHECK_OK(timer_.Arm(kPauseNs));
    if (!std::exchange(said_, true)) LogWarning(why);
  }
  void Accepted() { said_ = false; }

 private:
  AcceptPause(EventLoop* loop, os::TimerFd timer) : loop_(loop), timer_(std::move(timer)) {}

  EventLoop* const loop_;
  os::TimerFd timer_;
  bool said_ = false;
};

}  // namespace maru::net
