#include "engine/metadata.h"

#include <array>
#include <utility>

#include "base/check.h"
#include "engine/handles.h"
#include "engine/record_name.h"

namespace maru::engine {

namespace compat = wire::compat;
using compat::MetadataReply;
using compat::MetadataType;

namespace {

MetadataReply Misfit(MetadataType type) {
  return compat::ErrorReply{"no request of type " + std::to_string(static_cast<unsigned>(type)) +
                            " looks like this"};
}

MetadataReply NotLent(const Status& why) {
  return compat::AllocReply{std::nullopt, "Allocation failed: " + std::string(why.message())};
}

MetadataReply RegisterReplyOf(MetadataType type, std::vector<bool> is_new) {
  if (type == MetadataType::kRegister) return compat::RegisterReply{true, is_new.front()};
  return compat::BatchRegisterReply{true, std::move(is_new)};
}

}  // namespace

MetadataReply Metadata::Answer(const MetadataContext& context, MetadataType type,
                               const compat::MetadataRequest& request) {
  MetadataReply reply;
  const uint64_t number = Begin(context, type, request, &reply);
  if (number == 0) return reply;
  while (true) {
    std::optional<MetadataReply> done = GoOn(number);
    if (done.has_value()) return *std::move(done);
  }
}

MetadataReply Metadata::InOneStep(const MetadataContext& context, MetadataType type,
                                  const compat::MetadataRequest& request) {
  if (const auto* back = std::get_if<compat::ReturnAllocRequest>(&request))
    return Return(context, *back);
  if (const auto* list = std::get_if<compat::ListAllocationsRequest>(&request))
    return List(context, *list);
  if (const auto* keys = std::get_if<compat::KeysRequest>(&request)) {
    return Keys(context.name_space, type, *keys);
  }
  if (const auto* beat = std::get_if<compat::HeartbeatRequest>(&request))
    return Heartbeat(context, *beat);
  if (const auto* report = std::get_if<compat::ReportStatsRequest>(&request)) {
    StatsBook& book = core_->stats_books.Of(context.endpoint());
    for (const compat::StatsEntry& entry : report->entries) book.Add(entry);
    return compat::SuccessReply{true, ""};
  }
  if (std::holds_alternative<compat::HandshakeRequest>(request)) return Handshake(context);
  if (std::holds_alternative<compat::PlainRequest>(request)) return Plain(context, type);
  return Misfit(type);
}

// --- Regions.

Result<uint64_t> Metadata::AskRegion(const MetadataContext& context,
                                     const compat::AllocRequest& request) {
  const uint64_t lease_ns = LeaseNs(context);
  return lending_->Ask(request.size_bytes,
                       {.instance_id = RecordName(request.instance_id),
                        .lease_id = lease_ns == 0 ? std::string() : RecordName(request.lease_id),
                        .endpoint = context.endpoint()},
                       context.pool_paths, lease_ns);
}

uint64_t Metadata::Begin(const MetadataContext& context, MetadataType type,
                         const compat::MetadataRequest& request, MetadataReply* reply) {
  ++core_->counters.requests;
  if (const auto* entries = std::get_if<compat::RegisterRequest>(&request)) {
    return BeginRegister(context.name_space, type, *entries, reply);
  }
  const auto* const alloc = std::get_if<compat::AllocRequest>(&request);
  if (alloc == nullptr) {
    *reply = InOneStep(context, type, request);
    return 0;
  }
  const Result<uint64_t> asked = AskRegion(context, *alloc);
  if (!asked.ok()) {
    *reply = NotLent(asked.status());
    return 0;
  }
  std::optional<MetadataReply> done = GoOn(*asked);  // a small one is there at once
  if (!done.has_value()) return *asked;
  *reply = *std::move(done);
  return 0;
}

std::optional<MetadataReply> Metadata::GoOn(uint64_t number) {
  const auto registering = core_->asked_registers.find(number);
  if (registering != core_->asked_registers.end()) return GoOnRegister(registering);
  const std::optional<Result<Lending::Lent>> lent = lending_->GoOn(number);
  if (!lent.has_value()) return std::nullopt;
  if (!lent->ok()) return NotLent(lent->status());
  const pool::Pool::ClientRegion& cut = (*lent)->region->cut;
  return compat::AllocReply{MakeHandle(*core_, cut.id, cut.offset_bytes, cut.length_bytes), ""};
}

void Metadata::GiveUp(uint64_t number) {
  if (core_->asked_registers.erase(number) == 0) lending_->GiveUp(number);
}

void Metadata::Undelivered(const MetadataReply& reply) {
  const auto* const alloc = std::get_if<compat::AllocReply>(&reply);
  if (alloc == nullptr || !alloc->handle.has_value()) return;
  const Lending::Lent lent = lending_->Find(alloc->handle->region_id);
  if (lent.region == nullptr || !lent.region->owned()) return;
  const pool::Pool::ClientCut client = lent.region->cut.client;  // the region may be gone then
  const Status returned =
      lending_->Return(alloc->handle->region_id, client.instance_id, client.endpoint);
  MARU_CHECK(returned.ok()) << returned.message();
}

MetadataReply Metadata::Return(const MetadataContext& context,
                               const compat::ReturnAllocRequest& request) {
  const Status returned =
      lending_->Return(request.region_id, RecordName(request.instance_id), context.endpoint());
  return compat::SuccessReply{returned.ok(), std::string(returned.message())};
}

MetadataReply Metadata::List(const MetadataContext& context,
                             const compat::ListAllocationsRequest& request) const {
  compat::AllocationsReply reply;
  const std::string excluded_id = RecordName(request.exclude_instance_id);
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (!context.Uses(stock->pool().name())) continue;
    for (const auto& [slot, region] : stock->client_regions().all()) {
      if (reply.allocations.size() >= kAllocationsMax) return reply;
      const pool::Pool::ClientRegion& cut = region->cut;
      if (!region->owned() || cut.client.road != layout::RegionRoad::kMetadata) continue;
      if (!region->Serves(context.endpoint())) continue;
      const bool excluded = !excluded_id.empty() && cut.client.instance_id == excluded_id;
      if (excluded) continue;
      reply.allocations.push_back(MakeHandle(*core_, cut.id, cut.offset_bytes, cut.length_bytes));
    }
  }
  return reply;
}

// --- Keys.

uint64_t Metadata::BeginRegister(const catalogue::Namespace& name_space, MetadataType type,
                                 const compat::RegisterRequest& request, MetadataReply* reply) {
  const bool fits = type == MetadataType::kBatchRegister ||
                    (type == MetadataType::kRegister && request.entries.size() == 1);
  if (!fits) {
    *reply = Misfit(type);
    return 0;
  }
  std::vector<bool> is_new;
  is_new.reserve(request.entries.size());
  const Extents::StepRoom room{kOverwritesFirst + request.entries.size(), kOverwriteRoundsPerStep};
  if (extents_->Register(name_space, request.entries, room, &is_new)) {
    *reply = RegisterReplyOf(type, std::move(is_new));
    return 0;
  }
  AskedRegister asked{name_space, type, {request.entries, {}}, std::move(is_new)};
  for (compat::RegisterEntry& entry : asked.request.entries) {
    entry.key = asked.request.own_texts.Keep(entry.key);
  }
  const uint64_t number = core_->asked_regions.next++;
  core_->asked_registers.emplace(number, std::move(asked));
  return number;
}

std::optional<MetadataReply> Metadata::GoOnRegister(AskedRegisters::iterator asked) {
  AskedRegister& under_way = asked->second;
  if (!extents_->Register(under_way.name_space, under_way.request.entries,
                          {kOverwritesPerStep, kOverwriteRoundsPerStep}, &under_way.is_new)) {
    return std::nullopt;
  }
  MetadataReply reply = RegisterReplyOf(under_way.type, std::move(under_way.is_new));
  core_->asked_registers.erase(asked);
  return reply;
}

MetadataReply Metadata::OneKey(const catalogue::Namespace& name_space, MetadataType type,
                               std::string_view key) {
  switch (type) {
    case MetadataType::kLookup: return compat::LookupReply{extents_->Lookup(name_space, key)};
    case MetadataType::kExists: return compat::ExistsReply{extents_->Exists(name_space, key)};
    case MetadataType::kPin: return compat::ExistsReply{extents_->Pin(name_space, key)};
    case MetadataType::kUnpin: return compat::SuccessReply{extents_->Unpin(name_space, key), ""};
    case MetadataType::kDelete: {
      const std::array keys = {key};
      const auto outcomes = retirement_->DeleteKeys(name_space, keys);
      return compat::SuccessReply{outcomes.front() == wire::DeleteOutcome::kDeleted, ""};
    }
    default: return Misfit(type);
  }
}

template <typename Body>
void Metadata::ForEach(const catalogue::Namespace& name_space,
                       std::span<const std::string_view> keys, const Body& body) {
  for (size_t i = 0; i < keys.size() + kAhead; ++i) {
    if (i < keys.size()) extents_->Prefetch(name_space, keys[i]);
    if (i >= kAhead) body(i - kAhead);
  }
}

MetadataReply Metadata::Keys(const catalogue::Namespace& name_space, MetadataType type,
                             const compat::KeysRequest& request) {
  compat::ResultsReply reply;
  reply.results.resize(request.keys.size());
  switch (type) {
    case MetadataType::kBatchLookup: {
      compat::BatchLookupReply found;
      found.entries.reserve(request.keys.size());
      ForEach(name_space, request.keys, [&](size_t i) {
        found.entries.push_back({extents_->Lookup(name_space, request.keys[i])});
      });
      return found;
    }
    case MetadataType::kBatchExists:
      ForEach(name_space, request.keys,
              [&](size_t i) { reply.results[i] = extents_->Exists(name_space, request.keys[i]); });
      return reply;
    case MetadataType::kBatchPin:
      // The keys are a prefix's: none behind the first missing one is of use.
      for (size_t i = 0; i < request.keys.size(); ++i) {
        if (!extents_->Pin(name_space, request.keys[i])) break;
        reply.results[i] = true;
      }
      return reply;
    case MetadataType::kBatchUnpin:
      ForEach(name_space, request.keys,
              [&](size_t i) { reply.results[i] = extents_->Unpin(name_space, request.keys[i]); });
      return reply;
    default:
      return request.keys.size() == 1 ? OneKey(name_space, type, request.keys.front())
                                      : Misfit(type);
  }
}

// --- The rest.

uint64_t Metadata::LeaseNs(const MetadataContext& context) const {
  return context.lease_ns.value_or(core_->options.region_lease_ns);
}

void Metadata::StartLeasesAnew(const MetadataContext& context) {
  core_->endpoint_names.Add(context.name_space.text());
  if (LeaseNs(context) == 0) return lending_->SetAside(context.endpoint());
  lending_->StartAnew(context.endpoint());
}

MetadataReply Metadata::Heartbeat(const MetadataContext& context,
                                  const compat::HeartbeatRequest& request) {
  const uint64_t lease_ns = LeaseNs(context);
  if (request.lease_id.empty() || lease_ns == 0) return compat::HeartbeatReply{};
  const auto beat = request.lease_release ? Lending::Beat::kRelease : Lending::Beat::kRenew;
  const auto state =
      lending_->Heartbeat({RecordName(request.lease_id), context.endpoint()}, beat, lease_ns);
  return compat::HeartbeatReply{static_cast<double>(lease_ns) / 1e9,
                                state == Lending::LeaseState::kLapsed};
}

MetadataReply Metadata::Plain(const MetadataContext& context, MetadataType type) const {
  switch (type) {
    case MetadataType::kGetStats: return Stats(context);
    case MetadataType::kGetUsage: return Usage(context);
    case MetadataType::kStorage:
      return compat::SuccessReply{false, "this server does not offer the capability STORAGE"};
    case MetadataType::kShutdown:
      return compat::SuccessReply{false, "this server is not stopped by its clients"};
    default: return Misfit(type);
  }
}

compat::PoolSizes Metadata::Sizes(const MetadataContext& context) const {
  compat::PoolSizes sizes;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (!context.Uses(stock->pool().name())) continue;
    const pool::Pool::Usage usage = stock->pool().usage();
    sizes.total_bytes += usage.pool_bytes;
    sizes.free_bytes += usage.free_bytes;
  }
  return sizes;
}

MetadataReply Metadata::Stats(const MetadataContext& context) const {
  compat::StatsReply reply;
  const NamespaceUse::Use use = core_->namespace_use.Of(context.name_space.text());
  reply.keys = use.keys();
  reply.keys_bytes = use.stored_bytes;
  if (const auto at = core_->region_usage.find(context.endpoint());
      at != core_->region_usage.end()) {
    reply.allocations = at->second.regions;
    reply.allocated_bytes = at->second.allocated_bytes;
    reply.active_clients = at->second.active_instances;
  }
  reply.clients = core_->stats_books.Show(context.endpoint());
  reply.pool = Sizes(context);
  return reply;
}

MetadataReply Metadata::Usage(const MetadataContext& context) const {
  compat::UsageReply reply;
  reply.pool = Sizes(context);
  const auto at = core_->region_usage.find(context.endpoint());
  if (at == core_->region_usage.end()) return reply;
  for (const auto& [name, usage] : at->second.instances) {
    if (reply.instances.size() >= kInstancesMax) break;
    reply.instances.push_back({name,
                               usage.regions,
                               usage.allocated_bytes,
                               usage.used_bytes,
                               {usage.devices.begin(), usage.devices.end()}});
  }
  return reply;
}

MetadataReply Metadata::Handshake(const MetadataContext& context) const {
  compat::HandshakeReply reply;
  reply.rm_address = context.rm_address;
  reply.server_version = core_->options.server_version;
  reply.server_epoch = core_->epoch;
  reply.local_road = context.local_road;
  return reply;
}

}  // namespace maru::engine
