// The handler's link to a server on this host: one SEQPACKET connection, to the socket that it was
// told or that a metadata endpoint tells. Each call sends its request and waits for its reply in
// the calling thread; the handler calls one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/fork_guard.h"
#include "client/os_pool.h"
#include "client/road.h"
#include "client/server_address.h"
#include "client/unshared_fds.h"
#include "handler/handler.h"
#include "os/unix_socket.h"
#include "wire/codec.h"

namespace maru::client {

class SocketLink final : public handler::Link, private ForkAware {
 public:
  // `server_user` is trusted as a server's beside root and this process's own.
  SocketLink(ServerAddress server, std::optional<uint32_t> server_user, uint32_t timeout_ms);
  ~SocketLink() override;

  // Asks the metadata endpoint anew each time: after a restart its server may have another socket,
  // another pool and another namespace.
  Result<std::string> Find(std::string_view own) override;
  Status Connect(const wire::AttachRequest& request, wire::AttachReply* reply,
                 std::vector<std::shared_ptr<handler::MappedPool>>* pools) override;
  Status Call(const wire::Request& request, Status* server_status, wire::Reply* reply,
              Sent* sent) override;
  void Probe() override;
  void Disconnect() override;
  void Close() override;
  bool connected() const override { return connected_.load(std::memory_order_relaxed); }
  uint64_t last_request() const override { return last_request_.load(std::memory_order_relaxed); }

 private:
  // Sends and waits; closes the connection on any failure of the road.
  Status RoundTrip(const wire::Request& request, UnsharedFds* descriptors, Status* server_status,
                   wire::Reply* reply, Sent* sent);
  // A message into incoming_, and the descriptors that come with it.
  Result<size_t> ReceiveWith(UnsharedFds* descriptors);
  Status Lost(Status status);
  // The socket's status, told of the server.
  Status ByTheServer(const Status& status) const;
  // Who listens there, by the kernel's word: anybody may bind an abstract name, or a path in /tmp,
  // that is free.
  Status CheckServer() const;
  // Connects to socket_path_ and checks who listens there.
  Status Reach();
  // The answer comes from a server that has the pool which the endpoint told.
  Status CheckPool(const wire::AttachReply& reply) const;
  Status Attach(const wire::AttachRequest& request, wire::AttachReply* reply,
                UnsharedFds* descriptors);
  // Why none of the road's sockets was taken.
  Status NoSocket(const Status& last, const std::string& reasons) const;
  // Once for each road: which it is, and why not one before it.
  void TellRoad(const std::string& reasons);
  // Maps what an attach answer names; the pools of a client that goes on are those it has.
  Status Adopt(const wire::AttachReply& reply, UnsharedFds* descriptors);
  void InForkedChild() override;

  const ServerAddress server_;
  const std::optional<uint32_t> server_user_;
  const uint32_t timeout_ms_;
  Road road_;
  std::string socket_path_;  // of the road, the one in use
  std::string told_;         // the last road that the log was told
  os::SeqpacketSocket socket_;
  // Relaxed: told to who asks, decided under the handler's call lock.
  std::atomic<bool> connected_{false};
  std::atomic<uint64_t> last_request_{0};
  uint64_t next_request_ = 1;
  uint64_t epoch_ = 0;
  std::vector<std::shared_ptr<handler::MappedPool>> pools_;
  std::vector<std::byte> outgoing_, incoming_;
  wire::Decoder decoder_;
  const ForkRegistration fork_registration_{this};
};

}  // namespace maru::client
