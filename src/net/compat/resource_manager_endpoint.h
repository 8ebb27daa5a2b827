// Upstream's resource-manager protocol over TCP (docs/formats/upstream_resource_manager.md). Reads
// what there is of each peer's stream, hands whole requests to the service and keeps what a peer
// does not take, up to a limit beyond which it is not read from. A peer that breaks framing loses
// its connection; a connection belongs to the first client id that it names.
//
// Requests are answered in turns of the loop, connection by connection, and others of the loop have
// theirs in between: in one turn as many as kRequestsPerTurnMax, or one that opens an endpoint. A
// region is made in steps, one in a round of the loop over all endpoints (EventLoop::CallInTurn).
// Later requests of its own connection wait, and a peer that closes meanwhile, if only its sending
// side, is gone.
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
  static constexpr size_t kConnectionsMin = 16;
  // At most a third of a process's descriptors, as PeerLimit: another's are the unix socket's.
  static size_t ConnectionsFor(uint64_t descriptors);
  // Replies that a peer has not taken; with that much it is not read from.
  static constexpr size_t kReplyBytesWaitingMax = 64 * kKiB;
  // Answered in a turn, over all connections: the short ones of a read, as a rule.
  static constexpr size_t kRequestsPerTurnMax = 256;

  // REQUIRES: loop and service outlive the endpoint.
  static Result<std::unique_ptr<ResourceManagerEndpoint>> Create(EventLoop* loop,
                                                                 ResourceManagerService* service,
                                                                 const os::TcpAddress& address,
                                                                 size_t connections_max);
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
    bool in_line = false;    // for a turn or a step
    os::Interest interest = os::Interest::kRead;

    size_t waiting() const { return out.size() - out_sent; }
    // A request is there in whole, or what can be none.
    bool Asks() const;
    // Something can be done in a turn.
    bool HasWork() const { return under_way != 0 || (waiting() < kReplyBytesWaitingMax && Asks()); }
  };

  ResourceManagerEndpoint(EventLoop* loop, ResourceManagerService* service,
                          os::TcpListener listener, os::WakeFd again, size_t connections_max)
      : loop_(loop),
        service_(service),
        connections_max_(connections_max),
        listener_(std::move(listener)),
        again_(std::move(again)) {}
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
  // Sends what there is, and waits for a turn or for what may come next. May close it.
  void Serve(uint64_t id, Connection& connection);
  void TakeTurn();
  // When it is the endpoint's turn among all that have steps to do in the loop.
  void AskForStep();
  void TakeStep();
  enum class Outcome : uint8_t { kAnswered, kCostsMore, kIsStep };
  // As far as it costs no more than is LEFT; else why already the first was not answered. What has
  // to be a step comes to it in any case.
  Outcome AnswerSome(uint64_t id, Connection& connection, size_t* left);
  // REQUIRES: HasWork().
  Outcome AnswerNext(uint64_t id, Connection& connection, size_t* left);
  // The reply, empty when it is under way.
  std::vector<std::byte> Answer(uint64_t id, Connection& connection,
                                const wire::compat::RmRequest& request);
  void Close(uint64_t id);

  EventLoop* const loop_;
  ResourceManagerService* const service_;
  const size_t connections_max_;
  os::TcpListener listener_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  os::WakeFd again_;  // the next turn
  // Connections that have work, each once; some may be closed. Of those in the second a step is
  // next: of a region that is under way, or its first.
  std::deque<uint64_t> line_, step_line_;
  uint64_t step_turn_ = 0;  // the loop's number of it; 0: none is asked for
  uint64_t next_id_ = 1;
  uint64_t reads_ = 0;
  bool accepting_ = true;
  std::unique_ptr<AcceptPause> pause_;
};

}  // namespace maru::net::compat
