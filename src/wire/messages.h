// What a client and the server say to each other over the unix socket, as plain structs. Bytes are
// made and read by codec.h; the engine and the handler see these types only.
//
// A request names (page, generation) wherever it names a page, so that repeating it is harmless.
// Keys are within the namespace that the client stated at attach. Views point into the frame that a
// message was decoded from, or into the caller's memory when it is to be encoded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "layout/frame.h"
#include "layout/superblock.h"
#include "maru/status.h"

namespace maru::wire {

// Written to sockets: numbers are never reused for something else.
enum class MessageType : uint16_t {
  kAttach = 1,
  kSettle = 2,
  kGrant = 3,
  kRegister = 4,
  kGiveBack = 5,
  kFree = 6,
  kResolve = 7,
  kFind = 8,
  kDelete = 9,
  kGrowLeases = 10,
  kPing = 11,
  kInspect = 12,
  kList = 13,
  kAudit = 14,
  kUnpin = 15,
  kRelease = 16,
};

// A life of a page.
struct PageRef {
  PoolIndex pool{0};
  RecordNumber record{0};
  Generation generation{0};
  friend bool operator==(const PageRef&, const PageRef&) = default;
};
inline constexpr uint32_t kPageRefWireBytes = 12;  // pool u32, record u32, generation u32

// Bounds of lists in one message; larger work is sent in several.
inline constexpr uint32_t kKeysPerMessageMax = 4096;
inline constexpr uint32_t kPagesPerMessageMax = 8192;
inline constexpr uint32_t kServerVersionBytesMax = 64;
inline constexpr uint32_t kStatusTextBytesMax = 4096;  // longer ones are cut by the encoder
inline constexpr uint32_t kJsonBytesMax = layout::kPayloadBytesMax - 64;
inline constexpr uint32_t kRegionsPerReleaseMax = 1024;
// Of a name by which clients of upstream's protocols call themselves; the server keeps less of a
// long one (engine/record_name.h).
inline constexpr uint32_t kInstanceIdBytesMax = 4096;
// Lease blocks of one client over all its pools, since the attach reply lists them all. The server
// refuses to add one beyond it.
inline constexpr uint32_t kLeaseBlocksPerAttachMax = 32'000;

struct AttachRequest {
  uint32_t protocol_version = 0;
  uint32_t layout_version = 0;
  std::string_view label;        // instance_id, at most layout::kLabelBytes - 1 bytes
  std::string_view name_space;   // at most layout::kNamespaceBytesMax bytes
  uint64_t budget_bytes = 0;     // granted + own live pages; 0: no limit
  ClientId previous_client{0};   // of an attach before a disconnect; 0: none
  layout::Uuid previous_pool{};  // uuid of the first pool then
};
struct AttachedPool {
  layout::Uuid uuid{};
  uint64_t pool_bytes = 0;
  uint64_t flags = 0;  // layout::kFlag...
  uint32_t region_id_base = 0;
  std::vector<uint64_t> lease_blocks;  // offsets of the client's blocks, by ordinal
};
// Descriptors with the reply, for each pool in order: read-only, read-write, and the one that holds
// the lock on the client's liveness byte.
struct AttachReply {
  ClientId client{0};
  ClientSlot slot{0};
  bool same_client = false;  // the previous client goes on, its grants and leases with it
  std::string_view server_version;
  std::vector<AttachedPool> pools;
};

// All pages that the client believes it holds, those of stores in flight among them. What is
// granted to the client and not named comes back to the server when `last` is set.
struct SettleRequest {
  bool last = true;
  std::vector<PageRef> pages;
};
enum class SettleVerdict : uint8_t {
  kKept = 1,  // still granted to the client, now with the generation in the reply
  kLive = 2,  // the store that was in flight is done: the page is its key's
  kGone = 3,  // no longer this client's
};
struct SettleReply {
  struct Item {
    SettleVerdict verdict = SettleVerdict::kGone;
    Generation generation{0};
  };
  std::vector<Item> items;  // one for each page named, in order
};

struct GrantRequest {
  uint64_t page_bytes = 0;
  uint32_t count = 0;  // wanted; the reply has 1 .. count, or the status says why none
};
struct GrantReply {
  std::vector<PageRef> pages;
};

struct RegisterEntry {
  PageRef page;
  uint64_t length_bytes = 0;
  uint64_t checksum = 0;  // XXH3 of the bytes in a pool with checksums, else 0
  std::string_view key;
};
struct RegisterRequest {
  std::vector<RegisterEntry> entries;
  uint64_t refill_page_bytes = 0;  // pages that the client would like with the reply
  uint32_t refill_count = 0;
};
enum class RegisterOutcome : uint8_t {
  kRegistered = 1,  // the page is the key's
  kDuplicate =
      2,       // the key exists already; the page stays granted, with the generation in the reply
  kStale = 3,  // (page, generation) is not granted to this client: nothing changed
  kRejected = 4,  // the key has no room or does not fit; the page stays granted, as with kDuplicate
};
struct RegisterReply {
  struct Item {
    RegisterOutcome outcome = RegisterOutcome::kStale;
    Generation generation{0};
  };
  std::vector<Item> items;      // one for each entry, in order
  std::vector<PageRef> refill;  // may be shorter than asked, or empty
};

struct GiveBackRequest {
  std::vector<PageRef> pages;  // a stale one is passed over
};
struct GiveBackReply {
  uint32_t returned = 0;
};

// free() of a page that was stored meanwhile: retires the key if the page still lives in that life.
enum class FreeOutcome : uint8_t { kFreed = 1, kPinned = 2, kStale = 3 };
struct FreeRequest {
  PageRef page;
};
struct FreeReply {
  FreeOutcome outcome = FreeOutcome::kStale;
};

// What a reader asks that met RETIRING: does that life of the page live?
struct ResolveRequest {
  std::vector<PageRef> pages;
};
struct ResolveReply {
  std::vector<uint8_t> live;  // 1 or 0, in order
};

// For a reader whose retries are used up. A page in the answer still needs a slot and a second
// check.
struct FindRequest {
  std::vector<std::string_view> keys;
};
struct FindReply {
  struct Item {
    bool found = false;
    PageRef page;
  };
  std::vector<Item> items;
};

enum class DeleteOutcome : uint8_t { kDeleted = 1, kMissing = 2, kPinned = 3 };
struct DeleteRequest {
  std::vector<std::string_view> keys;
};
struct DeleteReply {
  std::vector<DeleteOutcome> outcomes;
};

struct GrowLeasesRequest {
  PoolIndex pool{0};
  uint32_t blocks = 0;
};
struct GrowLeasesReply {
  std::vector<uint64_t> offsets;  // of the new blocks, in the order of their ordinals
};

struct PingRequest {};
struct PingReply {
  uint64_t uptime_ms = 0;
};

// Views of the server for people and tools, as JSON text; paged by cursor, 0 first, 0 at the end.
enum class InspectTopic : uint8_t { kSummary = 1, kClients = 2, kRegions = 3, kCondemned = 4 };
struct InspectRequest {
  InspectTopic topic = InspectTopic::kSummary;
  uint64_t cursor = 0;
};
struct InspectReply {
  std::string json;
  uint64_t next_cursor = 0;
};

struct ListRequest {
  std::string_view prefix;
  uint64_t cursor = 0;
  uint32_t count_max = 0;
};
struct ListReply {
  struct Item {
    std::string_view key;
    uint64_t length_bytes = 0;
    PageRef page;
  };
  std::vector<Item> items;
  uint64_t next_cursor = 0;
  std::vector<std::string> storage;  // owns what the views point to on the server's side
};

// One step of an audit, which is a walk of many on a large pool. NotFound: there is no such audit,
// the server or the connection has started anew; it is to be begun again.
struct AuditRequest {
  bool verify_bytes = false;  // of an audit that begins
  uint64_t audit = 0;         // the one to go on with; 0: begin one
};
struct AuditReply {
  uint64_t audit = 0;                       // to go on with; 0: it is done
  uint64_t work_done = 0, work_in_all = 0;  // so far, for people
  bool clean = false;                       // false until it is done
  std::string json;  // counts, what was left unchecked, offenders (bounded); empty until then
};

struct UnpinRequest {
  std::vector<std::string_view> keys;
};
struct UnpinReply {
  std::vector<uint8_t> unpinned;
};

// Regions of a client of upstream's protocols that is gone, in order of their ids: those that the
// metadata endpoint of the asker's namespace lent to an instance of that id, and those of a client
// of the resource manager that has it; or one region of either, by its own id.
enum class ReleaseMode : uint8_t {
  kTell = 1,     // changes nothing
  kRelease = 2,  // but those whose client is known to live
  kForce = 3,
};
enum class ReleaseVerdict : uint8_t {
  kReleased = 1,   // or would be, to kTell
  kLeased = 2,     // kept: its lease is held
  kConnected = 3,  // kept: its client is connected to the resource manager
};
struct ReleaseRequest {
  ReleaseMode mode = ReleaseMode::kTell;
  uint32_t from_region = 0;  // ids from there on
  uint32_t region = 0;       // that one alone, whatever instance has it; 0: all of the instance
  std::string_view instance_id;
};
struct ReleaseReply {
  struct Item {
    RegionId region{0};
    uint64_t length_bytes = 0;
    uint64_t keys = 0;       // that point into it: it goes with the last of them
    uint64_t condemned = 0;  // deleted ones whose bytes readers hold
    uint64_t hold_ms = 0;    // from now on: readers without leases were told of keys in it
    ReleaseVerdict verdict = ReleaseVerdict::kReleased;
  };
  std::vector<Item> items;   // kRegionsPerReleaseMax at most
  uint32_t next_region = 0;  // to go on with; 0: these were all
};

// The status of a reply that is an error stands beside it; the variant is empty then.
using Request =
    std::variant<std::monostate, AttachRequest, SettleRequest, GrantRequest, RegisterRequest,
                 GiveBackRequest, FreeRequest, ResolveRequest, FindRequest, DeleteRequest,
                 GrowLeasesRequest, PingRequest, InspectRequest, ListRequest, AuditRequest,
                 UnpinRequest, ReleaseRequest>;
using Reply =
    std::variant<std::monostate, AttachReply, SettleReply, GrantReply, RegisterReply, GiveBackReply,
                 FreeReply, ResolveReply, FindReply, DeleteReply, GrowLeasesReply, PingReply,
                 InspectReply, ListReply, AuditReply, UnpinReply, ReleaseReply>;

}  // namespace maru::wire
