#include "base/check.h"
#include "base/utf8.h"
#include "wire/compat/metadata_codec.h"
#include "wire/compat/msgpack_writer.h"

namespace maru::wire::compat {
namespace {

void Put(MsgpackWriter& out, std::string_view name, uint64_t value) {
  out.Text(name);
  out.Number(value);
}

void PutBool(MsgpackWriter& out, std::string_view name, bool value) {
  out.Text(name);
  out.Bool(value);
}

// A name or a text of somebody else's. Clients that ask are never to fail at it: what is refused
// now may lie in a pool, and the path of a pool is anything.
void ShowText(MsgpackWriter& out, std::string_view text) {
  out.Text(IsUtf8(text) ? text : ReplaceNonUtf8(text));
}

void PutText(MsgpackWriter& out, std::string_view name, std::string_view value) {
  out.Text(name);
  ShowText(out, value);
}

// An optional text is one more pair when it is not empty.
uint32_t PairsOf(std::string_view optional) { return optional.empty() ? 0 : 1; }
void PutOptional(MsgpackWriter& out, std::string_view name, std::string_view value) {
  if (!value.empty()) PutText(out, name, value);
}

void PutResults(MsgpackWriter& out, const std::vector<bool>& results) {
  out.Text("results");
  out.Array(results.size());
  for (const bool result : results) out.Bool(result);
}

void PutHandle(MsgpackWriter& out, const Handle& handle) {
  out.Map(4);
  Put(out, "region_id", handle.region_id);
  Put(out, "offset", handle.offset_bytes);
  Put(out, "length", handle.length_bytes);
  Put(out, "auth_token", handle.auth_token);
}

void Encode(MsgpackWriter& out, const ErrorReply& reply) {
  out.Map(1);
  PutText(out, "error", reply.error);
}

void Encode(MsgpackWriter& out, const SuccessReply& reply) {
  out.Map(1 + PairsOf(reply.error));
  PutBool(out, "success", reply.success);
  PutOptional(out, "error", reply.error);
}

void Encode(MsgpackWriter& out, const AllocReply& reply) {
  out.Map(2);
  PutBool(out, "success", reply.handle.has_value());
  if (!reply.handle) return PutText(out, "error", reply.error);
  out.Text("handle");
  PutHandle(out, *reply.handle);
}

void Encode(MsgpackWriter& out, const AllocationsReply& reply) {
  out.Map(2);
  PutBool(out, "success", true);
  out.Text("allocations");
  out.Array(reply.allocations.size());
  for (const Handle& handle : reply.allocations) PutHandle(out, handle);
}

void Encode(MsgpackWriter& out, const RegisterReply& reply) {
  out.Map(2);
  PutBool(out, "success", reply.success);
  PutBool(out, "is_new", reply.is_new);
}

void Encode(MsgpackWriter& out, const LookupReply& reply) {
  out.Map(reply.location ? 4 : 1);
  PutBool(out, "found", reply.location.has_value());
  if (!reply.location) return;
  out.Text("handle");
  PutHandle(out, reply.location->handle);
  Put(out, "kv_offset", reply.location->offset_bytes);
  Put(out, "kv_length", reply.location->length_bytes);
}

void Encode(MsgpackWriter& out, const BatchLookupReply& reply) {
  out.Map(1);
  out.Text("entries");
  out.Array(reply.entries.size());
  for (const LookupReply& entry : reply.entries) Encode(out, entry);
}

void Encode(MsgpackWriter& out, const ExistsReply& reply) {
  out.Map(1);
  PutBool(out, "exists", reply.exists);
}

void Encode(MsgpackWriter& out, const ResultsReply& reply) {
  out.Map(1);
  PutResults(out, reply.results);
}

void Encode(MsgpackWriter& out, const BatchRegisterReply& reply) {
  out.Map(2);
  PutBool(out, "success", reply.success);
  PutResults(out, reply.results);
}

void PutCounters(MsgpackWriter& out, const OperationCounters& counters) {
  ShowText(out, counters.operation);
  out.Map(4);
  Put(out, "count", counters.count);
  Put(out, "total_size", counters.size_bytes);
  out.Text("total_latency_us");
  out.Real(counters.latency_us);
  out.Text("results");
  out.Map(static_cast<uint32_t>(counters.results.size()));
  for (const auto& [result, count] : counters.results) {
    ShowText(out, result);
    out.Number(count);
  }
}

void Encode(MsgpackWriter& out, const StatsReply& reply) {
  out.Map(reply.pool ? 4 : 3);
  out.Text("kv_manager");
  out.Map(2);
  Put(out, "total_entries", reply.keys);
  Put(out, "total_size", reply.keys_bytes);
  out.Text("allocation_manager");
  out.Map(3);
  Put(out, "num_allocations", reply.allocations);
  Put(out, "total_allocated", reply.allocated_bytes);
  Put(out, "active_clients", reply.active_clients);
  out.Text("stats_manager");
  out.Map(1);
  out.Text("clients");
  out.Map(static_cast<uint32_t>(reply.clients.size()));
  for (const ClientCounters& client : reply.clients) {
    ShowText(out, client.client_id);
    out.Map(1);
    out.Text("operations");
    out.Map(static_cast<uint32_t>(client.operations.size()));
    for (const OperationCounters& counters : client.operations) PutCounters(out, counters);
  }
  if (!reply.pool) return;
  out.Text("cxl_pool");
  out.Map(2);
  Put(out, "total_size", reply.pool->total_bytes);
  Put(out, "free_size", reply.pool->free_bytes);
}

void Encode(MsgpackWriter& out, const HeartbeatReply& reply) {
  const bool leased = reply.lease_ttl_s > 0 || reply.lease_expired;
  out.Map(leased ? 2 : 0);
  if (!leased) return;
  out.Text("lease_ttl");
  out.Real(reply.lease_ttl_s);
  PutBool(out, "lease_expired", reply.lease_expired);
}

void Encode(MsgpackWriter& out, const UsageReply& reply) {
  out.Map(3);
  out.Text("instances");
  out.Array(reply.instances.size());
  for (const InstanceUsage& usage : reply.instances) {
    out.Map(usage.devices.empty() ? 4 : 5);
    PutText(out, "instance_id", usage.instance_id);
    Put(out, "regions", usage.regions);
    Put(out, "allocated", usage.allocated_bytes);
    Put(out, "used", usage.used_bytes);
    if (usage.devices.empty()) continue;
    out.Text("devices");
    out.Map(static_cast<uint32_t>(usage.devices.size()));
    for (const auto& [path, bytes] : usage.devices) {
      ShowText(out, path);
      out.Number(bytes);
    }
  }
  Put(out, "pool_total", reply.pool.total_bytes);
  Put(out, "pool_free", reply.pool.free_bytes);
}

// What the receiver uses as it is, also where it is no text.
void PutBytes(MsgpackWriter& out, std::string_view name, std::string_view value) {
  out.Text(name);
  out.TextOrBin(value);
}

void PutLocalRoad(MsgpackWriter& out, const LocalRoad& road) {
  out.Text("maru");
  out.Map(5);
  PutBytes(out, "socket", road.socket_path);
  PutBytes(out, "abstract_name", road.abstract_name);
  PutBytes(out, "host", road.host);
  PutText(out, "pool", road.pool);
  PutText(out, "namespace", road.name_space);
}

void Encode(MsgpackWriter& out, const HandshakeReply& reply) {
  out.Map(2 + PairsOf(reply.server_version) + (reply.capabilities.empty() ? 0 : 1) +
          (reply.server_epoch == 0 ? 0 : 1) + (reply.local_road ? 1 : 0) + PairsOf(reply.error));
  PutBool(out, "success", reply.error.empty());
  PutText(out, "rm_address", reply.rm_address);
  PutOptional(out, "server_version", reply.server_version);
  if (!reply.capabilities.empty()) {
    out.Text("capabilities");
    out.Array(reply.capabilities.size());
    for (const std::string& capability : reply.capabilities) out.Text(capability);
  }
  if (reply.server_epoch != 0) Put(out, "server_epoch", reply.server_epoch);
  if (reply.local_road) PutLocalRoad(out, *reply.local_road);
  PutOptional(out, "error", reply.error);
}

template <typename... Replies>
bool IsOneOf(const MetadataReply& reply) {
  return (std::holds_alternative<Replies>(reply) || ...);
}

bool Answers(MetadataType type, const MetadataReply& reply) {
  switch (type) {
    case MetadataType::kRequestAlloc: return IsOneOf<AllocReply>(reply);
    case MetadataType::kListAllocations: return IsOneOf<AllocationsReply>(reply);
    case MetadataType::kRegister: return IsOneOf<RegisterReply>(reply);
    case MetadataType::kLookup: return IsOneOf<LookupReply>(reply);
    case MetadataType::kExists:
    case MetadataType::kPin: return IsOneOf<ExistsReply>(reply);
    case MetadataType::kBatchRegister: return IsOneOf<BatchRegisterReply>(reply);
    case MetadataType::kBatchLookup: return IsOneOf<BatchLookupReply>(reply);
    case MetadataType::kBatchExists:
    case MetadataType::kBatchPin:
    case MetadataType::kBatchUnpin: return IsOneOf<ResultsReply>(reply);
    case MetadataType::kGetStats: return IsOneOf<StatsReply>(reply);
    case MetadataType::kHeartbeat: return IsOneOf<HeartbeatReply>(reply);
    case MetadataType::kGetUsage: return IsOneOf<UsageReply>(reply);
    case MetadataType::kHandshake: return IsOneOf<HandshakeReply>(reply);
    case MetadataType::kReturnAlloc:
    case MetadataType::kDelete:
    case MetadataType::kUnpin:
    case MetadataType::kStorage:
    case MetadataType::kReportStats:
    case MetadataType::kShutdown: return IsOneOf<SuccessReply>(reply);
  }
  return false;
}

void StoreBig(std::byte* to, uint32_t value) {
  for (int i = 3; i >= 0; --i, value >>= 8) to[i] = static_cast<std::byte>(value);
}

// MESSAGE is room for a header and the payload behind it.
void FillHeader(uint8_t type, uint8_t flags, uint32_t sequence, std::vector<std::byte>* message) {
  std::byte* const to = message->data();
  to[0] = std::byte{kMetadataMagic >> 8};
  to[1] = std::byte{kMetadataMagic & 0xff};
  to[2] = std::byte{kMetadataVersion};
  to[3] = static_cast<std::byte>(type);
  to[4] = static_cast<std::byte>(flags);
  StoreBig(to + 8, sequence);
  StoreBig(to + 12, static_cast<uint32_t>(message->size() - kMetadataHeaderBytes));
}

}  // namespace

std::vector<std::byte> EncodeMetadataReply(const MetadataHeader& request,
                                           const MetadataReply& reply) {
  const bool fits =
      IsOneOf<ErrorReply>(reply) || Answers(static_cast<MetadataType>(request.type), reply);
  MARU_CHECK(fits) << "reply " << reply.index() << " to a request of type " << int{request.type};
  std::vector<std::byte> message(kMetadataHeaderBytes);
  MsgpackWriter out(&message);
  std::visit([&out](const auto& one) { Encode(out, one); }, reply);
  FillHeader(request.type | kMetadataReplyBit, request.flags, request.sequence, &message);
  return message;
}

std::vector<std::byte> EncodeHandshakeRequest(uint32_t sequence, const HandshakeRequest& request) {
  std::vector<std::byte> message(kMetadataHeaderBytes);
  MsgpackWriter out(&message);
  out.Map(PairsOf(request.client_version) + PairsOf(request.instance_id));
  PutOptional(out, "client_version", request.client_version);
  PutOptional(out, "instance_id", request.instance_id);
  FillHeader(static_cast<uint8_t>(MetadataType::kHandshake), 0, sequence, &message);
  return message;
}

std::vector<std::byte> EncodeReportStatsRequest(uint32_t sequence,
                                                const ReportStatsRequest& request) {
  std::vector<std::byte> message(kMetadataHeaderBytes);
  MsgpackWriter out(&message);
  out.Map(1);
  out.Text("entries");
  out.Array(request.entries.size());
  for (const StatsEntry& entry : request.entries) {
    out.Map(5);
    out.Text("client_id");
    out.Text(entry.client_id);
    out.Text("op_type");
    out.Text(entry.op_type);
    out.Text("result");
    out.Text(entry.result);
    out.Text("size");
    out.Number(entry.size_bytes);
    out.Text("latency_us");
    out.Real(entry.latency_us);
  }
  FillHeader(static_cast<uint8_t>(MetadataType::kReportStats), 0, sequence, &message);
  return message;
}

std::vector<std::byte> EncodeGetStatsRequest(uint32_t sequence) {
  std::vector<std::byte> message(kMetadataHeaderBytes);
  MsgpackWriter(&message).Map(0);
  FillHeader(static_cast<uint8_t>(MetadataType::kGetStats), 0, sequence, &message);
  return message;
}

}  // namespace maru::wire::compat
