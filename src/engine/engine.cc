#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/attach.h"
#include "engine/audit.h"
#include "engine/audits.h"
#include "engine/core.h"
#include "engine/evict.h"
#include "engine/extents.h"
#include "engine/grant.h"
#include "engine/inspect.h"
#include "engine/lending.h"
#include "engine/metadata.h"
#include "engine/recall.h"
#include "engine/record_name.h"
#include "engine/recover.h"
#include "engine/region_release.h"
#include "engine/register.h"
#include "engine/resource_manager.h"
#include "engine/retire.h"
#include "engine/settle.h"
#include "engine/text_room.h"
#include "engine/touches.h"
#include "layout/frame.h"

namespace maru::engine {

namespace compat = wire::compat;

namespace {

// How often what nobody announces is looked at.
constexpr uint64_t kDetachedPollNs = 100'000'000;  // locks of detached clients
constexpr uint64_t kTouchDrainNs = 1'000'000'000;  // touch rings
constexpr uint64_t kTouchPauseNs = 1'000'000;      // between two bounded parts of that
constexpr uint64_t kGrowthPauseNs = 1'000'000;     // between two bounded parts of index growth
constexpr int kGrowthPartsPerTick = 16;
constexpr uint64_t kCutPauseNs = 1'000'000;  // between two units of regions of pages

}  // namespace

class Engine::Impl {
 public:
  Impl(EngineOptions options, uint32_t pools)
      : core(std::move(options), pools),
        retirement(&core),
        touches(&core),
        evictor(&core, &retirement, &touches),
        granting(&core, &retirement, &evictor),
        recall(&core),
        text_room(&core, &retirement),
        registration(&core, &evictor, &text_room, &granting),
        settlement(&core),
        attachment(&core, &settlement),
        inspection(&core),
        client_room(&core, &retirement, &evictor, &touches),
        lending(&core, &client_room),
        extents(&core, &retirement, &evictor, &text_room, &lending),
        metadata(&core, &retirement, &lending, &extents),
        resource_manager(&core, &lending),
        region_release(&core, &lending, &resource_manager),
        audits(&core) {}

  Status Handle(ConnectionId connection, const Peer& peer, const wire::Request& request,
                uint64_t request_number, wire::Reply* reply);
  uint64_t Tick();
  // Begins a step.
  void Step(uint64_t now_ns);

  Core core;
  Retirement retirement;
  Touches touches;
  Evictor evictor;
  Granting granting;
  Recall recall;
  TextRoom text_room;
  Registration registration;
  Settlement settlement;
  Attachment attachment;
  Inspection inspection;
  ClientRoom client_room;
  Lending lending;
  Extents extents;
  Metadata metadata;
  ResourceManager resource_manager;
  RegionRelease region_release;
  Audits audits;

 private:
  struct Answer;
  void StoreUseTick();

  uint64_t next_drain_ns_ = 0;
  uint64_t stored_use_tick_ = 0;
};

// One request of an attached client: each type goes to the part that answers it.
struct Engine::Impl::Answer {
  Impl* impl;
  Client* client;
  wire::Reply* reply;

  template <typename Reply>
  Reply* Make() {
    return &reply->emplace<Reply>();
  }

  Status operator()(const std::monostate&) { return InvalidArgument("an empty request"); }
  Status operator()(const wire::AttachRequest&) { return Internal("attach is answered before"); }
  Status operator()(const wire::SettleRequest& request) {
    return impl->settlement.Settle(client, request, Make<wire::SettleReply>());
  }
  Status operator()(const wire::GrantRequest& request) {
    // Who asks for pages has none that lie idle: what was wanted back from it is in use by now.
    impl->recall.Returned(client, client->recalled_pages);
    return impl->granting.Grant(client, request.page_bytes, request.count,
                                &Make<wire::GrantReply>()->pages);
  }
  Status operator()(const wire::RegisterRequest& request) {
    return impl->registration.Register(client, request, Make<wire::RegisterReply>());
  }
  Status operator()(const wire::FreeRequest& request) {
    return impl->retirement.Free(client, request, Make<wire::FreeReply>());
  }
  Status operator()(const wire::DeleteRequest& request) {
    return impl->retirement.Delete(*client, request, Make<wire::DeleteReply>());
  }
  Status operator()(const wire::GrowLeasesRequest& request) {
    return impl->attachment.GrowLeases(*client, request, Make<wire::GrowLeasesReply>());
  }
  Status operator()(const wire::InspectRequest& request) {
    return impl->inspection.Inspect(request, Make<wire::InspectReply>());
  }
  Status operator()(const wire::ListRequest& request) {
    return impl->inspection.List(*client, request, Make<wire::ListReply>());
  }
  Status operator()(const wire::PingRequest&) {
    Make<wire::PingReply>()->uptime_ms = (impl->core.now_ns - impl->core.started_ns) / 1'000'000;
    return OkStatus();
  }
  Status operator()(const wire::GiveBackRequest& request);
  Status operator()(const wire::ResolveRequest& request);
  Status operator()(const wire::FindRequest& request);
  Status operator()(const wire::AuditRequest& request) {
    return impl->audits.Ask(*client, request, Make<wire::AuditReply>());
  }
  Status operator()(const wire::UnpinRequest& request);
  Status operator()(const wire::ReleaseRequest& request) {
    impl->region_release.Release(*client, request, Make<wire::ReleaseReply>());
    return OkStatus();
  }
};

Status Engine::Impl::Answer::operator()(const wire::GiveBackRequest& request) {
  auto* const given = Make<wire::GiveBackReply>();
  for (const wire::PageRef& page : request.pages) {
    Stock* const stock = impl->core.GrantedStock(page, *client);
    if (stock == nullptr) continue;
    stock->GiveBack(page.record, client);
    ++given->returned;
  }
  impl->core.counters.pages_given_back += given->returned;
  impl->recall.Returned(client, given->returned);
  return OkStatus();
}

Status Engine::Impl::Answer::operator()(const wire::ResolveRequest& request) {
  auto* const resolved = Make<wire::ResolveReply>();
  resolved->live.reserve(request.pages.size());
  for (const wire::PageRef& page : request.pages) {
    const Stock* const stock = impl->core.StockOf(page);
    // No page is RETIRING between two steps: the reader's question waited until it was decided.
    const bool live =
        stock != nullptr && stock->State(page.record) ==
                                layout::StateWord::Make(layout::PageState::kLive, page.generation);
    resolved->live.push_back(live ? 1 : 0);
  }
  impl->core.counters.resolved += request.pages.size();
  return OkStatus();
}

Status Engine::Impl::Answer::operator()(const wire::FindRequest& request) {
  auto* const found = Make<wire::FindReply>();
  found->items.resize(request.keys.size());
  for (size_t i = 0; i < request.keys.size(); ++i) {
    Core::Hit hit;
    wire::FindReply::Item& item = found->items[i];
    item.found = catalogue::CheckKey(request.keys[i]).ok() &&
                 impl->core.Find(catalogue::MakeKeyRef(client->name_space, request.keys[i]), &hit);
    if (item.found) item.page = hit.stock->Ref(hit.record, hit.state.generation());
    ++(item.found ? impl->core.counters.found : impl->core.counters.find_missed);
  }
  return OkStatus();
}

Status Engine::Impl::Answer::operator()(const wire::UnpinRequest& request) {
  // Pins of clients are in their own lease areas and end with them. Those that came over a wire
  // that names nobody may be left behind.
  auto* const unpin = Make<wire::UnpinReply>();
  unpin->unpinned.reserve(request.keys.size());
  for (const std::string_view key : request.keys) {
    unpin->unpinned.push_back(impl->extents.UnpinAll(client->name_space, key) ? 1 : 0);
  }
  return OkStatus();
}

Status Engine::Impl::Handle(ConnectionId connection, const Peer& peer, const wire::Request& request,
                            uint64_t request_number, wire::Reply* reply) {
  ++core.counters.requests;
  Client* client = core.clients.ByConnection(connection);
  Status status;
  if (const auto* attach = std::get_if<wire::AttachRequest>(&request)) {
    status = attachment.Attach(connection, peer, *attach, &reply->emplace<wire::AttachReply>());
    client = core.clients.ByConnection(connection);
  } else if (client == nullptr) {
    status = FailedPrecondition(
        "this connection is not attached: nobody has attached on it, or its client has come back "
        "on another one");
  } else {
    status = std::visit(Answer{this, client, reply}, request);
  }
  if (client != nullptr) client->last_answered = request_number;
  if (!status.ok()) {
    ++core.counters.errors;
    reply->emplace<std::monostate>();
  }
  return status;
}

void Engine::Impl::StoreUseTick() {
  if (core.use_tick == stored_use_tick_) return;
  for (const std::unique_ptr<Stock>& stock : core.stocks) {
    stock->pool().StoreUseTick(core.use_tick);
  }
  stored_use_tick_ = core.use_tick;
}

void Engine::Impl::Step(uint64_t now_ns) {
  core.last_ns = core.now_ns;
  core.now_ns = now_ns;
  for (const std::unique_ptr<Stock>& stock : core.stocks) {
    stock->client_regions().EndHolds(core.NowUnix());
  }
  // Half as much again: a loaded machine wakes late.
  const uint64_t pause_ns = now_ns - std::min(core.last_ns, now_ns);
  if (pause_ns < kServedPollNs + kServedPollNs / 2) return;
  lending.NotServed(pause_ns);
  resource_manager.NotServed(pause_ns);
}

uint64_t Engine::Impl::Tick() {
  uint64_t next = 0;
  const auto wake = [&next](uint64_t at_ns) { next = next == 0 ? at_ns : std::min(next, at_ns); };

  attachment.BuryDead();
  audits.EndOver();
  for (const uint64_t ends_ns : {lending.EndLapsed(), resource_manager.EndGone()}) {
    if (ends_ns != 0) wake(std::min(ends_ns, core.now_ns + kServedPollNs));
  }
  if (core.clients.detached() > 0) wake(core.now_ns + kDetachedPollNs);
  for (const std::unique_ptr<Stock>& stock : core.stocks) {
    if (const uint64_t ends_ns = stock->EndQuarantines(core.now_ns)) wake(ends_ns);
    if (const uint64_t at_ns = retirement.ReapInTurn(stock.get())) wake(at_ns);
    for (const uint64_t unix_ns :
         {stock->EndHolds(core.NowUnix()), stock->client_regions().EndHolds(core.NowUnix())}) {
      if (unix_ns != 0) wake(core.now_ns + (unix_ns - std::min(unix_ns, core.NowUnix())));
    }
    bool more = true;
    for (int part = 0; more && part < kGrowthPartsPerTick; ++part) {
      more = stock->writer().AdvanceGrowth();
      if (stock->writer().carving()) break;
    }
    if (more) wake(core.now_ns + kGrowthPauseNs);
    // One that brings memory in is enough.
    if (stock->writer().carving() || stock->CutAnyUnit()) wake(core.now_ns + kCutPauseNs);
  }
  if (text_room.GoOn()) wake(core.now_ns + kGrowthPauseNs);
  if (core.now_ns >= next_drain_ns_) {
    const bool more = touches.DrainRound() == Touches::Left::kSome;
    next_drain_ns_ = core.now_ns + (more ? kTouchPauseNs : kTouchDrainNs);
  }
  StoreUseTick();
  if (!core.clients.all().empty()) wake(next_drain_ns_);
  return next;
}

// --- The engine itself.

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::Create(EngineOptions options,
                                               std::vector<pool::Pool*> pools, Liveness* liveness,
                                               uint64_t epoch, uint64_t now_ns,
                                               uint64_t now_unix_ns) {
  MARU_CHECK(!pools.empty() && pools.size() <= layout::kPoolsMax);
  const uint64_t quarantine_ns = options.quarantine_ns;
  auto impl = std::make_unique<Impl>(std::move(options), static_cast<uint32_t>(pools.size()));
  Core& core = impl->core;
  core.liveness = liveness;
  core.epoch = epoch;
  core.started_ns = core.now_ns = core.last_ns = now_ns;
  core.started_unix_ns = now_unix_ns;
  for (size_t i = 0; i < pools.size(); ++i) {
    core.stocks.push_back(std::make_unique<Stock>(
        pools[i], PoolIndex(static_cast<uint8_t>(i)),
        Stock::Shared{&core.clients, &core.region_usage, &core.namespace_use}, quarantine_ns));
  }
  Recovery(&core, &impl->retirement).Run();
  for (const auto& [name_space, use] : core.namespace_use.all()) {
    core.endpoint_names.Add(name_space);
  }
  impl->lending.TakeOver();
  impl->resource_manager.TakeOver();
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Status Engine::Handle(ConnectionId connection, const Peer& peer, const wire::Request& request,
                      uint64_t now_ns, wire::Reply* reply, uint64_t request_number) {
  impl_->Step(now_ns);
  return impl_->Handle(connection, peer, request, request_number, reply);
}

compat::MetadataReply Engine::HandleMetadata(const MetadataContext& context,
                                             compat::MetadataType type,
                                             const compat::MetadataRequest& request,
                                             uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->metadata.Answer(context, type, request);
}

uint64_t Engine::BeginMetadata(const MetadataContext& context, compat::MetadataType type,
                               const compat::MetadataRequest& request, uint64_t now_ns,
                               compat::MetadataReply* reply) {
  impl_->Step(now_ns);
  return impl_->metadata.Begin(context, type, request, reply);
}

std::optional<compat::MetadataReply> Engine::GoOnMetadata(uint64_t number, uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->metadata.GoOn(number);
}

void Engine::GiveUpMetadata(uint64_t number, uint64_t now_ns) {
  impl_->Step(now_ns);
  impl_->metadata.GiveUp(number);
}

void Engine::MetadataUndelivered(const compat::MetadataReply& reply, uint64_t now_ns) {
  impl_->Step(now_ns);
  impl_->metadata.Undelivered(reply);
}

void Engine::StartLeasesAnew(const MetadataContext& context, uint64_t now_ns) {
  impl_->Step(now_ns);
  impl_->metadata.StartLeasesAnew(context);
}

uint64_t Engine::BeginRm(ConnectionId connection, const compat::RmRequest& request, uint64_t now_ns,
                         compat::RmReply* reply) {
  impl_->Step(now_ns);
  return impl_->resource_manager.Begin(connection, request, reply);
}

std::optional<compat::RmReply> Engine::GoOnRm(uint64_t number, uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->resource_manager.GoOn(number);
}

compat::RmReply Engine::HandleRm(ConnectionId connection, const compat::RmRequest& request,
                                 uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->resource_manager.Answer(connection, request);
}

void Engine::RmDisconnected(ConnectionId connection, uint64_t now_ns) {
  impl_->Step(now_ns);
  impl_->resource_manager.Disconnected(connection);
}

size_t Engine::RmRegionsOf(std::string_view client_id) const {
  const auto& clients = impl_->core.rm_clients.clients;
  const auto client = clients.find(RecordName(client_id, ResourceManager::kClientIdBytesMax));
  return client == clients.end() ? 0 : client->second.regions.size();
}

void Engine::Disconnected(ConnectionId connection, uint64_t now_ns) {
  impl_->Step(now_ns);
  Client* const client = impl_->core.clients.ByConnection(connection);
  // A client that has come back on another connection does not mind the end of the old one.
  if (client == nullptr) return;
  impl_->audits.EndOf(*client);
  impl_->attachment.Disconnected(client);
}

uint64_t Engine::Tick(uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->Tick();
}

uint64_t Engine::RecallIdle(uint64_t page_bytes, uint64_t pages, uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->recall.Ask(page_bytes, pages);
}

uint32_t Engine::FreeIdleRegions(uint64_t kept_page_bytes, uint64_t now_ns) {
  impl_->Step(now_ns);
  uint32_t freed = 0;
  for (const std::unique_ptr<Stock>& stock : impl_->core.stocks) {
    freed += stock->FreeIdleRegions(kept_page_bytes);
  }
  impl_->core.counters.regions_freed += freed;
  return freed;
}

Engine::Trimmed Engine::TrimNamespace(std::string_view name_space, uint64_t bytes_max,
                                      uint64_t now_ns) {
  impl_->Step(now_ns);
  return impl_->evictor.TrimNamespace(name_space, bytes_max);
}

uint64_t Engine::epoch() const { return impl_->core.epoch; }

Engine::PoolCounts Engine::Count(PoolIndex pool) const {
  MARU_CHECK_LT(pool.value(), impl_->core.stocks.size());
  return CountPages(*impl_->core.stocks[pool.value()]);
}

uint64_t Engine::CountKeys(PoolIndex pool) const {
  return Count(pool).live + impl_->core.stocks[pool.value()]->client_regions().extents();
}

std::vector<std::string> Engine::Audit() const {
  AuditRun audit(&impl_->core, AuditRun::Bytes::kLeave);
  audit.RunToEnd();
  return audit.offenders();
}

}  // namespace maru::engine
