// Frames over unix sockets: accepts, reads one frame at a time, hands it to the service and sends
// what comes back. A peer that breaks framing loses its connection, and nobody else notices; one
// that does not read its replies is not read from either. Peers that the service does not admit
// share a few places of their own, so that they keep nobody else out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "net/accept_pause.h"
#include "net/event_loop.h"
#include "os/unix_socket.h"

namespace maru::net {

using ConnectionId = uint64_t;

struct OutgoingFrame {
  std::vector<std::byte> bytes;
  std::vector<int> descriptors;     // borrowed from the service for the send
  std::vector<os::UniqueFd> owned;  // closed after the send: the receiver has them alone
  bool drop = false;                // close the connection afterwards
};

enum class Admittance : uint8_t {
  kAdmitted,
  kStranger,  // may send one frame, which the service answers with its refusal
};

class FrameService {
 public:
  virtual ~FrameService() = default;
  virtual Admittance OnOpened(ConnectionId connection, const os::SeqpacketSocket& socket) = 0;
  // Fills `out`; empty bytes: nothing to send.
  virtual void OnFrame(ConnectionId connection, std::span<const std::byte> frame,
                       OutgoingFrame* out) = 0;
  virtual void OnClosed(ConnectionId connection) = 0;
};

class UnixEndpoint {
 public:
  static constexpr uint32_t kConnectionsMax = 4096;  // of admitted peers
  // Of strangers; one more takes the place of the oldest.
  static constexpr uint32_t kStrangersMax = 32;

  // REQUIRES: loop and service outlive the endpoint.
  UnixEndpoint(EventLoop* loop, FrameService* service) : loop_(loop), service_(service) {}
  ~UnixEndpoint();
  UnixEndpoint(const UnixEndpoint&) = delete;
  UnixEndpoint& operator=(const UnixEndpoint&) = delete;

  // May be called for several listeners (a path and an abstract name).
  Status Serve(os::UnixListener listener);
  size_t connections() const { return connections_.size(); }  // strangers too

 private:
  struct Connection {
    os::SeqpacketSocket socket;
    OutgoingFrame waiting;  // what the peer's buffer had no room for
    bool sending = false;
  };
  void Accept(const os::UnixListener& listener);
  void SetAccepting(os::Interest interest);
  void OnReady(ConnectionId id, const os::ReadyEvent& event);
  void ReadOne(ConnectionId id, Connection& connection);
  // Sends what waits; false when the connection was closed.
  void Send(ConnectionId id, Connection& connection);
  void Close(ConnectionId id);

  EventLoop* const loop_;
  FrameService* const service_;
  std::vector<std::unique_ptr<os::UnixListener>> listeners_;
  std::map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::set<ConnectionId> strangers_;  // of these; the lowest is the oldest
  ConnectionId next_id_ = 1;
  bool accepting_ = true;
  std::unique_ptr<AcceptPause> pause_;  // from the first listener on
  std::vector<std::byte> buffer_;
};

}  // namespace maru::net
