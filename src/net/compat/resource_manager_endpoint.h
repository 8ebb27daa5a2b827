// Upstream's resource-manager protocol over TCP (docs/formats/upstream_resource_manager.md). Reads
// what there is of each peer's stream, hands whole requests to the service and keeps what a peer
// does not take, up to a limit beyond which it is not read from. A peer that breaks framing loses
// its connection; a connection belongs to the first client id that it names. What takes the service
// several steps is answered step by step, one in a turn of the loop; later requests of its own
// connection wait, and a peer that closes meanwhile, if only its sending side, is gone.
//
// All calls belong to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "net/accept_pause.h"
#include "net/event_loop.h"
#include "os/event.h"
#include "os/tcp_socket.h"
#include "wire/compat/resource_manager.h"

namespace maru::net::compat {

struct RmCaller {
  uint64_t connection = 0;     // never used twice
  std::string_view client_id;  // empty until the connection has named one
};

// What would be lost, at once or after a time, with the last connections of a client.
struct RmHolds {
  size_t endpoints = 0;  // of this connection
  size_t regions = 0;    // of its client
};

class ResourceManagerService {
 public:
  virtual ~ResourceManagerService() = default;
  // The whole reply, as EncodeRmReply makes it. Texts live for the call.
  virtual std::vector<std::byte> Answer(const RmCaller& caller,
                                        const wire::compat::RmRequest& request) = 0;
  // The same for what may take several steps: 0, and the reply is there; else a number, for which
  // GoOn does the next step until it is. It is over as well when the connection is (OnClosed).
  virtual uint64_t Begin(const RmCaller& caller, const wire::compat::RmRequest& request,
                         std::vector<std::byte>* reply) {
    *reply = Answer(caller, request);
    return 0;
  }
  virtual std::optional<std::vector<std::byte>> GoOn(uint64_t number);
  virtual RmHolds HoldsOf(const RmCaller& caller) const = 0;
  // Told once for each connection that named a client.
  virtual void OnClosed(const RmCaller& caller) = 0;
};

class ResourceManagerEndpoint {
 public:
  // When as many are open, a newcomer takes the place of the one that has been silent for longest
  // among those that may go; if none may, it is refused. One with an endpoint stays, and of a
  // client as many of the oldest as it has regions: a name alone keeps nobody out.
  static constexpr size_t kConnectionsMax = 1024;
  // Replies that a peer has not taken; with that much it is not read from.
  static constexpr size_t kReplyBytesWaitingMax = 64 * kKiB;

  // REQUIRES: loop and service outlive the endpoint.
  static Result<std::unique_ptr<ResourceManagerEndpoint>> Create(EventLoop* loop,
                                                                 ResourceManagerService* service,
                                                                 const os::TcpAddress& address);
  ~ResourceManagerEndpoint();
  ResourceManagerEndpoint(const ResourceManagerEndpoint&) = delete;
  ResourceManagerEndpoint& operator=(const ResourceManagerEndpoint&) = delete;

  // With the port that was chosen.
  const os::TcpAddress& address() const { return listener_.address(); }
  size_t connections() const { return connections_.size(); }

 private:
  struct Connection {
    os::TcpSocket socket;
    std::vector<std::byte> in;   // of requests that are not whole yet
    std::vector<std::byte> out;  // replies from out_sent on are not sent yet
    size_t out_sent = 0;
    std::string client_id;
    uint64_t last_read = 0;  // by reads_
    bool ending = false;     // closed when `out` is sent
    uint64_t under_way = 0;  // the service's number of what it waits for
    os::Interest interest = os::Interest::kRead;

    size_t waiting() const { return out.size() - out_sent; }
  };

  ResourceManagerEndpoint(EventLoop* loop, ResourceManagerService* service,
                          os::TcpListener listener, os::WakeFd again)
      : loop_(loop), service_(service), listener_(std::move(listener)), again_(std::move(again)) {}
  void Accept();
  void SetAccepting(os::Interest interest);
  // The one that may go, or 0.
  uint64_t LongestSilent() const;
  // False when there is none.
  bool CloseSilent();
  void OnReady(uint64_t id, const os::ReadyEvent& event);
  // False when the connection is broken.
  bool Read(Connection& connection);
  bool Write(Connection& connection);
  // Sends and answers what there is, and waits for what may come next.
  void Serve(uint64_t id, Connection& connection);
  // Answers whole requests while their replies have room and none is under way; true when it
  // answered one.
  bool AnswerAll(uint64_t id, Connection& connection);
  // The reply, empty when it is under way.
  std::vector<std::byte> Answer(uint64_t id, Connection& connection, uint16_t type,
                                std::span<const std::byte> payload);
  // A step of what has been under way without one for longest.
  void GoOn();
  void Close(uint64_t id);

  EventLoop* const loop_;
  ResourceManagerService* const service_;
  os::TcpListener listener_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  os::WakeFd again_;                // another turn of the loop, for GoOn
  std::deque<uint64_t> under_way_;  // connections that wait for a reply; some may be closed
  uint64_t next_id_ = 1;
  uint64_t reads_ = 0;
  bool accepting_ = true;
  std::unique_ptr<AcceptPause> pause_;
};

}  // namespace maru::net::compat
