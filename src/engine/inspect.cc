#include "engine/inspect.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/audit.h"
#include "engine/lease_scan.h"
#include "engine/record_cursor.h"
#include "layout/describe.h"

namespace maru::engine {

using layout::PageState;

namespace {

std::string HexText(const layout::Uuid& uuid) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : uuid) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

// Of a page its size, of an extent its length.
uint64_t BytesOf(const Stock& stock, RecordNumber record) {
  if (!stock.IsExtent(record)) return stock.PageBytes(record);
  // Relaxed: this process wrote it.
  return stock.pool().view().Record(record)->length_bytes.load(std::memory_order_relaxed);
}

void PageCounts(const Engine::PoolCounts& counts, JsonWriter* json) {
  json->BeginObject()
      .Field("all", counts.pages)
      .Field("free", counts.free)
      .Field("quarantined", counts.quarantined)
      .Field("granted", counts.granted)
      .Field("live", counts.live)
      .Field("retiring", counts.retiring)
      .Field("condemned", counts.condemned)
      .Field("worn", counts.worn)
      .EndObject();
}

}  // namespace

Status Inspection::Inspect(const wire::InspectRequest& request, wire::InspectReply* reply) const {
  reply->next_cursor = 0;
  switch (request.topic) {
    case wire::InspectTopic::kSummary: reply->json = Summary(); return OkStatus();
    case wire::InspectTopic::kClients:
      reply->json = ClientsPage(request.cursor, &reply->next_cursor);
      return OkStatus();
    case wire::InspectTopic::kRegions:
      reply->json = RegionsPage(request.cursor, &reply->next_cursor);
      return OkStatus();
    case wire::InspectTopic::kCondemned:
      reply->json = CondemnedPage(request.cursor, &reply->next_cursor);
      return OkStatus();
  }
  return InvalidArgument("no view has the number " +
                         std::to_string(static_cast<unsigned>(request.topic)));
}

// The longest that a view's page can be: a byte of a text takes six where it is escaped.
constexpr size_t kTextMax = 6 * (layout::kLabelBytes - 1) + sizeof("\"\",");
constexpr size_t kNamespaceMax = 6 * layout::kNamespaceBytesMax + sizeof("\"\",");
constexpr size_t kNumbersMax = 800;  // of one entry, with the names of all members
constexpr size_t kPageMax = layout::kPayloadBytesMax - 64;
static_assert(Inspection::kClientsPerPage * (kNumbersMax + kTextMax + kNamespaceMax) <= kPageMax);
static_assert(Inspection::kRegionsPerPage * (kNumbersMax + 2 * kTextMax + kNamespaceMax) <=
              kPageMax);
static_assert(Inspection::kCondemnedPerPage *
                  (kNumbersMax + Inspection::kHoldersPerPage * kTextMax) <=
              kPageMax);

std::string Inspection::Summary() const {
  JsonWriter json;
  json.BeginObject()
      .Field("server_version", core_->options.server_version)
      .Field("epoch", core_->epoch)
      .Field("uptime_ms", (core_->now_ns - core_->started_ns) / 1'000'000)
      .Field("eviction", core_->options.eviction == Eviction::kNone ? "none" : "lru");
  json.Key("clients")
      .BeginObject()
      .Field("attached", core_->clients.all().size() - core_->clients.detached())
      .Field("detached", core_->clients.detached())
      .EndObject();
  json.Key("pools").BeginArray();
  for (const std::unique_ptr<Stock>& stock : core_->stocks) PoolSummary(*stock, &json);
  json.EndArray().Key("counters");
  CounterSummary(&json);
  json.EndObject();
  return json.Take();
}

void Inspection::PoolSummary(const Stock& stock, JsonWriter* json) const {
  const pool::Pool::Usage usage = stock.pool().usage();
  const catalogue::Writer::Usage catalogue = stock.writer().usage();
  const catalogue::RecoverySummary& recovery = stock.pool().recovery();
  json->BeginObject()
      .Field("name", stock.pool().name())
      .Field("uuid", HexText(stock.pool().superblock().device.uuid))
      .Field("region_id_base", stock.pool().region_id_base())
      .Field("pool_bytes", usage.pool_bytes)
      .Field("head_bytes", usage.head_bytes)
      .Field("free_bytes", usage.free_bytes)
      .Field("pages_bytes", usage.pages_bytes)
      .Field("client_cut_bytes", usage.client_cut_bytes)
      .Field("records_bytes", usage.records_bytes)
      .Field("text_bytes", usage.text_bytes)
      .Field("text_bytes_used", catalogue.text_bytes_used)
      .Field("index_bytes", usage.index_bytes)
      .Field("index_entries", catalogue.index_entries)
      .Field("index_capacity", catalogue.index_capacity)
      .Field("index_tombstones", catalogue.tombstones)
      .Field("lease_bytes", usage.lease_bytes)
      .Field("regions", usage.regions)
      .Field("client_regions", stock.client_regions().all().size())
      .Field("keys", stock.counts().live + stock.client_regions().extents())
      .Field("extents", stock.client_regions().extents())
      .Field("extent_bytes", stock.client_regions().live_bytes())
      .Field("server_heap_bytes", stock.heap_bytes() + catalogue.heap_bytes);
  json->Key("index_growing").Bool(catalogue.growing);
  json->Key("pages");
  PageCounts(stock.counts(), json);
  json->Key("page_sizes").BeginArray();
  for (size_t i = 0; i < std::min<size_t>(stock.classes().size(), kPageSizesShown); ++i) {
    const Stock::SizeClass& size_class = stock.classes()[i];
    json->BeginObject()
        .Field("page_bytes", size_class.page_bytes)
        .Field("all", size_class.pages)
        .Field("free", size_class.free_pages)
        .Field("live", size_class.live_pages)
        .EndObject();
  }
  json->EndArray();
  json->Key("recovery")
      .BeginObject()
      .Field("live", recovery.live)
      .Field("granted", recovery.granted)
      .Field("reverted", recovery.reverted)
      .Field("condemned", recovery.condemned)
      .Field("quarantined", recovery.quarantined)
      .Field("lost_with_the_boot", stock.pool().boot_loss())
      .EndObject();
  json->EndObject();
}

void Inspection::CounterSummary(JsonWriter* json) const {
  const Counters& c = core_->counters;
  json->BeginObject()
      .Field("requests", c.requests)
      .Field("errors", c.errors)
      .Field("clients_attached", c.attached)
      .Field("clients_returned", c.returned)
      .Field("clients_died", c.died)
      .Field("pages_granted", c.pages_granted)
      .Field("pages_given_back", c.pages_given_back)
      .Field("grants_refused", c.grants_refused)
      .Field("registered", c.registered)
      .Field("duplicates", c.duplicates)
      .Field("stale", c.stale)
      .Field("rejected", c.rejected)
      .Field("deleted", c.deleted)
      .Field("delete_missing", c.delete_missing)
      .Field("delete_pinned", c.delete_pinned)
      .Field("evicted", c.evicted)
      .Field("evicted_for_budget", c.evicted_for_budget)
      .Field("eviction_spared", c.eviction_spared)
      .Field("resolved", c.resolved)
      .Field("found", c.found)
      .Field("find_missed", c.find_missed)
      .Field("touches", c.touches)
      .Field("settled_kept", c.settled_kept)
      .Field("settled_live", c.settled_live)
      .Field("settled_gone", c.settled_gone)
      .Field("settled_returned", c.settled_returned)
      .Field("lease_scans", c.lease_scans)
      .Field("regions_cut", c.regions_cut)
      .Field("client_regions_cut", c.client_regions_cut)
      .Field("client_regions_refused", c.client_regions_refused)
      .Field("client_regions_ended", c.client_regions_ended)
      .Field("extents_registered", c.extents_registered)
      .Field("extents_refused", c.extents_refused)
      .Field("extents_overwritten", c.extents_overwritten)
      .Field("overwritten_while_held", c.overwritten_while_held)
      .Field("regions_freed", c.regions_freed)
      .Field("pages_recalled", c.recalled)
      .EndObject();
}

std::string Inspection::ClientsPage(uint64_t cursor, uint64_t* next) const {
  // By id, then slot: the order does not change when clients come and go. The cursor names the last
  // one shown.
  const auto place = [](const Client& client) {
    return uint64_t{client.id.value()} << 16 | client.slot.value();
  };
  std::vector<const Client*> shown;
  for (const std::unique_ptr<Client>& client : core_->clients.all()) {
    if (place(*client) > cursor || cursor == 0) shown.push_back(client.get());
  }
  std::sort(shown.begin(), shown.end(),
            [&place](const Client* a, const Client* b) { return place(*a) < place(*b); });
  if (shown.size() > kClientsPerPage) {
    shown.resize(kClientsPerPage);
    *next = place(*shown.back());
  }
  JsonWriter json;
  json.BeginArray();
  for (const Client* const client : shown) ClientEntry(*client, &json);
  json.EndArray();
  return json.Take();
}

void Inspection::ClientEntry(const Client& client, JsonWriter* json) const {
  catalogue::LeaseAreas::Counts sum;
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    if (!client.pools[stock->index().value()].present) continue;
    const auto counts = stock->pool().leases().ReadCounts(client.slot);
    sum.leases += counts.leases;
    sum.pins += counts.pins;
    sum.free_pages += counts.free_pages;
    sum.pending_pages += counts.pending_pages;
    sum.held_pages += counts.held_pages;
    sum.last_request = std::max(sum.last_request, counts.last_request);
  }
  json->BeginObject()
      .Field("id", client.id.value())
      .Field("slot", client.slot.value())
      .Field("label", client.label)
      .Field("namespace", client.name_space.text())
      .Field("pid", client.peer.pid)
      .Field("uid", client.peer.uid)
      .Field("state", client.connection.has_value() ? "attached" : "detached")
      .Field("attached_unix_ns", client.attached_unix_ns)
      .Field("budget_bytes", client.budget_bytes)
      .Field("granted_pages", client.granted_pages())
      .Field("granted_bytes", client.granted_bytes)
      .Field("live_pages", client.live_pages)
      .Field("live_bytes", client.live_bytes)
      .Field("leases", sum.leases)
      .Field("pins", sum.pins);
  json->Key("published")
      .BeginObject()
      .Field("free_pages", sum.free_pages)
      .Field("pending_pages", sum.pending_pages)
      .Field("held_pages", sum.held_pages)
      .Field("last_request", sum.last_request)
      .EndObject();
  json->EndObject();
}

void Inspection::PageRegion(const Stock& stock, const pool::Pool::PageRegion& region,
                            JsonWriter* json) const {
  json->BeginObject()
      .Field("pool", stock.index().value())
      .Field("kind", "pages")
      .Field("region_id", region.id.value())
      .Field("offset_bytes", region.offset_bytes)
      .Field("length_bytes", region.length_bytes)
      .Field("page_bytes", region.page_bytes)
      .Field("first_record", region.first_record.value());
  json->Key("pages");
  PageCounts(CountPages(stock, region), json);
  json->EndObject();
}

// Its extents stand where the pages of other regions do.
void Inspection::ClientRegion(const Stock& stock, const ClientRegions::Region& region,
                              JsonWriter* json) const {
  const pool::Pool::ClientRegion& cut = region.cut;
  json->BeginObject()
      .Field("pool", stock.index().value())
      .Field("kind", "client-cut")
      .Field("region_id", cut.id.value())
      .Field("offset_bytes", cut.offset_bytes)
      .Field("length_bytes", cut.length_bytes)
      .Field("page_bytes", uint64_t{0})
      .Field("road", layout::RegionRoadName(cut.client.road))
      .Field("instance_id", cut.client.instance_id)
      .Field("lease_id", cut.client.lease_id)
      .Field("namespace", core_->endpoint_names.Of(cut.client.endpoint))
      .Field("lease_deadline_unix_ns", cut.client.lease_deadline_unix_ns)
      .Field("hold_until_unix_ns", cut.hold_until_unix_ns)
      .Field("live_bytes", region.live_bytes);
  json->Key("owned").Bool(region.owned());
  json->Key("pages");
  PageCounts({.pages = region.extents.size() + region.condemned,
              .live = region.extents.size(),
              .condemned = region.condemned},
             json);
  json->EndObject();
}

// A cursor names the pool, and the slot of its table to go on with; client-cut regions stand behind
// those of pages.
std::string Inspection::RegionsPage(uint64_t cursor, uint64_t* next) const {
  constexpr uint64_t kClientCut = 1u << 31;
  static_assert(layout::kRegionSlotsMax < kClientCut);
  JsonWriter json;
  json.BeginArray();
  uint32_t shown = 0;
  uint64_t records = 0;
  uint64_t pool = cursor >> 32, place = cursor & 0xFFFFFFFF;
  const auto full = [&] {
    if (shown < kRegionsPerPage && records < kRecordsPerStep) return false;
    *next = pool << 32 | place;
    return true;
  };
  for (; pool < core_->stocks.size() && *next == 0; ++pool, place = 0) {
    const Stock& stock = *core_->stocks[pool];
    if (place < kClientCut) {
      const RegionSlot from(static_cast<uint32_t>(place));
      for (const auto& region : stock.pool().PageRegions(from, kRegionsPerPage)) {
        place = region.slot.value();
        if (full()) break;
        ++shown;
        records += region.page_count;
        PageRegion(stock, region, &json);
        ++place;
      }
      // Those of pages may go on, or be through to the last.
      if (*next == 0 && full()) break;
      if (*next == 0) place = kClientCut;
    }
    const auto& cut = stock.client_regions().all();
    auto at = cut.lower_bound(RegionSlot(static_cast<uint32_t>(place & (kClientCut - 1))));
    for (; *next == 0 && at != cut.end(); ++at) {
      place = kClientCut | at->first.value();
      if (full()) break;
      ++shown;
      ClientRegion(stock, *at->second, &json);
    }
  }
  json.EndArray();
  return json.Take();
}

std::string Inspection::CondemnedPage(uint64_t cursor, uint64_t* next) const {
  std::vector<wire::PageRef> pages;
  RecordCursor at(*core_, cursor, kRecordsPerStep);
  wire::PageRef page;
  while (pages.size() < kCondemnedPerPage && at.Next(PageState::kCondemned, &page)) {
    pages.push_back(page);
  }
  *next = at.cursor();

  JsonWriter json;
  json.BeginArray();
  for (const std::unique_ptr<Stock>& stock : core_->stocks) {
    LeaseScan wanted(pages.size());
    std::vector<wire::PageRef> here;
    for (const wire::PageRef& condemned : pages) {
      if (condemned.pool != stock->index()) continue;
      wanted.Add(condemned.record, condemned.generation);
      here.push_back(condemned);
    }
    if (here.empty()) continue;
    std::vector<std::vector<std::string>> holders(here.size());
    stock->pool().leases().Scan([&](ClientSlot slot, layout::SlotWord word) {
      const int64_t index = wanted.IndexOf(word.record());
      if (index < 0 || here[index].generation != word.generation()) return;
      const Client* const client = core_->clients.BySlot(stock->index(), slot);
      if (client == nullptr || holders[index].size() >= kHoldersPerPage) return;
      holders[index].push_back(client->label);
    });
    for (size_t i = 0; i < here.size(); ++i) {
      json.BeginObject()
          .Field("pool", here[i].pool.value())
          .Field("record", here[i].record.value())
          .Field("generation", here[i].generation.value())
          .Field("page_bytes", BytesOf(*stock, here[i].record));
      json.Key("on_hold").Bool(core_->OnHold(*stock, here[i].record));
      json.Key("holders").BeginArray();
      for (const std::string& label : holders[i]) json.Text(label);
      json.EndArray().EndObject();
    }
  }
  json.EndArray();
  return json.Take();
}

}  // namespace maru::engine
