#include "net/compat/zmq_peers.h"

#include <zmq.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"

namespace maru::net::compat {

namespace {

// One for each context, which has one socket that listens.
constexpr const char* kMonitorName = "inproc://peers";

// The first frame of a monitor's event, as ZeroMQ documents it: 16 bits and 32, in host order.
constexpr size_t kEventBytes = 6;

}  // namespace

PeerLimit PeerLimit::For(uint64_t descriptors) {
  return {.peers_max = std::clamp<size_t>(descriptors / 3, kPeersMin, kPeersMax)};
}

Result<std::unique_ptr<ZmqPeers>> ZmqPeers::Create(EventLoop* loop, PeerLimit* limit, void* context,
                                                   void* socket) {
  MARU_ASSIGN_OR_RETURN(auto foreign, os::ForeignConnections::Create());
  std::unique_ptr<ZmqPeers> peers(new ZmqPeers(limit, std::move(foreign)));
  MARU_RETURN_IF_ERROR(peers->Listen(loop, context, socket));
  return peers;
}

Status ZmqPeers::Listen(EventLoop* loop, void* context, void* socket) {
  constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
  if (zmq_socket_monitor(socket, kMonitorName, kEvents) != 0) {
    return ZmqStatus("watch", "a ZeroMQ socket");
  }
  monitor_ = zmq_socket(context, ZMQ_PAIR);
  if (monitor_ == nullptr) return ZmqStatus("make", "a ZeroMQ socket");
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(monitor_, ZMQ_RCVHWM, kEventsWaitingMax));
  MARU_RETURN_IF_ERROR(SetZmqOption<int>(monitor_, ZMQ_LINGER, 0));
  if (zmq_connect(monitor_, kMonitorName) != 0) return ZmqStatus("watch", "a ZeroMQ socket");
  MARU_ASSIGN_OR_RETURN(watch_, ZmqWatch::Create(loop, monitor_, [this] { Drain(); }));
  // ZeroMQ tells of a message in a pipe within the process only whoever has found the pipe empty.
  Drain();
  return OkStatus();
}

ZmqPeers::~ZmqPeers() {
  watch_.reset();
  if (monitor_ != nullptr) zmq_close(monitor_);
  while (!peers_.empty()) Closed(peers_.begin()->first);
}

void ZmqPeers::Drain() {
  for (uint32_t i = 0; i < kEventsPerTurnMax; ++i) {
    if (!TakeOne()) return;
  }
  watch_->Again();
}

bool ZmqPeers::TakeOne() {
  uint16_t event = 0;
  uint32_t value = 0;
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  bool more = true;
  for (bool first = true; more; first = false) {
    if (zmq_msg_recv(&frame, monitor_, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&frame);
      return false;
    }
    if (first && zmq_msg_size(&frame) == kEventBytes) {
      const char* const data = static_cast<const char*>(zmq_msg_data(&frame));
      std::memcpy(&event, data, sizeof(event));
      std::memcpy(&value, data + sizeof(event), sizeof(value));
    }
    more = zmq_msg_more(&frame) != 0;
  }
  zmq_msg_close(&frame);
  if (event == ZMQ_EVENT_ACCEPTED) Opened(static_cast<int>(value));
  if (event == ZMQ_EVENT_DISCONNECTED) Closed(static_cast<int>(value));
  return true;
}

void ZmqPeers::Opened(int fd) {
  Closed(fd);  // a number that comes again was closed
  peers_[fd] = limit_->next;
  limit_->silent[limit_->next++] = {this, fd};
  if (++limit_->open > limit_->peers_max) EndOldestSilent();
}

void ZmqPeers::Closed(int fd) {
  const auto at = peers_.find(fd);
  if (at == peers_.end()) return;  // ended from here
  limit_->silent.erase(at->second);
  peers_.erase(at);
  --limit_->open;
}

void ZmqPeers::Asked(int fd) {
  auto at = peers_.find(fd);
  if (at == peers_.end()) {
    Drain();  // its event waits
    at = peers_.find(fd);
  }
  if (at == peers_.end() || at->second == 0) return;
  limit_->silent.erase(at->second);
  at->second = 0;
}

void ZmqPeers::EndOldestSilent() {
  const PeerLimit::Silent oldest = limit_->silent.begin()->second;  // the newcomer at least
  foreign_.ShutDown(oldest.fd, oldest.at->port_);
  oldest.at->Closed(oldest.fd);
  if (std::has_single_bit(++limit_->ended)) {
    LogWarning("connections of clients of upstream's metadata protocol: " +
               std::to_string(limit_->peers_max) + " are open, the most there can be; " +
               std::to_string(limit_->ended) + " that had asked nothing were ended so far");
  }
}

}  // namespace maru::net::compat
