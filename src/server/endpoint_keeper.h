// What `maru server` does: asks a daemon to open a metadata endpoint and holds the connection on
// which it lives. When the daemon goes away it is asked again, once a second, for the same address.
//
// One thread, the loop's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/event_loop.h"
#include "os/tcp_socket.h"
#include "wire/compat/resource_manager.h"

namespace maru::server {

struct EndpointKeeperOptions {
  std::string rm_address;            // of the daemon: "127.0.0.1:9850", "rm-host:9850"
  std::string address;               // to be opened: "tcp://127.0.0.1:5555"
  std::vector<std::string> paths;    // of the pools to take regions from; empty: any
  std::optional<uint64_t> lease_ms;  // of clients' leases; 0: they have none
  std::string client_id;             // "hostname:pid"
};

class EndpointKeeper {
 public:
  static constexpr uint64_t kPauseNs = 1'000'000'000;

  // REQUIRES: loop and clock outlive this.
  EndpointKeeper(net::EventLoop* loop, const Clock* clock, EndpointKeeperOptions options)
      : loop_(loop), clock_(clock), options_(std::move(options)) {}
  ~EndpointKeeper() { Disconnect(); }
  EndpointKeeper(const EndpointKeeper&) = delete;
  EndpointKeeper& operator=(const EndpointKeeper&) = delete;

  // Called when the endpoint is open for the first time, with its address.
  std::function<void(const std::string& address)> on_open;

  // Connects and asks; an answer that does not come in time is a failure. An endpoint that cannot
  // be had at the first try ends the loop.
  Status Connect();
  // Why the loop was ended from here; OK when it was not.
  const Status& failure() const { return failure_; }

 private:
  Status TryConnect();
  Result<os::TcpSocket> ConnectToAny() const;
  // The same, with whom it is about.
  Status Named(const Status& status) const;
  void Disconnect();
  void OnReady(const os::ReadyEvent& event);
  Status Send();
  Status Receive();
  Status Take(const wire::compat::RmOpenReply& reply);
  // Ends the loop at the first try, tries again after any other.
  void Lost(const Status& why);
  void TryAgain();

  net::EventLoop* const loop_;
  const Clock* const clock_;
  EndpointKeeperOptions options_;
  os::TcpSocket socket_;
  std::vector<std::byte> out_, in_;
  bool open_ = false;
  bool was_open_ = false;
  bool said_lost_ = false;
  Status failure_;
};

}  // namespace maru::server
