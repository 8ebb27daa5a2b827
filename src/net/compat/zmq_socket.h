// What is done alike to every socket of ZeroMQ.
#pragma once

#include <zmq.h>

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "maru/result.h"
#include "net/event_loop.h"
#include "os/event.h"

namespace maru::net::compat {

// Of the call of ZeroMQ that failed last in this thread.
Status ZmqStatus(std::string_view action, std::string_view subject);

template <typename T>
Status SetZmqOption(void* socket, int option, T value) {
  if (zmq_setsockopt(socket, option, &value, sizeof(value)) == 0) return OkStatus();
  return ZmqStatus("set an option of", "a ZeroMQ socket");
}

// A socket's turns in an event loop. Its descriptor tells that something changed, once, and any
// call on the socket may take that in, sending too: so whoever drains it receives until nothing is
// left, as the last call of the turn, or asks for another turn.
class ZmqWatch {
 public:
  // REQUIRES: loop and socket outlive this.
  static Result<std::unique_ptr<ZmqWatch>> Create(EventLoop* loop, void* socket,
                                                  std::function<void()> drain);
  ~ZmqWatch();
  ZmqWatch(const ZmqWatch&) = delete;
  ZmqWatch& operator=(const ZmqWatch&) = delete;

  // Another turn, after other descriptors of the loop have had theirs.
  void Again() {
    asked_ = true;
    again_.Notify();
  }

 private:
  ZmqWatch(EventLoop* loop, os::WakeFd again, std::function<void()> drain)
      : loop_(loop), again_(std::move(again)), drain_(std::move(drain)) {}

  EventLoop* const loop_;
  os::WakeFd again_;
  const std::function<void()> drain_;
  int fd_ = -1;         // the socket's own
  bool asked_ = false;  // for another turn
};

}  // namespace maru::net::compat
