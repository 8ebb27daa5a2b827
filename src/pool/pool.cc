#include "pool/pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/sequence_point.h"
#include "layout/describe.h"
#include "layout/text.h"
#include "pool/pool_impl.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::RegionKind;

constexpr uint64_t kUnit = layout::kUnitBytes;

UnitRun UnitsOf(const catalogue::SpaceSource::Making& making) {
  return {making.offset_bytes / kUnit, making.length_bytes / kUnit};
}

}  // namespace

Pool::PageRegion PagesOf(const Region& region) {
  return {.slot = region.slot,
          .id = region.id,
          .offset_bytes = region.offset_bytes,
          .length_bytes = region.length_bytes,
          .page_bytes = region.page_bytes,
          .page_count = region.page_count,
          .first_record = region.first_record};
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

const layout::Superblock& Pool::superblock() const { return impl_->superblock(); }
const catalogue::PoolView& Pool::view() const { return impl_->writer->view(); }
catalogue::Writer& Pool::writer() { return *impl_->writer; }
catalogue::LeaseAreas& Pool::leases() { return *impl_->leases; }
const catalogue::RecoverySummary& Pool::recovery() const { return impl_->recovery; }
uint64_t Pool::boot_loss() const { return impl_->boot_loss; }
bool Pool::new_boot() const { return impl_->new_boot; }
const std::string& Pool::name() const { return impl_->name; }
uint32_t Pool::region_id_base() const { return impl_->carver->table().id_base(); }

Result<Pool::Room> Pool::Carve(RegionKind kind, uint64_t length_bytes) {
  MARU_ASSIGN_OR_RETURN(const Region region, impl_->carver->Carve(kind, length_bytes));
  return Room{region.slot, region.offset_bytes, region.length_bytes};
}

Result<Pool::Making> Pool::BeginCarve(RegionKind kind, uint64_t length_bytes) {
  MARU_ASSIGN_OR_RETURN(const UnitRun run, impl_->carver->BeginCarve(length_bytes));
  return Making{kind, run.first * kUnit, run.count * kUnit};
}

Status Pool::ContinueCarve(Making* making) {
  MARU_RETURN_IF_ERROR(impl_->carver->ContinueCarve(UnitsOf(*making), making->ready_bytes / kUnit));
  making->ready_bytes += kUnit;
  return OkStatus();
}

Pool::Room Pool::EndCarve(const Making& making) {
  MARU_CHECK(making.ready());
  const Region region = impl_->carver->EndCarve(making.kind, UnitsOf(making));
  return {region.slot, region.offset_bytes, region.length_bytes};
}

PoolRoom Pool::Impl::Room() const {
  const RegionTable& table = carver->table();
  PoolRoom room;
  room.units = carver->units().units();
  room.free_units = carver->units().free_units();
  room.largest_run = carver->units().largest_run();
  room.text_bytes = table.BytesOf(RegionKind::kText);
  room.index_bytes = table.BytesOf(RegionKind::kIndex);
  room.lease_bytes = table.BytesOf(RegionKind::kLeases);
  room.record_chunks = table.BytesOf(RegionKind::kRecords) / kUnit;
  room.pages_to_come = pages_to_come;
  room.extents =
      (table.BytesOf(RegionKind::kClientCut) + client_units_begun * kUnit) / kExtentBytesPlanned;
  for (const auto& [slot, region] : table.regions()) {
    if (region.kind != RegionKind::kPages) continue;
    room.runs.push_back({region.first_record.value(), region.page_count});
  }
  std::ranges::sort(room.runs, {}, &RecordRun::first);
  return room;
}

Status Pool::FreePages(RegionSlot slot) {
  const Region* region = impl_->carver->table().Find(slot);
  if (region == nullptr || region->kind != RegionKind::kPages) {
    return NotFound(Concat("pool ", impl_->name, ": no region of pages in slot ", slot.value()));
  }
  // The records first: a crash in between leaves a region whose records recovery binds again. The
  // other way around they would be FREE in a region that is none.
  impl_->writer->ReleaseRecords(region->first_record, region->page_count);
  MARU_PUBLICATION_POINT("pool:records-released");
  impl_->carver->Free(slot);
  return OkStatus();
}

std::vector<Pool::PageRegion> Pool::PageRegions() const {
  return PageRegions(RegionSlot(0), layout::kRegionSlotsMax);
}

std::vector<Pool::PageRegion> Pool::PageRegions(RegionSlot from, size_t count_max) const {
  const std::map<RegionSlot, Region>& all = impl_->carver->table().regions();
  std::vector<PageRegion> regions;
  for (auto at = all.lower_bound(from); at != all.end() && regions.size() < count_max; ++at) {
    if (at->second.kind == RegionKind::kPages) regions.push_back(PagesOf(at->second));
  }
  return regions;
}

Result<uint64_t> Pool::NextClientId(uint64_t at_least) {
  std::atomic<uint64_t>& next = impl_->root().next_client_id;
  // Relaxed: only the server stores it.
  const uint64_t id = std::max({next.load(std::memory_order_relaxed), at_least, uint64_t{1}});
  if (id > kClientIdMax) {
    return ResourceExhausted(Concat("every client id of pool ", impl_->name,
                                    " was used: its keys can be read, but nobody can attach until "
                                    "`maru pool init --force` makes it anew"));
  }
  // Release, before the id is in any record: a crash may skip an id, never give it out twice.
  next.store(id + 1, std::memory_order_release);
  MARU_PUBLICATION_POINT("pool:client-id");
  return id;
}

void Pool::StoreUseTick(uint64_t tick) {
  // Relaxed: a clock by itself; recovery reads it after the server's end.
  impl_->root().use_tick.store(tick, std::memory_order_relaxed);
}

void Pool::CloseCleanly() {
  // The mark must not reach the disk before what it vouches for.
  Status status = impl_->backing->Flush();
  if (status.ok()) {
    impl_->root().clean.store(1, std::memory_order_release);
    MARU_PUBLICATION_POINT("pool:clean");
    status = impl_->backing->Flush();
  }
  if (!status.ok()) {
    LogWarning(Concat("pool ", impl_->name, " is not closed cleanly: ", status.message()));
  }
}

Pool::Usage Pool::usage() const {
  const RegionTable& table = impl_->carver->table();
  Usage usage;
  usage.pool_bytes = impl_->backing->bytes();
  usage.head_bytes = layout::kHeadBytes;
  usage.free_bytes = impl_->carver->units().free_units() * kUnit;
  usage.pages_bytes = table.BytesOf(RegionKind::kPages) + impl_->units_begun * kUnit;
  usage.client_cut_bytes =
      table.BytesOf(RegionKind::kClientCut) + impl_->client_units_begun * kUnit;
  usage.records_bytes = table.BytesOf(RegionKind::kRecords);
  usage.text_bytes = table.BytesOf(RegionKind::kText);
  usage.index_bytes = table.BytesOf(RegionKind::kIndex);
  usage.lease_bytes = table.BytesOf(RegionKind::kLeases);
  usage.region_table_bytes = table.BytesOf(RegionKind::kRegionTable);
  usage.regions = static_cast<uint32_t>(table.regions().size());
  return usage;
}

Status Pool::CheckPools(std::span<const Identity> pools) {
  for (size_t i = 0; i < pools.size(); ++i) {
    for (size_t j = i + 1; j < pools.size(); ++j) {
      const Identity &one = pools[i], &other = pools[j];
      const bool same_uuid = one.uuid == other.uuid;
      if (!same_uuid && one.region_id_base != other.region_id_base) continue;
      const std::string same = same_uuid ? Concat("uuid, ", layout::UuidText(one.uuid))
                                         : Concat("region ids, from ", one.region_id_base, " on");
      return FailedPrecondition(Concat("pools ", one.name, " and ", other.name, " have the same ",
                                       same, " (one may be a copy of the other): draw new ones ",
                                       "for one of them with `maru pool renumber ", other.name,
                                       "`"));
    }
  }
  return OkStatus();
}

}  // namespace maru::pool
