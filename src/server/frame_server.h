// Between frames and the engine: admission of peers, decoding, descriptors of an attach answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "net/unix_endpoint.h"
#include "server/liveness.h"
#include "wire/codec.h"

namespace maru::server {

// Who may attach: the daemon's own user, root, and the members of one group.
struct Admission {
  uint32_t uid = 0;
  bool has_group = false;
  uint32_t gid = 0;
  std::string group_name;

  // PermissionDenied names the uid and --socket-group.
  Status Check(const os::PeerCredentials& peer, const std::vector<uint32_t>& groups) const;
};

class FrameServer final : public net::FrameService {
 public:
  // REQUIRES: all pointers outlive this. `pools` are the pools' files in the engine's order.
  FrameServer(engine::Engine* engine, OsLiveness* liveness, std::vector<const os::File*> pools,
              Admission admission, const Clock* clock);
  // Called after whatever the engine was told: it may have work for later now.
  std::function<void()> on_activity;
  // Opens the descriptors that clients get to map the pools.
  Status OpenShared();

  net::Admittance OnOpened(net::ConnectionId connection,
                           const os::SeqpacketSocket& socket) override;
  void OnFrame(net::ConnectionId connection, std::span<const std::byte> frame,
               net::OutgoingFrame* out) override;
  void OnClosed(net::ConnectionId connection) override;

 private:
  struct Peer {
    engine::Peer identity;
    Status admitted;
  };
  // A line for the first of many, and now and then one with their number.
  void LogStranger(const Status& refusal);
  void AddDescriptors(const wire::AttachReply& attached, net::OutgoingFrame* out);
  void Refuse(const Status& status, uint16_t type, uint64_t request_number,
              net::OutgoingFrame* out);

  engine::Engine* const engine_;
  OsLiveness* const liveness_;
  const std::vector<const os::File*> pools_;
  const Admission admission_;
  const Clock* const clock_;
  std::vector<os::File> read_only_, read_write_;  // one open description of each for all clients
  std::map<net::ConnectionId, Peer> peers_;
  uint64_t strangers_unsaid_ = 0;  // refused since the last line about one
  int64_t next_stranger_line_ns_ = 0;
  wire::Decoder decoder_;
  wire::Reply reply_;
  std::vector<std::byte> scratch_;
};

}  // namespace maru::server
