// The connections of a ZeroMQ socket that listens. ZeroMQ accepts them in a thread of its own, as
// many as the process has descriptors for; here they are counted, by the events of the socket's
// monitor, and those beyond a limit are ended. ZeroMQ's thread waits while kEventsWaitingMax and
// about a thousand events of its own are unread, so it gets ahead of the count by no more.
//
// All calls belong to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "maru/result.h"
#include "net/compat/zmq_socket.h"
#include "net/event_loop.h"
#include "os/tcp_socket.h"

namespace maru::net::compat {

class ZmqPeers;

// Of all endpoints that share it, in one loop's thread.
struct PeerLimit {
  static constexpr size_t kPeersMax = 4096;
  static constexpr size_t kPeersMin = 16;

  // At most a third of a process's descriptors.
  static PeerLimit For(uint64_t descriptors);

  size_t peers_max = kPeersMax;
  size_t open = 0;
  uint64_t ended = 0;  // for want of room
  uint64_t next = 1;
  struct Silent {
    ZmqPeers* at;
    int fd;
  };
  std::map<uint64_t, Silent> silent;  // that have asked nothing, the oldest first
};

class ZmqPeers {
 public:
  static constexpr int kEventsWaitingMax = 16;
  // Events taken in before other descriptors of the loop have their turn.
  static constexpr uint32_t kEventsPerTurnMax = 256;

  // Before the socket listens. REQUIRES: loop and limit outlive this; zmq_ctx_shutdown comes before
  // its end, zmq_ctx_term after it.
  static Result<std::unique_ptr<ZmqPeers>> Create(EventLoop* loop, PeerLimit* limit, void* context,
                                                  void* socket);
  ~ZmqPeers();
  ZmqPeers(const ZmqPeers&) = delete;
  ZmqPeers& operator=(const ZmqPeers&) = delete;

  // Where the socket listens: no connection to another port is ended.
  void set_port(uint16_t port) { port_ = port; }
  // A message came by that descriptor: its peer stays. When there are too many, those that have
  // asked nothing yet go, the oldest first; if all have, the newcomer.
  void Asked(int fd);

  size_t open() const { return peers_.size(); }

 private:
  ZmqPeers(PeerLimit* limit, os::ForeignConnections foreign)
      : limit_(limit), foreign_(std::move(foreign)) {}
  Status Listen(EventLoop* loop, void* context, void* socket);
  void Drain();
  // False when no event waits.
  bool TakeOne();
  void Opened(int fd);
  void Closed(int fd);
  // The oldest at any of the endpoints that share the limit.
  void EndOldestSilent();

  PeerLimit* const limit_;
  const os::ForeignConnections foreign_;
  void* monitor_ = nullptr;  // a socket of ZeroMQ's
  std::unique_ptr<ZmqWatch> watch_;
  uint16_t port_ = 0;
  std::unordered_map<int, uint64_t> peers_;  // by descriptor: its number in limit_->silent, or 0
};

}  // namespace maru::net::compat
