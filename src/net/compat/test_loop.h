// An event loop in a thread of its own, for tests of endpoints over real sockets.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "base/testing.h"
#include "net/event_loop.h"
#include "os/clock.h"

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

}  // namespace maru::net::compat
