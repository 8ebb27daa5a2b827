#include "engine/attach.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/defect.h"
#include "base/log.h"
#include "catalogue/key.h"
#include "layout/frame.h"

namespace maru::engine {

namespace {

Status CheckVersion(const char* what, uint32_t client, uint32_t server,
                    const std::string& server_version) {
  if (client == server) return OkStatus();
  return FailedPrecondition("the client speaks " + std::string(what) + " version " +
                            std::to_string(client) + ", this server (" + server_version +
                            ") version " + std::to_string(server) + ": upgrade the " +
                            (client < server ? "client" : "server"));
}

// Who closes in order gives everything back first, and then ends as one that is killed.
bool HoldsAnything(const Core& core, const Client& client) {
  for (const std::unique_ptr<Stock>& stock : core.stocks) {
    const Client::Holding& here = client.pools[stock->index().value()];
    if (!here.present) continue;
    if (!stock->lists().Empty(here.granted)) return true;
    const catalogue::LeaseAreas::Counts counts = stock->pool().leases().ReadCounts(client.slot);
    if (counts.leases + counts.pins > 0) return true;
  }
  return false;
}

}  // namespace

Status Attachment::CheckRequest(const wire::AttachRequest& request) const {
  const std::string& version = core_->options.server_version;
  MARU_RETURN_IF_ERROR(
      CheckVersion("protocol", request.protocol_version, layout::kProtocolVersion, version));
  MARU_RETURN_IF_ERROR(
      CheckVersion("pool layout", request.layout_version, layout::kLayoutVersion, version));
  if (request.label.size() >= layout::kLabelBytes) {
    return InvalidArgument("an instance_id of " + std::to_string(request.label.size()) +
                           " bytes: at most " + std::to_string(layout::kLabelBytes - 1));
  }
  return catalogue::CheckNamespace(request.name_space);
}

Status Attachment::Attach(ConnectionId connection, const Peer& peer,
                          const wire::AttachRequest& request, wire::AttachReply* reply) {
  MARU_RETURN_IF_ERROR(CheckRequest(request));
  Client* client = Previous(request);
  Client* const here = core_->clients.ByConnection(connection);
  if (here != nullptr && here != client) {
    return FailedPrecondition("this connection is attached already, as client " +
                              std::to_string(here->id.value()));
  }
  if (client != nullptr && !core_->Lives(*client)) {
    // It comes back without its lock: by the rule it died when its connection was lost.
    Bury(client);
    client = nullptr;
  }
  if (client != nullptr) {
    reply->same_client = true;
    client->label = request.label;
    client->name_space = catalogue::Namespace(request.name_space);
    client->budget_bytes = request.budget_bytes;
    client->peer = peer;
    settlement_->Abandon(client);
    client->unsettled = true;
    ++core_->counters.returned;
  } else {
    MARU_ASSIGN_OR_RETURN(client, AddClient(peer, request));
    ++core_->counters.attached;
  }
  core_->clients.Connect(client, connection);
  FillReply(*client, reply);
  return OkStatus();
}

Client* Attachment::Previous(const wire::AttachRequest& request) const {
  if (request.previous_client.value() == 0) return nullptr;
  if (request.previous_pool != core_->stocks[0]->pool().superblock().device.uuid) return nullptr;
  Client* const client = core_->clients.ById(PoolIndex(0), request.previous_client);
  if (client == nullptr) return nullptr;
  // One that does not know every pool (the server serves more than it did then) attaches anew; the
  // old one goes when its process lets go of its lock.
  const bool everywhere =
      std::all_of(client->pools.begin(), client->pools.end(),
                  [](const Client::Holding& holding) { return holding.present; });
  return everywhere ? client : nullptr;
}

Result<ClientSlot> Attachment::TakeSlot() {
  for (uint32_t i = 0; i < layout::kClientSlots; ++i) {
    const ClientSlot slot(static_cast<uint16_t>(i));
    if (!core_->clients.SlotFree(slot)) continue;
    const Status taken = core_->liveness->Take(slot);
    if (taken.ok()) return slot;
    if (taken.code() != StatusCode::kFailedPrecondition) return taken;
  }
  return ResourceExhausted("all " + std::to_string(layout::kClientSlots) +
                           " places for clients are taken");
}

Result<ClientId> Attachment::NextId() {
  // Owners of keys are told by these numbers, also in pools that are served together for the first
  // time: every pool's counter is moved on to the greatest of them.
  uint64_t id = 0;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    MARU_ASSIGN_OR_RETURN(const uint64_t next, stock->pool().NextClientId());
    id = std::max(id, next);
  }
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const uint64_t last =
        stock->pool().view().root().next_client_id.load(std::memory_order_relaxed);
    if (last <= id) MARU_RETURN_IF_ERROR(stock->pool().NextClientId(id).status());
  }
  return ClientId(static_cast<uint32_t>(id));
}

Result<Client*> Attachment::AddClient(const Peer& peer, const wire::AttachRequest& request) {
  // The id first: a slot that was taken has its lock.
  MARU_ASSIGN_OR_RETURN(const ClientId id, NextId());
  MARU_ASSIGN_OR_RETURN(const ClientSlot slot, TakeSlot());
  auto client = std::make_unique<Client>();
  client->id = id;
  client->slot = slot;
  client->label = request.label;
  client->name_space = catalogue::Namespace(request.name_space);
  client->budget_bytes = request.budget_bytes;
  client->peer = peer;
  client->attached_unix_ns = core_->NowUnix();
  client->pools.resize(core_->stocks.size());

  catalogue::LeaseAreas::Identity identity;
  identity.id = client->id;
  identity.pid = peer.pid;
  identity.uid = peer.uid;
  identity.label = client->label;
  identity.budget_bytes = client->budget_bytes;
  identity.attached_unix_ns = client->attached_unix_ns;
  for (size_t i = 0; i < core_->stocks.size(); ++i) {
    catalogue::LeaseAreas& leases = core_->stocks[i]->pool().leases();
    Status added = leases.AddClient(slot, identity);
    if (!added.ok() && core_->FreeIdleRegions(core_->stocks[i].get(), 0) > 0) {
      added = leases.AddClient(slot, identity);
    }
    if (!added.ok()) {
      while (i-- > 0) core_->stocks[i]->pool().leases().DropClient(slot);
      if (added.code() != StatusCode::kResourceExhausted) return added;
      return ResourceExhausted("no room for the lease area of another client beside those of " +
                               std::to_string(core_->clients.all().size()) +
                               ": let one of them end, or serve a larger pool (" +
                               std::string(added.message()) + ")");
    }
    client->pools[i].present = true;
  }
  for (const std::unique_ptr<Stock>& stock : core_->stocks) stock->Welcome(client.get());
  return core_->clients.Add(std::move(client));
}

void Attachment::FillReply(const Client& client, wire::AttachReply* reply) const {
  reply->client = client.id;
  reply->slot = client.slot;
  reply->server_version = core_->options.server_version;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const layout::Superblock& superblock = stock->pool().superblock();
    wire::AttachedPool pool;
    pool.uuid = superblock.device.uuid;
    pool.pool_bytes = superblock.pool_bytes;
    pool.flags = superblock.flags;
    pool.region_id_base = stock->pool().region_id_base();
    pool.lease_blocks = stock->pool().leases().Blocks(client.slot);
    reply->pools.push_back(std::move(pool));
  }
}

Status Attachment::GrowLeases(const Client& client, const wire::GrowLeasesRequest& request,
                              wire::GrowLeasesReply* reply) {
  if (request.pool.value() >= core_->stocks.size()) {
    return InvalidArgument("pool " + std::to_string(request.pool.value()) + " of " +
                           std::to_string(core_->stocks.size()));
  }
  if (request.blocks == 0) return InvalidArgument("no lease blocks asked for");
  Stock* const stock = core_->stocks[request.pool.value()].get();
  catalogue::LeaseAreas& leases = stock->pool().leases();
  size_t held = 0;
  for (const std::unique_ptr<Stock>& each : core_->stocks) {
    held += each->pool().leases().Blocks(client.slot).size();
  }
  const size_t most = core_->options.lease_blocks_max;
  if (held >= most) {
    return ResourceExhausted("the client has " + std::to_string(held) +
                             " lease blocks in all pools, the most that one client can have is " +
                             std::to_string(most));
  }
  const size_t blocks =
      std::min<size_t>({request.blocks, layout::kLeaseBlocksPerClientMax, most - held});
  for (size_t i = 0; i < blocks; ++i) {
    Result<uint64_t> offset = leases.AddBlock(client.slot);
    if (!offset.ok() && core_->FreeIdleRegions(stock, 0) > 0) offset = leases.AddBlock(client.slot);
    if (!offset.ok()) {
      // Those that were added are the client's: it has to learn of them.
      return reply->offsets.empty() ? offset.status() : OkStatus();
    }
    reply->offsets.push_back(*offset);
  }
  return OkStatus();
}

void Attachment::Disconnected(Client* client) {
  core_->clients.Disconnect(client);
  settlement_->Abandon(client);
  bool held = core_->Lives(*client);
  if constexpr (kDefect == Defect::kDetachedIsDead) held = false;
  if (!held) Bury(client);
}

void Attachment::BuryDead() {
  std::vector<Client*> dead;
  for (const std::unique_ptr<Client>& client : core_->clients.all()) {
    if (client->connection.has_value() || core_->Lives(*client)) continue;
    dead.push_back(client.get());
  }
  for (Client* const client : dead) Bury(client);
}

void Attachment::Bury(Client* client) {
  settlement_->Abandon(client);
  const std::string who =
      "client " + std::to_string(client->id.value()) + " (" + client->label + ")";
  if (HoldsAnything(*core_, *client)) {
    LogInfo(who + " is dead: its leases and pins have ended, its grants come back");
  } else {
    LogDebug(who + " has left");
  }
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (!client->pools[stock->index().value()].present) continue;
    const PageLists::Id granted = client->pools[stock->index().value()].granted;
    while (!stock->lists().Empty(granted)) {
      const RecordNumber record = stock->lists().Front(granted);
      if constexpr (kDefect == Defect::kNoQuarantine) {
        stock->GiveBack(record, client);
      } else {
        stock->Quarantine(record, client, core_->now_ns);
      }
    }
    // Last: while its slot is taken, what is granted to it is granted to nobody else.
    stock->pool().leases().DropClient(client->slot);
    stock->Forget(client);
  }
  ++core_->counters.died;
  core_->clients.Remove(client);
}

}  // namespace maru::engine
