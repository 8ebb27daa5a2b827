// An event loop in a thread of its own, for tests of endpoints over real sockets.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/testing.h"
#include "net/event_loop.h"
#include "os/clock.h"
#include "os/event.h"

namespace maru::net::compat {

class TestLoop {
 public:
  TestLoop() { EXPECT_OK(loop_); }
  // Endpoints are made before Start and used by the test again after Stop.
  EventLoop* get() { return loop_->get(); }
  void Start() {
    thread_ = std::thread([this] { EXPECT_OK((*loop_)->Run()); });
  }
  void Stop() {
    if (!thread_.joinable()) return;
    (*loop_)->Stop();
    thread_.join();
  }
  ~TestLoop() { Stop(); }

 private:
  Result<std::unique_ptr<EventLoop>> loop_ = EventLoop::Create(&os::RealClock());
  std::thread thread_;
};

// Another descriptor of the loop, which is always ready, so that it has its turn whenever an
// endpoint lets one go by. Made before the loop starts, gone after it has stopped.
class EverReady {
 public:
  EverReady(TestLoop* loop, std::function<void()> turn) : loop_(loop), turn_(std::move(turn)) {
    EXPECT_OK(wake_);
    EXPECT_OK(loop_->get()->Watch(wake_->fd(), os::Interest::kRead,
                                  [this](const os::ReadyEvent&) { turn_(); }));
    wake_->Notify();
  }
  ~EverReady() { loop_->get()->Unwatch(wake_->fd()); }
  EverReady(const EverReady&) = delete;
  EverReady& operator=(const EverReady&) = delete;

 private:
  TestLoop* const loop_;
  const std::function<void()> turn_;
  Result<os::WakeFd> wake_ = os::WakeFd::Create();
};

}  // namespace maru::net::compat
