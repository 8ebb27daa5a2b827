// How clients come and go: attach, come back after a lost connection, die.
#pragma once

#include <cstdint>

#include "engine/core.h"
#include "engine/settle.h"
#include "wire/messages.h"

namespace maru::engine {

class Attachment {
 public:
  Attachment(Core* core, Settlement* settlement) : core_(core), settlement_(settlement) {}

  // An error leaves nothing behind; locks that were taken for it are the caller's to let go.
  Status Attach(ConnectionId connection, const Peer& peer, const wire::AttachRequest& request,
                wire::AttachReply* reply);
  Status GrowLeases(const Client& client, const wire::GrowLeasesRequest& request,
                    wire::GrowLeasesReply* reply);

  // The client's connection is closed. Dead when nobody holds its lock.
  void Disconnected(Client* client);
  // Detached clients whose lock has become free are dead.
  void BuryDead();
  // Quarantines what is granted to it, ends its leases and pins. `client` is gone then.
  void Bury(Client* client);

 private:
  Status CheckRequest(const wire::AttachRequest& request) const;
  // The client that the request says it is the continuation of; nullptr: there is none.
  Client* Previous(const wire::AttachRequest& request) const;
  Result<Client*> AddClient(const Peer& peer, const wire::AttachRequest& request);
  // The lowest slot that is free in every pool and whose lock could be taken.
  Result<ClientSlot> TakeSlot();
  Result<ClientId> NextId();
  void FillReply(const Client& client, wire::AttachReply* reply) const;

  Core* core_;
  Settlement* settlement_;
};

}  // namespace maru::engine
