// The meaning of each request of upstream's resource-manager protocol
// (docs/formats/upstream_resource_manager.md): regions lent to the clients that ask here, and where
// the bytes of any region lie.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core.h"
#include "engine/lending.h"
#include "engine/record_name.h"
#include "wire/compat/resource_manager.h"

namespace maru::engine {

class ResourceManager {
 public:
  // An id goes into both names of a region's record; a longer one is known by its RecordName.
  static constexpr size_t kClientIdBytesMax = 2 * kRecordNameBytesMax;
  static constexpr uint64_t kRefusalLogPauseNs = 10'000'000'000;

  ResourceManager(Core* core, Lending* lending) : core_(core), lending_(lending) {}

  // A connection is bound to the first client id that it tells. All steps at once.
  // REQUIRES: connection is not 0.
  wire::compat::RmReply Answer(ConnectionId connection, const wire::compat::RmRequest& request);
  // In steps: 0, and the reply is there, or a number for GoOn, which does the next one. It is over
  // with its reply, or when its connection is. A request is known to be repeated once the first has
  // its reply: until then the endpoint takes nothing else from that connection.
  uint64_t Begin(ConnectionId connection, const wire::compat::RmRequest& request,
                 wire::compat::RmReply* reply);
  std::optional<wire::compat::RmReply> GoOn(uint64_t number);
  void Disconnected(ConnectionId connection);
  // Regions of clients that were gone for options.rm_gone_ns have no owner any more, nor those that
  // were left for so long (Leave). Returns when the next time is over, 0: none runs.
  uint64_t EndGone();
  // Nobody was served for so long: that time counts against no client.
  void NotServed(uint64_t pause_ns);
  // A client's id as its regions' records keep it. REQUIRES: lent by the resource manager.
  static std::string ClientIdOf(const pool::Pool::ClientCut& cut);
  // Whether any connection of that region's client is open. REQUIRES: as above, and owned.
  bool Connected(const pool::Pool::ClientCut& cut) const;
  // By hand: as if its client had freed it. The region may be gone then. REQUIRES: as above.
  void Release(const Lending::Lent& lent);
  // At the start of a server: clients that have regions are gone from now on.
  void TakeOver();

 private:
  using Answered = RmClients::Answered;
  struct Request {
    RmClients::Kind kind = RmClients::Kind::kAlloc;
    uint64_t id = 0, subject = 0;
    ConnectionId connection = 0;
  };

  uint64_t BeginNamed(ConnectionId connection, const wire::compat::RmRequest& request,
                      wire::compat::RmReply* reply);
  // Error text; empty: bound.
  std::string Bind(ConnectionId connection, std::string_view client_id);
  // Of the clients without connection and region. False: there is none.
  bool ForgetLongestGone();
  // The answer of before, which is that connection's from now on: no other one has it as well.
  const Answered* Repeated(RmClients::Client* client, const Request& request);
  // Of the same requests whose connections are closed, the one that `request` repeats: nullptr
  // where it cannot be told.
  Answered* Lost(const RmClients::Client& client, const std::vector<Answered*>& closed,
                 const Request& request) const;
  // Somebody has the handle of that region, so the answer that told it has arrived: it is repeated
  // on its own connection alone.
  void SetArrived(RegionId region);
  // Who asks for it once more has its owner's name, and may not be its owner: a process that was
  // started again, as far as can be seen. When no connection was open for options.rm_gone_ns that
  // may be the owner's, and no key came, the region has no owner any more.
  void Leave(RmClients::Client* client, RegionId region, const Request& request);
  // Returns as EndGone, of one client.
  uint64_t EndLeft(const std::string& client_id, RmClients::Client* client);
  void EndRegion(RmClients::Client* client, const Lending::Lent& lent);
  static wire::compat::RmReply Remember(RmClients::Client* client, Answered answered);
  // The region was freed: a process that comes with the same ids is a new one and gets a new one.
  static void ForgetAlloc(RmClients::Client* client, RegionId region);
  static bool IsAllocOf(const Answered& answered, RegionId region);
  static bool IsSame(const Answered& answered, const Request& request);
  // Those open connections whose process is not the one that some other answer to that very request
  // went to: the one that asks, and those that have answers of their own to it.
  static std::set<ConnectionId> Others(const RmClients::Client& client, const Request& request);
  uint64_t Alloc(ConnectionId connection, const wire::compat::RmAllocRequest& request,
                 wire::compat::RmReply* reply);
  wire::compat::RmReply NotLent(std::string_view client_id, const Status& why);
  wire::compat::RmReply Free(ConnectionId connection, const wire::compat::RmFreeRequest& request);
  wire::compat::RmReply FreeNew(RmClients::Client* client,
                                const wire::compat::RmFreeRequest& request);
  wire::compat::RmReply Stats() const;
  wire::compat::RmReply Access(const wire::compat::RmAccessRequest& request);
  wire::compat::RmAllocReply Handed(const Lending::Lent& lent, uint64_t requested_bytes) const;

  Core* core_;
  Lending* lending_;
  uint64_t next_refusal_log_ns_ = 0;
};

}  // namespace maru::engine
