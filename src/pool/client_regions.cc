// Regions that clients cut by themselves, and the records of the keys in them.
#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/log.h"
#include "base/sequence_point.h"
#include "layout/text.h"
#include "pool/pool_impl.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::RegionKind;

constexpr uint64_t kUnit = layout::kUnitBytes;

Pool::ClientRegion ClientRegionOf(const Region& region) {
  return {.slot = region.slot,
          .id = region.id,
          .offset_bytes = region.offset_bytes,
          .length_bytes = region.length_bytes,
          .owner = region.owner,
          .client = {.instance_id = region.instance_id,
                     .lease_id = region.lease_id,
                     .lease_deadline_unix_ns = region.lease_deadline_unix_ns,
                     .road = region.road,
                     .request_id = region.request_id,
                     .endpoint = region.endpoint},
          .hold_until_unix_ns = region.hold_until_unix_ns};
}

Status CheckText(std::string_view name, const std::string& text) {
  if (text.size() < layout::kLabelBytes && text.find('\0') == std::string::npos) {
    return OkStatus();
  }
  return InvalidArgument(Concat(name, " of ", text.size(), " bytes: at most ",
                                layout::kLabelBytes - 1, ", none of them zero"));
}

}  // namespace

Pool::ClientNeed Pool::NeedOfClientCut(uint64_t bytes, uint64_t fewer_pages) const {
  PoolRoom room = impl_->Room();
  const uint64_t units = bytes > layout::kPoolBytesMax ? room.units : AlignUp(bytes, kUnit) / kUnit;
  room.extents += units * kUnit / kExtentBytesPlanned;
  const uint64_t kept = KeptUnits(room, room.pages() - fewer_pages);
  return {units * kUnit, (units + kept) * kUnit};
}

Result<Pool::ClientCutting> Pool::BeginClientCut(uint64_t bytes, const ClientCut& client) {
  if (bytes == 0) return InvalidArgument("a region of 0 bytes");
  MARU_RETURN_IF_ERROR(CheckText("an instance id", client.instance_id));
  MARU_RETURN_IF_ERROR(CheckText("a lease id", client.lease_id));
  const ClientNeed need = NeedOfClientCut(bytes);
  const UnitMap& map = impl_->carver->units();
  if (need.piece_bytes > map.largest_run() * kUnit || need.free_bytes > map.free_units() * kUnit) {
    return ResourceExhausted(Concat("pool ", impl_->name, " has no room for a region of ", bytes,
                                    " bytes: ", map.free_units() * kUnit, " bytes are free, ",
                                    map.largest_run() * kUnit, " in one piece, of which ",
                                    need.free_bytes - need.piece_bytes,
                                    " are kept for the catalogue"));
  }
  const uint64_t units = need.piece_bytes / kUnit;
  MARU_ASSIGN_OR_RETURN(const Carver::Hold hold, impl_->carver->HoldBareUnits(units));
  impl_->client_units_begun += units;
  return ClientCutting{.first_unit = hold.units.first, .units = units};
}

Status Pool::ContinueClientCut(ClientCutting* cutting, uint64_t units_max) {
  for (uint64_t i = 0; i < units_max && !cutting->reserved(); ++i) {
    const uint64_t unit = cutting->first_unit + cutting->units_ready;
    MARU_ASSIGN_OR_RETURN(const bool is_new, impl_->carver->ReserveUnit(unit));
    if (is_new) cutting->new_units.push_back(unit);
    ++cutting->units_ready;
  }
  return OkStatus();
}

Result<Pool::ClientRegion> Pool::EndClientCut(const ClientCutting& cutting,
                                              const ClientCut& client) {
  MARU_CHECK(cutting.reserved());
  Carver::Hold hold{{cutting.first_unit, cutting.units}, RegionId(0)};
  const Result<uint64_t> owner = NextClientId();
  Status named = owner.status();
  if (named.ok()) named = impl_->carver->NameHold(&hold);
  if (!named.ok()) {
    GiveUpClientCut(cutting);
    return named;
  }
  Region region;
  region.kind = RegionKind::kClientCut;
  region.owner = ClientId(static_cast<uint32_t>(*owner));
  region.lease_deadline_unix_ns = client.lease_deadline_unix_ns;
  region.instance_id = client.instance_id;
  region.lease_id = client.lease_id;
  region.road = client.road;
  region.request_id = client.request_id;
  region.endpoint = client.endpoint;
  const RegionSlot slot = impl_->carver->Publish(hold, region);
  impl_->client_units_begun -= cutting.units;
  MARU_PUBLICATION_POINT("pool:client-cut");
  return ClientRegionOf(*impl_->carver->table().Find(slot));
}

void Pool::GiveUpClientCut(const ClientCutting& cutting) {
  impl_->client_units_begun -= cutting.units;
  impl_->carver->GiveUp({{cutting.first_unit, cutting.units}, RegionId(0)});
}

bool Pool::UndoClientCut(ClientCutting* cutting, uint64_t units_max) {
  for (uint64_t i = 0; i < units_max && !cutting->new_units.empty(); ++i) {
    // What cannot go back to the machine is the pool's, as if it had been there before.
    const Status status = impl_->carver->DiscardUnit(cutting->new_units.back());
    if (!status.ok()) LogWarning(status.message());
    cutting->new_units.pop_back();
  }
  if (!cutting->new_units.empty()) return false;
  GiveUpClientCut(*cutting);
  return true;
}

Result<Pool::ClientRegion> Pool::CutForClient(uint64_t bytes, const ClientCut& client) {
  MARU_ASSIGN_OR_RETURN(ClientCutting cutting, BeginClientCut(bytes, client));
  if (Status status = ContinueClientCut(&cutting, cutting.units); !status.ok()) {
    UndoClientCut(&cutting, cutting.units);
    return status;
  }
  return EndClientCut(cutting, client);
}

std::vector<Pool::FreeRun> Pool::FreeRuns() const {
  std::vector<FreeRun> runs;
  for (const UnitRun& run : impl_->carver->units().FreeRuns()) {
    runs.push_back({run.first * kUnit, run.count * kUnit});
  }
  return runs;
}

void Pool::EndOwner(RegionSlot slot) { impl_->carver->EndOwner(slot); }

void Pool::SetLeaseDeadline(RegionSlot slot, uint64_t unix_ns) {
  impl_->carver->SetLeaseDeadline(slot, unix_ns);
}

void Pool::SetHoldUntil(RegionSlot slot, uint64_t unix_ns) {
  impl_->carver->SetHoldUntil(slot, unix_ns);
}

// Loads are relaxed: only servers, one after the other, store these words.

void Pool::RememberLapsed(uint64_t lease) {
  MARU_CHECK_NE(lease, 0u);
  layout::Root& root = impl_->root();
  const uint64_t number = root.lapsed_count.load(std::memory_order_relaxed);
  // The count first: a crash in between costs a place, and none that is in use is taken twice.
  root.lapsed_count.store(number + 1, std::memory_order_release);
  MARU_PUBLICATION_POINT("pool:lapsed-count");
  root.lapsed_leases[number % layout::kLapsedLeases].store(lease, std::memory_order_release);
  MARU_PUBLICATION_POINT("pool:lapsed");
}

std::vector<uint64_t> Pool::LapsedLeases() const {
  std::vector<uint64_t> leases;
  for (const std::atomic<uint64_t>& word : impl_->root().lapsed_leases) {
    const uint64_t lease = word.load(std::memory_order_relaxed);
    if (lease != 0) leases.push_back(lease);
  }
  return leases;
}

void Pool::FreeForClient(RegionSlot slot) {
  const Region* region = impl_->carver->table().Find(slot);
  MARU_CHECK(region != nullptr && region->kind == RegionKind::kClientCut) << "region slot " << slot;
  impl_->carver->Free(slot);
}

std::vector<Pool::ClientRegion> Pool::ClientRegions() const {
  std::vector<ClientRegion> regions;
  for (const auto& [slot, region] : impl_->carver->table().regions()) {
    if (region.kind == RegionKind::kClientCut) regions.push_back(ClientRegionOf(region));
  }
  return regions;
}

std::vector<RecordNumber> Pool::Impl::Extents() const {
  std::vector<RecordNumber> extents;
  // Relaxed: only this process stores it.
  const uint64_t end = writer->view().root().record_high.load(std::memory_order_relaxed);
  const auto look = [&](uint64_t from, uint64_t to) {
    for (uint64_t number = from; number < std::min(to, end); ++number) {
      const RecordNumber record(static_cast<uint32_t>(number));
      const layout::PageState state = writer->State(record).state();
      if (state == layout::PageState::kLive || state == layout::PageState::kCondemned) {
        extents.push_back(record);
      }
    }
  };
  uint64_t next = 1;
  for (const RecordRun& run : Room().runs) {
    look(next, run.first);
    next = run.first + run.count;
  }
  look(next, end);
  return extents;
}

std::vector<RecordNumber> Pool::Extents() const { return impl_->Extents(); }

bool Pool::FindRegion(RegionId id, Place* place) const {
  const Region* region = impl_->carver->table().ById(id);
  if (region == nullptr) return false;
  *place = {region->slot, region->kind, region->offset_bytes, region->length_bytes};
  return true;
}

}  // namespace maru::pool
