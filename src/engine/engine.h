// The server's state machine: clients, grants, register, retire, eviction, settle, budgets. No I/O
// and no clock of its own: the server (or the simulator) brings requests and the time.
//
// Single-threaded. One call is one step: nobody is answered within it, so what a step publishes and
// takes back (RETIRING, then LIVE again) is never the base of an answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "maru/result.h"
#include "pool/pool.h"
#include "wire/auth/handle_mac.h"
#include "wire/compat/metadata.h"
#include "wire/compat/resource_manager.h"
#include "wire/messages.h"

namespace maru::engine {

enum class Eviction : uint8_t { kNone = 0, kLeastRecentlyUsed = 1 };

struct EngineOptions {
  Eviction eviction = Eviction::kLeastRecentlyUsed;
  uint64_t quarantine_ns = 1'000'000'000;
  uint64_t region_bytes_min = 64ull << 20;
  uint64_t region_bytes_max = 1ull << 30;
  uint32_t region_pages_min = 16;
  uint32_t evict_batch = 64;   // keys retired at a time when a page size is full
  uint32_t audit_work = 1024;  // of one step of an audit: about so many records are looked at
  // Of one client over all pools: the attach reply names them all.
  uint32_t lease_blocks_max = wire::kLeaseBlocksPerAttachMax;
  std::string server_version;

  // For clients of upstream's protocols.
  uint64_t wire_hold_ns = 60'000'000'000;     // a page told to a reader without leases
  uint64_t region_lease_ns = 30'000'000'000;  // of a client that has a lease, unless renewed
  uint64_t rm_gone_ns = 30'000'000'000;       // a client of the resource manager without connection
  // Of the tokens in handles; known to the server alone.
  std::array<std::byte, wire::auth::HandleMac::kKeyBytes> handle_key{};
};

struct MetadataContext;  // metadata_context.h

// Whether processes live: the locks on the liveness bytes, held by the clients themselves.
class Liveness {
 public:
  virtual ~Liveness() = default;
  // Takes the locks of a slot in every pool through fresh descriptions, to be passed to the client
  // with the attach answer. FailedPrecondition when somebody still holds one.
  virtual Status Take(ClientSlot slot) = 0;
  // True while any process holds the lock of that slot in that pool.
  virtual bool Held(ClientSlot slot, PoolIndex pool) const = 0;
};

using ConnectionId = uint64_t;

struct Peer {
  uint32_t pid = 0, uid = 0;
};

class Engine {
 public:
  // Takes over pools that were just opened: honours the clients whose lock is held (they are
  // detached until they come back), drops the others, quarantines the pages granted to those,
  // retires the later of two LIVE records of one key in two pools. REQUIRES: at least one pool;
  // pools and liveness outlive the engine; uuids and region ids are apart (CheckPools).
  static Result<std::unique_ptr<Engine>> Create(EngineOptions options,
                                                std::vector<pool::Pool*> pools, Liveness* liveness,
                                                uint64_t epoch, uint64_t now_ns,
                                                uint64_t now_unix_ns);
  ~Engine();

  // Answers one request. An error status leaves the reply empty. A request other than attach on a
  // connection that is not attached: FailedPrecondition. An attach that fails leaves the locks that
  // were taken for it to the caller, to be let go. request_number: of the frame, compared in audits
  // with the last one whose reply the client says it has applied; 0: not known.
  Status Handle(ConnectionId connection, const Peer& peer, const wire::Request& request,
                uint64_t now_ns, wire::Reply* reply, uint64_t request_number = 0);
  // Upstream's metadata protocol: whoever asks, on whatever connection; its requests name nobody.
  // Answered at once.
  wire::compat::MetadataReply HandleMetadata(const MetadataContext& context,
                                             wire::compat::MetadataType type,
                                             const wire::compat::MetadataRequest& request,
                                             uint64_t now_ns);
  // A request for a region takes several steps when the region is large, since its memory takes
  // time, and so does a register over many live extents. 0: the reply is there. Else the number of
  // what is under way: each GoOn does a step more, until the reply is there, and others are
  // answered in between.
  uint64_t BeginMetadata(const MetadataContext& context, wire::compat::MetadataType type,
                         const wire::compat::MetadataRequest& request, uint64_t now_ns,
                         wire::compat::MetadataReply* reply);
  std::optional<wire::compat::MetadataReply> GoOnMetadata(uint64_t number, uint64_t now_ns);
  // Nobody will ask for its reply.
  void GiveUpMetadata(uint64_t number, uint64_t now_ns);
  // The reply could not be handed to its client: a region in it is free again.
  void MetadataUndelivered(const wire::compat::MetadataReply& reply, uint64_t now_ns);
  // An endpoint was opened or closed: its clients' leases start anew; where they have none, those
  // of before are set aside.
  void StartLeasesAnew(const MetadataContext& context, uint64_t now_ns);
  // Upstream's resource manager; connections are numbered by themselves, from 1 on.
  wire::compat::RmReply HandleRm(ConnectionId connection, const wire::compat::RmRequest& request,
                                 uint64_t now_ns);
  // The same in steps, as above. What is under way ends with its connection.
  uint64_t BeginRm(ConnectionId connection, const wire::compat::RmRequest& request, uint64_t now_ns,
                   wire::compat::RmReply* reply);
  std::optional<wire::compat::RmReply> GoOnRm(uint64_t number, uint64_t now_ns);
  void RmDisconnected(ConnectionId connection, uint64_t now_ns);
  // Regions that the resource manager's client of that id owns.
  size_t RmRegionsOf(std::string_view client_id) const;

  // The connection is closed: its client is dead when its lock is free, else detached.
  void Disconnected(ConnectionId connection, uint64_t now_ns);

  // A pause between two steps of the server, stopped or busy, counts against no client of
  // upstream's protocols: while any can lapse, Tick asks to be called each kServedPollNs.
  static constexpr uint64_t kServedPollNs = 1'000'000'000;

  // Timed work: ends of region leases, of the time of a resource manager's client that is gone, of
  // quarantine, detached clients whose lock became free, condemned pages whose
  // leases ended, touch rings. Returns when it wants to be called next, 0 when nothing waits.
  uint64_t Tick(uint64_t now_ns);

  // What a full pool, or an operator, makes the engine do; each is a step of its own.
  //
  // Asks clients for so many pages of that size that lie idle in their hands; how many it asked
  // for. They come back with the clients' next stores and idle ticks. 0 pages: never mind.
  uint64_t RecallIdle(uint64_t page_bytes, uint64_t pages, uint64_t now_ns);
  // Frees regions whose pages are all FREE or worn out, but those of pages of the size to be kept;
  // the next grant cuts their units anew. 0: none is kept. How many.
  uint32_t FreeIdleRegions(uint64_t kept_page_bytes, uint64_t now_ns);
  // Retires the least recently used keys of a namespace until their pages make bytes_max at most,
  // as far as one step goes. Where it leaves off, the next one goes on.
  struct Trimmed {
    enum class Rest : uint8_t {
      kNone,   // the namespace has bytes_max at most
      kLater,  // there is more to do: it is to be called again
      kHeld,   // what is left is pinned, leased or on hold, or eviction is off
    };
    uint64_t bytes_left = 0;
    Rest rest = Rest::kNone;
  };
  Trimmed TrimNamespace(std::string_view name_space, uint64_t bytes_max, uint64_t now_ns);

  uint64_t epoch() const;

  struct PoolCounts {
    uint64_t pages = 0, free = 0, quarantined = 0, granted = 0, live = 0, retiring = 0,
             condemned = 0, worn = 0;
  };
  // Counted from the records, not from what the engine believes.
  PoolCounts Count(PoolIndex pool) const;
  // Keys, of pages and of extents alike.
  uint64_t CountKeys(PoolIndex pool) const;

  // Every invariant of the engine and of the catalogue; empty when all hold. For audit and the
  // simulator. Offenders are named by pool, record and what is wrong.
  std::vector<std::string> Audit() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::engine
