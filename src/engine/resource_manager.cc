#include "engine/resource_manager.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "engine/handles.h"

namespace maru::engine {

namespace compat = wire::compat;
using compat::RmReply;
using compat::RmStatus;

namespace {

RmReply Refused(RmStatus status, std::string why) {
  return compat::RmErrorReply{status, std::move(why)};
}

// The id as a region's record keeps it, in two texts.
pool::Pool::ClientCut Cut(std::string_view client_id, uint64_t request_id) {
  constexpr size_t kFirst = kRecordNameBytesMax;
  return {.instance_id = std::string(client_id.substr(0, kFirst)),
          .lease_id = std::string(client_id.substr(std::min(kFirst, client_id.size()))),
          .road = layout::RegionRoad::kResourceManager,
          .request_id = request_id};
}

// Two requests for so many bytes are the same, also for a server that knows the region alone.
uint64_t SubjectOf(uint64_t bytes) {
  return bytes > layout::kPoolBytesMax ? bytes : AlignUp(bytes, layout::kUnitBytes);
}

}  // namespace

std::string ResourceManager::ClientIdOf(const pool::Pool::ClientCut& cut) {
  return cut.instance_id + cut.lease_id;
}

RmReply ResourceManager::Answer(ConnectionId connection, const compat::RmRequest& request) {
  RmReply reply;
  const uint64_t number = Begin(connection, request, &reply);
  if (number == 0) return reply;
  while (true) {
    std::optional<RmReply> done = GoOn(number);
    if (done.has_value()) return *std::move(done);
  }
}

uint64_t ResourceManager::Begin(ConnectionId connection, const compat::RmRequest& request,
                                RmReply* reply) {
  MARU_CHECK_NE(connection, 0u);
  ++core_->counters.requests;
  compat::RmRequest named = request;
  const std::string client_id = RecordName(compat::ClientIdOf(request), kClientIdBytesMax);
  std::visit(
      [&](auto& each) {
        if constexpr (requires { each.client_id; }) each.client_id = client_id;
      },
      named);
  return BeginNamed(connection, named, reply);
}

uint64_t ResourceManager::BeginNamed(ConnectionId connection, const compat::RmRequest& request,
                                     RmReply* reply) {
  const std::string_view client_id = compat::ClientIdOf(request);
  if (std::string wrong = Bind(connection, client_id); !wrong.empty()) {
    *reply = Refused(RmStatus::kInvalid, std::move(wrong));
  } else if (const auto* alloc = std::get_if<compat::RmAllocRequest>(&request)) {
    return Alloc(connection, *alloc, reply);
  } else if (const auto* free = std::get_if<compat::RmFreeRequest>(&request)) {
    *reply = Free(connection, *free);
  } else if (const auto* access = std::get_if<compat::RmAccessRequest>(&request)) {
    *reply = Access(*access);
  } else if (std::holds_alternative<compat::RmStatsRequest>(request)) {
    *reply = Stats();
  } else {
    *reply = Refused(RmStatus::kInvalid, "an empty request");
  }
  return 0;
}

std::string ResourceManager::Bind(ConnectionId connection, std::string_view client_id) {
  RmClients& rm = core_->rm_clients;
  if (client_id.empty()) return "";
  if (client_id.find('\0') != std::string_view::npos) return "a client id with a zero byte";
  const auto bound = rm.bound.find(connection);
  if (bound != rm.bound.end()) {
    return bound->second == client_id ? "" : "the connection is that of " + bound->second;
  }
  if (!rm.clients.contains(client_id) && rm.clients.size() >= RmClients::kClientsMax &&
      !ForgetLongestGone()) {
    return "there are " + std::to_string(RmClients::kClientsMax) + " clients already";
  }
  rm.clients[std::string(client_id)].connections.insert(connection);
  rm.bound.emplace(connection, client_id);
  return "";
}

// Only its answers are lost: they were about regions that are gone, and freeing one of those once
// more succeeds without.
bool ResourceManager::ForgetLongestGone() {
  auto& clients = core_->rm_clients.clients;
  auto longest = clients.end();
  for (auto at = clients.begin(); at != clients.end(); ++at) {
    if (!at->second.connections.empty() || !at->second.regions.empty()) continue;
    if (longest == clients.end() || at->second.gone_since_ns < longest->second.gone_since_ns) {
      longest = at;
    }
  }
  if (longest == clients.end()) return false;
  clients.erase(longest);
  return true;
}

void ResourceManager::Disconnected(ConnectionId connection) {
  RmClients& rm = core_->rm_clients;
  const auto bound = rm.bound.find(connection);
  if (bound == rm.bound.end()) return;
  std::erase_if(rm.under_way, [&](const auto& entry) {
    if (entry.second.connection != connection) return false;
    lending_->GiveUp(entry.first);
    return true;
  });
  const auto client = rm.clients.find(bound->second);
  rm.bound.erase(bound);
  for (Answered& answered : client->second.answered) {
    if (answered.connection == connection) answered.connection = 0;
  }
  client->second.connections.erase(connection);
  for (auto& [region, left] : client->second.left) {
    if (left.others.erase(connection) > 0) continue;
    left.since_ns = core_->now_ns;  // it may have been the owner's
    left.registered = lending_->Find(region.value()).region->registered;
  }
  if (!client->second.connections.empty()) return;
  client->second.gone_since_ns = core_->now_ns;
  if (client->second.regions.empty() && client->second.answered.empty()) rm.clients.erase(client);
}

bool ResourceManager::Connected(const pool::Pool::ClientCut& cut) const {
  return !core_->rm_clients.clients.at(ClientIdOf(cut)).connections.empty();
}

void ResourceManager::Release(const Lending::Lent& lent) {
  EndRegion(&core_->rm_clients.clients.at(ClientIdOf(lent.region->cut.client)), lent);
}

void ResourceManager::EndRegion(RmClients::Client* client, const Lending::Lent& lent) {
  const RegionId id = lent.region->cut.id;
  client->regions.erase(id);
  client->left.erase(id);
  ForgetAlloc(client, id);
  lending_->End(lent);
}

void ResourceManager::Leave(RmClients::Client* client, RegionId region, const Request& request) {
  const ClientRegions::Region& lent = *lending_->Find(region.value()).region;
  RmClients::Left& left =
      client->left.try_emplace(region, RmClients::Left{core_->now_ns, lent.registered, {}})
          .first->second;
  left.others.merge(Others(*client, request));
}

uint64_t ResourceManager::EndLeft(const std::string& client_id, RmClients::Client* client) {
  uint64_t next = 0, ended = 0;
  for (auto at = client->left.begin(); at != client->left.end();) {
    const RegionId id = at->first;
    const RmClients::Left& left = at->second;
    ++at;                                                           // each end takes one out
    if (left.others.size() < client->connections.size()) continue;  // one may be the owner's
    const uint64_t over_ns = left.since_ns + core_->options.rm_gone_ns;
    if (over_ns > core_->now_ns) {
      next = next == 0 ? over_ns : std::min(next, over_ns);
      continue;
    }
    const Lending::Lent lent = lending_->Find(id.value());
    if (lent.region->registered != left.registered) {  // its process lives
      client->left.erase(id);
      continue;
    }
    EndRegion(client, lent);
    ++ended;
  }
  if (ended > 0) {
    LogWarning("client " + client_id + " of the resource manager was started again: " +
               std::to_string(ended) + " regions of before have no owner any more");
  }
  return next;
}

uint64_t ResourceManager::EndGone() {
  RmClients& rm = core_->rm_clients;
  uint64_t next = 0;
  for (auto at = rm.clients.begin(); at != rm.clients.end();) {
    RmClients::Client& client = at->second;
    const uint64_t over_ns = client.gone_since_ns + core_->options.rm_gone_ns;
    const bool there = !client.connections.empty();
    if (there || over_ns > core_->now_ns) {
      const uint64_t left_ns = EndLeft(at->first, &client);
      for (const uint64_t end_ns : {left_ns, there ? 0 : over_ns}) {
        if (end_ns != 0) next = next == 0 ? end_ns : std::min(next, end_ns);
      }
      ++at;
      continue;
    }
    if (!client.regions.empty()) {
      LogWarning("client " + at->first + " of the resource manager is gone: its " +
                 std::to_string(client.regions.size()) + " regions have no owner any more");
    }
    for (const RegionId id : client.regions) lending_->End(lending_->Find(id.value()));
    at = rm.clients.erase(at);
  }
  return next;
}

void ResourceManager::NotServed(uint64_t pause_ns) {
  for (auto& [id, client] : core_->rm_clients.clients) {
    if (client.connections.empty()) client.gone_since_ns += pause_ns;
    for (auto& [region, left] : client.left) left.since_ns += pause_ns;
  }
}

void ResourceManager::TakeOver() {
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    for (const auto& [slot, region] : stock->client_regions().all()) {
      const pool::Pool::ClientCut& cut = region->cut.client;
      if (!region->owned() || cut.road != layout::RegionRoad::kResourceManager) continue;
      RmClients::Client& client = core_->rm_clients.clients[ClientIdOf(cut)];
      client.gone_since_ns = core_->now_ns;
      client.regions.insert(region->cut.id);
      // Told to nobody: whoever had the answer may be there still, and say nothing for long.
      Remember(&client, {RmClients::Kind::kAlloc, cut.request_id, region->cut.length_bytes, 0,
                         Handed({stock.get(), region.get()}, region->cut.length_bytes)});
    }
  }
}

bool ResourceManager::IsSame(const Answered& answered, const Request& request) {
  return answered.kind == request.kind && answered.request_id == request.id &&
         answered.subject == request.subject;
}

std::set<ConnectionId> ResourceManager::Others(const RmClients::Client& client,
                                               const Request& request) {
  std::set<ConnectionId> others{request.connection};
  for (const Answered& answered : client.answered) {
    if (answered.connection != 0 && IsSame(answered, request)) others.insert(answered.connection);
  }
  return others;
}

// An id that comes again on another connection while the first is open is another process's that
// has the same name: counting from 1 like the first. On one after it, it may be either's.
const RmClients::Answered* ResourceManager::Repeated(RmClients::Client* client,
                                                     const Request& request) {
  std::vector<Answered*> closed;
  for (Answered& answered : client->answered) {
    if (!IsSame(answered, request)) continue;
    if (answered.connection == request.connection) return &answered;
    if (answered.connection == 0) closed.push_back(&answered);
  }
  Answered* const lost = Lost(*client, closed, request);
  if (lost != nullptr) lost->connection = request.connection;
  for (const Answered* const answered : closed) {
    const auto* const handed = std::get_if<compat::RmAllocReply>(&answered->reply);
    if (handed == nullptr) continue;
    const RegionId region(static_cast<uint32_t>(handed->handle.region_id));
    if (answered == lost) {
      client->left.erase(region);
    } else {
      Leave(client, region, request);
    }
  }
  return lost;
}

RmClients::Answered* ResourceManager::Lost(const RmClients::Client& client,
                                           const std::vector<Answered*>& closed,
                                           const Request& request) const {
  // That a region was freed tells no two processes of it.
  if (request.kind == RmClients::Kind::kFree) return closed.empty() ? nullptr : closed.front();
  Answered* lost = nullptr;
  for (Answered* const answered : closed) {
    const auto& handed = std::get<compat::RmAllocReply>(answered->reply);
    // Who registers there has had the answer, and asks for others.
    if (lending_->Find(handed.handle.region_id).region->used()) continue;
    if (answered->repeated_until_ns <= core_->now_ns) continue;
    if (lost != nullptr) return nullptr;  // of two processes
    lost = answered;
  }
  if (lost == nullptr) return nullptr;
  std::set<ConnectionId> others = Others(client, request);
  const auto& handed = std::get<compat::RmAllocReply>(lost->reply);
  const auto left = client.left.find(RegionId(static_cast<uint32_t>(handed.handle.region_id)));
  if (left != client.left.end()) {
    others.insert(left->second.others.begin(), left->second.others.end());
  }
  // Its process may go on over another connection.
  return others.size() < client.connections.size() ? nullptr : lost;
}

RmReply ResourceManager::Remember(RmClients::Client* client, Answered answered) {
  client->answered.push_front(std::move(answered));
  if (client->answered.size() > RmClients::kAnsweredMax) client->answered.pop_back();
  return client->answered.front().reply;
}

bool ResourceManager::IsAllocOf(const Answered& answered, RegionId region) {
  const auto* const handed = std::get_if<compat::RmAllocReply>(&answered.reply);
  return handed != nullptr && handed->handle.region_id == region.value();
}

void ResourceManager::ForgetAlloc(RmClients::Client* client, RegionId region) {
  std::erase_if(client->answered,
                [region](const Answered& answered) { return IsAllocOf(answered, region); });
}

void ResourceManager::SetArrived(RegionId region) {
  const Lending::Lent lent = lending_->Find(region.value());
  if (lent.region == nullptr || !lent.region->owned()) return;
  const pool::Pool::ClientCut& cut = lent.region->cut.client;
  if (cut.road != layout::RegionRoad::kResourceManager) return;
  auto& answers = core_->rm_clients.clients.at(ClientIdOf(cut)).answered;
  const auto answer = std::ranges::find_if(
      answers, [region](const Answered& answered) { return IsAllocOf(answered, region); });
  if (answer != answers.end()) answer->repeated_until_ns = 0;
}

uint64_t ResourceManager::Alloc(ConnectionId connection, const compat::RmAllocRequest& request,
                                RmReply* reply) {
  if (request.client_id.empty()) {
    *reply = Refused(RmStatus::kInvalid, "an allocation needs its client's id");
    return 0;
  }
  RmClients& rm = core_->rm_clients;
  RmClients::Client& client = rm.clients.find(request.client_id)->second;
  const uint64_t subject = SubjectOf(request.size_bytes);
  const Answered* const before =
      Repeated(&client, {RmClients::Kind::kAlloc, request.request_id, subject, connection});
  if (before != nullptr) {
    compat::RmAllocReply again = std::get<compat::RmAllocReply>(before->reply);
    // Of the request itself: a region's record knows only what it was rounded up to.
    again.requested_bytes = request.size_bytes;
    *reply = again;
    return 0;
  }
  std::vector<std::string> only;
  if (!request.path.empty()) only.emplace_back(request.path);
  const Result<uint64_t> asked =
      lending_->Ask(request.size_bytes, Cut(request.client_id, request.request_id), only);
  if (!asked.ok()) {
    *reply = NotLent(request.client_id, asked.status());
    return 0;
  }
  rm.under_way[*asked] = {connection, std::string(request.client_id), request.request_id,
                          request.size_bytes};
  std::optional<RmReply> done = GoOn(*asked);  // a small one is there at once
  if (!done.has_value()) return *asked;
  *reply = *std::move(done);
  return 0;
}

std::optional<RmReply> ResourceManager::GoOn(uint64_t number) {
  const std::optional<Result<Lending::Lent>> lent = lending_->GoOn(number);
  if (!lent.has_value()) return std::nullopt;
  RmClients& rm = core_->rm_clients;
  const auto node = rm.under_way.extract(number);
  const RmClients::UnderWay& asked = node.mapped();
  // A refusal changed nothing: the next try may be served.
  if (!lent->ok()) return NotLent(asked.client_id, lent->status());
  RmClients::Client& client = rm.clients.find(asked.client_id)->second;
  client.regions.insert((*lent)->region->cut.id);
  return Remember(&client,
                  {RmClients::Kind::kAlloc, asked.request_id, SubjectOf(asked.requested_bytes),
                   asked.connection, Handed(**lent, asked.requested_bytes),
                   core_->now_ns + core_->options.rm_gone_ns});
}

RmReply ResourceManager::NotLent(std::string_view client_id, const Status& why) {
  if (why.code() == StatusCode::kNotFound) {
    return compat::RmAllocReply{.status = RmStatus::kNoEntry};
  }
  const bool full = why.code() == StatusCode::kResourceExhausted;
  // A client that is refused asks again and again: one line tells.
  if (core_->now_ns >= next_refusal_log_ns_) {
    next_refusal_log_ns_ = core_->now_ns + kRefusalLogPauseNs;
    LogWarning("client " + std::string(client_id) +
               " gets no region: " + std::string(why.message()));
  }
  return compat::RmAllocReply{.status = full ? RmStatus::kNoMemory : RmStatus::kInvalid};
}

compat::RmAllocReply ResourceManager::Handed(const Lending::Lent& lent,
                                             uint64_t requested_bytes) const {
  const pool::Pool::ClientRegion& cut = lent.region->cut;
  return {.handle = MakeHandle(*core_, cut.id, cut.offset_bytes, cut.length_bytes),
          .requested_bytes = requested_bytes,
          .path = lent.stock->pool().name()};
}

RmReply ResourceManager::Free(ConnectionId connection, const compat::RmFreeRequest& request) {
  if (!Genuine(*core_, request.handle)) return Refused(RmStatus::kAccess, "invalid auth token");
  if (request.client_id.empty()) {
    return Refused(RmStatus::kInvalid, "freeing needs the client's id");
  }
  RmClients::Client& client = core_->rm_clients.clients.find(request.client_id)->second;
  const uint64_t subject = request.handle.region_id;
  const Answered* const before =
      Repeated(&client, {RmClients::Kind::kFree, request.request_id, subject, connection});
  if (before != nullptr) return before->reply;
  RmReply reply = FreeNew(&client, request);
  if (!std::holds_alternative<compat::RmFreeReply>(reply)) return reply;
  return Remember(&client,
                  {RmClients::Kind::kFree, request.request_id, subject, connection, reply});
}

RmReply ResourceManager::FreeNew(RmClients::Client* client, const compat::RmFreeRequest& request) {
  const RegionId id(static_cast<uint32_t>(request.handle.region_id));  // genuine, so 31 bits
  if (client->regions.contains(id)) {
    EndRegion(client, lending_->Find(id.value()));
    return compat::RmFreeReply{RmStatus::kOk};
  }
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    pool::Pool::Place place;
    if (!stock->pool().FindRegion(id, &place)) continue;
    const ClientRegions::Region* const region = stock->client_regions().ById(id);
    // Freed before, while its keys keep it.
    if (region != nullptr && !region->owned()) return compat::RmFreeReply{RmStatus::kOk};
    return Refused(RmStatus::kAccess, "the region is not that client's");
  }
  // It was handed out, and is gone: freed before.
  return compat::RmFreeReply{RmStatus::kOk};
}

RmReply ResourceManager::Stats() const {
  compat::RmStatsReply reply;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    const pool::Pool::Usage usage = stock->pool().usage();
    reply.pools.push_back({.path = stock->pool().name(),
                           .type = compat::RmPoolType::kFsDax,
                           .total_bytes = usage.pool_bytes,
                           .free_bytes = usage.free_bytes,
                           .align_bytes = layout::kUnitBytes});
  }
  return reply;
}

RmReply ResourceManager::Access(const compat::RmAccessRequest& request) {
  if (!Genuine(*core_, request.handle)) return Refused(RmStatus::kAccess, "invalid auth token");
  const RegionId id(static_cast<uint32_t>(request.handle.region_id));
  SetArrived(id);
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    pool::Pool::Place place;
    if (!stock->pool().FindRegion(id, &place)) continue;
    return compat::RmAccessReply{.path = stock->pool().name(),
                                 .offset_bytes = place.offset_bytes,
                                 .length_bytes = place.length_bytes};
  }
  return Refused(RmStatus::kNoEntry, "the region is gone");
}

}  // namespace maru::engine
