#include "net/compat/zmq_socket.h"

#include "os/errno_status.h"

namespace maru::net::compat {

Status ZmqStatus(std::string_view action, std::string_view subject) {
  return os::ErrnoStatus(zmq_errno(), action, subject);
}

Result<std::unique_ptr<ZmqWatch>> ZmqWatch::Create(EventLoop* loop, void* socket,
                                                   std::function<void()> drain) {
  MARU_ASSIGN_OR_RETURN(os::WakeFd again, os::WakeFd::Create());
  std::unique_ptr<ZmqWatch> watch(new ZmqWatch(loop, std::move(again), std::move(drain)));
  ZmqWatch* const self = watch.get();
  int fd = -1;
  size_t size = sizeof(fd);
  if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) != 0) {
    return ZmqStatus("read the descriptor of", "a ZeroMQ socket");
  }
  MARU_RETURN_IF_ERROR(loop->Watch(fd, os::Interest::kRead, [self](const os::ReadyEvent&) {
    if (!self->asked_) self->drain_();  // else the turn that was asked for is this one
  }));
  self->fd_ = fd;
  MARU_RETURN_IF_ERROR(
      loop->Watch(self->again_.fd(), os::Interest::kRead, [self](const os::ReadyEvent&) {
        self->again_.Drain();
        self->asked_ = false;
        self->drain_();
      }));
  return watch;
}

ZmqWatch::~ZmqWatch() {
  if (fd_ >= 0) loop_->Unwatch(fd_);
  loop_->Unwatch(again_.fd());
}

}  // namespace maru::net::compat
