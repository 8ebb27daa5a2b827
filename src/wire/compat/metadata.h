// The messages of upstream's metadata protocol (docs/formats/upstream_metadata.md) as plain
// structs. Texts of a request point into the message that it was decoded from, or to its own_texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/units.h"
#include "layout/geometry.h"
#include "wire/compat/key_texts.h"

namespace maru::wire::compat {

inline constexpr uint16_t kMetadataMagic = 0xCF00;
inline constexpr uint8_t kMetadataVersion = 1;
inline constexpr uint32_t kMetadataHeaderBytes = 16;
inline constexpr uint8_t kMetadataReplyBit = 0x80;

// Header and payload. A batch of kBatchItemsMax keys of 100 bytes takes half of it.
inline constexpr uint32_t kMetadataMessageBytesMax = 16 * kMiB;
inline constexpr uint32_t kBatchItemsMax = 65'536;
using layout::kKeyBytesMax;
inline constexpr uint32_t kStatsEntriesMax = 10'000;
inline constexpr uint32_t kNameBytesMax = 256;  // instance, client and lease ids, versions
inline constexpr uint32_t kWordBytesMax = 64;   // operations, results, actions
inline constexpr uint32_t kErrorBytesMax = 4096;

// Of a reply to GET_STATS, which senders keep to and receivers make room for.
inline constexpr uint32_t kStatsReplyBytesMax = 1 * kMiB;

inline constexpr uint32_t kMapPairsMax = 256;  // of one map, known and unknown fields

// Bits of a header's flags; a reply repeats them.
inline constexpr uint8_t kFlagBatch = 1;
inline constexpr uint8_t kFlagCompressed = 2;
inline constexpr uint8_t kFlagUrgent = 4;
inline constexpr uint8_t kFlagNoReply = 8;

enum class MetadataType : uint8_t {
  kRequestAlloc = 0x01,
  kReturnAlloc = 0x03,
  kListAllocations = 0x04,
  kRegister = 0x10,
  kLookup = 0x11,
  kExists = 0x12,
  kDelete = 0x13,
  kPin = 0x14,
  kUnpin = 0x15,
  kBatchRegister = 0x20,
  kBatchLookup = 0x21,
  kBatchExists = 0x22,
  kBatchPin = 0x23,
  kBatchUnpin = 0x24,
  kStorage = 0x30,
  // From here on a reply has the number of its request: the reply bit is set already.
  kGetStats = 0xF0,
  kHeartbeat = 0xF1,
  kReportStats = 0xF2,
  kGetUsage = 0xF3,
  kHandshake = 0xFE,
  kShutdown = 0xFF,
};

struct MetadataHeader {
  uint8_t type = 0;  // as it came; MetadataType once a request was decoded
  uint8_t flags = 0;
  uint32_t sequence = 0;
  friend bool operator==(const MetadataHeader&, const MetadataHeader&) = default;
};

// Names a region over the wire; the token proves that the server handed it out.
struct Handle {
  uint64_t region_id = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  uint64_t auth_token = 0;
  friend bool operator==(const Handle&, const Handle&) = default;
};

// Requests. A message type with the fields of another is the same struct with another number.

struct AllocRequest {
  std::string_view instance_id;
  uint64_t size_bytes = 0;
  std::string lease_id;  // empty: none. A number is kept as its decimal text
  friend bool operator==(const AllocRequest&, const AllocRequest&) = default;
};
struct ReturnAllocRequest {
  std::string_view instance_id;
  uint64_t region_id = 0;
  friend bool operator==(const ReturnAllocRequest&, const ReturnAllocRequest&) = default;
};
struct ListAllocationsRequest {
  std::string_view exclude_instance_id;  // empty: none is left out
  friend bool operator==(const ListAllocationsRequest&, const ListAllocationsRequest&) = default;
};
struct RegisterEntry {
  std::string_view key;
  uint64_t region_id = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  friend bool operator==(const RegisterEntry&, const RegisterEntry&) = default;
};
// One of them in REGISTER_KV.
struct RegisterRequest {
  std::vector<RegisterEntry> entries;
  KeyTexts own_texts;  // of keys that are not within the message
  friend bool operator==(const RegisterRequest&, const RegisterRequest&) = default;
};
// LOOKUP, EXISTS, DELETE, PIN and UNPIN, single (one key) and in batches; the header says which.
struct KeysRequest {
  std::vector<std::string_view> keys;
  KeyTexts own_texts;  // of keys that are not within the message
  friend bool operator==(const KeysRequest&, const KeysRequest&) = default;
};
// STORAGE, GET_STATS, GET_USAGE, SHUTDOWN: what they carry is not looked at.
struct PlainRequest {
  friend bool operator==(const PlainRequest&, const PlainRequest&) = default;
};
struct HeartbeatRequest {
  std::string_view instance_id;
  std::string lease_id;
  bool lease_release = false;
  friend bool operator==(const HeartbeatRequest&, const HeartbeatRequest&) = default;
};
struct StatsEntry {
  std::string_view client_id;
  std::string_view op_type;
  std::string_view result;
  uint64_t size_bytes = 0;
  double latency_us = 0;
  friend bool operator==(const StatsEntry&, const StatsEntry&) = default;
};
struct ReportStatsRequest {
  std::vector<StatsEntry> entries;
  friend bool operator==(const ReportStatsRequest&, const ReportStatsRequest&) = default;
};
struct HandshakeRequest {
  std::string_view client_version;
  std::string_view instance_id;
  friend bool operator==(const HandshakeRequest&, const HandshakeRequest&) = default;
};

using MetadataRequest =
    std::variant<std::monostate, AllocRequest, ReturnAllocRequest, ListAllocationsRequest,
                 RegisterRequest, KeysRequest, PlainRequest, HeartbeatRequest, ReportStatsRequest,
                 HandshakeRequest>;

// Replies. An empty error or text is left out of the map.

// Any request: it was malformed, or failed as a whole.
struct ErrorReply {
  std::string error;
};
// RETURN_ALLOC, DELETE_KV, UNPIN_KV, STORAGE, REPORT_STATS, SHUTDOWN.
struct SuccessReply {
  bool success = false;
  std::string error;
};
// REQUEST_ALLOC: success is that there is a handle.
struct AllocReply {
  std::optional<Handle> handle;
  std::string error;
};
// LIST_ALLOCATIONS.
struct AllocationsReply {
  std::vector<Handle> allocations;
};
// REGISTER_KV.
struct RegisterReply {
  bool success = true;
  bool is_new = false;
};
// LOOKUP_KV and the entries of BATCH_LOOKUP_KV.
struct Location {
  Handle handle;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
};
struct LookupReply {
  std::optional<Location> location;
};
struct BatchLookupReply {
  std::vector<LookupReply> entries;  // one for each key, in order
};
// EXISTS_KV, PIN_KV.
struct ExistsReply {
  bool exists = false;
};
// BATCH_EXISTS_KV, BATCH_PIN_KV, BATCH_UNPIN_KV.
struct ResultsReply {
  std::vector<bool> results;  // one for each key, in order
};
// BATCH_REGISTER_KV.
struct BatchRegisterReply {
  bool success = true;
  std::vector<bool> results;  // is_new of each entry, in order
};
// Sums over what clients reported.
struct OperationCounters {
  std::string operation;
  uint64_t count = 0;
  uint64_t size_bytes = 0;
  double latency_us = 0;
  std::vector<std::pair<std::string, uint64_t>> results;  // "hit": how often
};
struct ClientCounters {
  std::string client_id;  // "_all" is the sum of all
  std::vector<OperationCounters> operations;
};
struct PoolSizes {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};
// GET_STATS.
struct StatsReply {
  uint64_t keys = 0;
  uint64_t keys_bytes = 0;
  uint64_t allocations = 0;
  uint64_t allocated_bytes = 0;
  uint64_t active_clients = 0;
  std::vector<ClientCounters> clients;
  std::optional<PoolSizes> pool;
};
// HEARTBEAT: a lease of no seconds is not told.
struct HeartbeatReply {
  double lease_ttl_s = 0;
  bool lease_expired = false;
};
struct InstanceUsage {
  std::string instance_id;
  uint64_t regions = 0;
  uint64_t allocated_bytes = 0;
  uint64_t used_bytes = 0;
  std::vector<std::pair<std::string, uint64_t>> devices;  // path, bytes; left out when empty
};
// GET_USAGE.
struct UsageReply {
  std::vector<InstanceUsage> instances;
  PoolSizes pool;
};
// What a handler of ours on the same host needs to leave this protocol for the unix socket.
struct LocalRoad {
  std::string socket_path;    // absolute; empty: there is none
  std::string abstract_name;  // with its "@"; empty: there is none
  std::string host;           // os::HostIdentity
  std::string pool;           // uuid of the first
  std::string name_space;     // of the endpoint (catalogue::NamespaceBelow)
  friend bool operator==(const LocalRoad&, const LocalRoad&) = default;
};
// HANDSHAKE: success is that there is no error.
struct HandshakeReply {
  std::string rm_address;
  std::string server_version;
  std::vector<std::string> capabilities;
  uint64_t server_epoch = 0;  // 0: not told
  std::optional<LocalRoad> local_road;
  std::string error;
};

using MetadataReply =
    std::variant<ErrorReply, SuccessReply, AllocReply, AllocationsReply, RegisterReply, LookupReply,
                 BatchLookupReply, ExistsReply, ResultsReply, BatchRegisterReply, StatsReply,
                 HeartbeatReply, UsageReply, HandshakeReply>;

}  // namespace maru::wire::compat
