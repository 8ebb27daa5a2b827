// Opening a pool: what was there is checked first, then recovered, then marked as being served.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/sequence_point.h"
#include "layout/text.h"
#include "pool/pool_impl.h"

namespace maru::pool {
namespace {

using catalogue::Damage;
using layout::Concat;

// A pool whose last server did not close it, on a machine that has started anew since: what had
// been stored may have reached the memory behind the pool or not, each part by itself.
bool MayHaveLostStores(const layout::Root& root, const OpenOptions& options) {
  constexpr auto kRelaxed = std::memory_order_relaxed;  // nobody serves the pool
  return root.starts.load(kRelaxed) != 0 && root.clean.load(kRelaxed) == 0 &&
         (root.boot_id[0].load(kRelaxed) != options.boot_id[0] ||
          root.boot_id[1].load(kRelaxed) != options.boot_id[1]);
}

}  // namespace

bool Pool::Impl::Verifies(const Region& region, uint32_t index) const {
  if ((superblock().flags & layout::kFlagChecksums) == 0) return false;
  const layout::PageRecord& page =
      *writer->view().Record(RecordNumber(region.first_record.value() + index));
  // Relaxed: the writer's own stores. The length was checked against the page's when it opened.
  const uint64_t length = page.length_bytes.load(std::memory_order_relaxed);
  const std::byte* bytes =
      backing->base() + region.offset_bytes + uint64_t{index} * region.page_bytes;
  return HashBytes64(std::span(bytes, length)) == page.checksum.load(std::memory_order_relaxed);
}

uint64_t Pool::Impl::DropUnverified() {
  uint64_t dropped = 0;
  for (const auto& [slot, region] : carver->table().regions()) {
    if (region.kind != layout::RegionKind::kPages) continue;
    for (uint32_t i = 0; i < region.page_count; ++i) {
      const RecordNumber record(region.first_record.value() + i);
      if (writer->State(record).state() != layout::PageState::kLive || Verifies(region, i)) {
        continue;
      }
      // No lease to wait for: no process of the boot before is alive.
      writer->Retire(record);
      writer->Condemn(record);
      writer->Free(record);
      ++dropped;
    }
  }
  return dropped + DropExtents();
}

uint64_t Pool::Impl::DropExtents() {
  uint64_t dropped = 0;
  for (const RecordNumber record : Extents()) {
    if (writer->State(record).state() == layout::PageState::kLive) {
      writer->Retire(record);
      writer->Condemn(record);
      ++dropped;
    }
    writer->FreeExtent(record);
  }
  return dropped;
}

void Pool::Impl::EndOwnersOfEarlierBoot(const OpenOptions& options) {
  constexpr auto kRelaxed = std::memory_order_relaxed;  // nobody serves the pool
  const bool same = root().boot_id[0].load(kRelaxed) == options.boot_id[0] &&
                    root().boot_id[1].load(kRelaxed) == options.boot_id[1];
  if (same || root().starts.load(kRelaxed) == 0) return;
  new_boot = true;
  for (std::atomic<uint64_t>& lease : root().lapsed_leases) {
    lease.store(0, std::memory_order_release);
  }
  std::vector<RegionSlot> owned, leased;
  for (const auto& [slot, region] : carver->table().regions()) {
    if (region.owner != ClientId(0)) owned.push_back(slot);
    if (region.lease_deadline_unix_ns != 0) leased.push_back(slot);
  }
  for (const RegionSlot slot : owned) carver->EndOwner(slot);
  for (const RegionSlot slot : leased) carver->SetLeaseDeadline(slot, 0);
}

void Pool::Impl::MoveClientIdsOn() {
  uint64_t high = recovery.owner_high;
  for (const auto& [slot, region] : carver->table().regions()) {
    high = std::max<uint64_t>(high, region.owner.value());
  }
  for (const ClientSlot slot : leases->Clients()) {
    // Relaxed: nobody serves the pool.
    high = std::max(high, leases->Record(slot).client_id.load(std::memory_order_relaxed));
  }
  // Relaxed: as NextClientId. Release: as there.
  if (root().next_client_id.load(std::memory_order_relaxed) > high) return;
  if (high > 0) root().next_client_id.store(high + 1, std::memory_order_release);
}

Result<std::unique_ptr<Pool>> Pool::Open(std::unique_ptr<Backing> backing,
                                         const OpenOptions& options) {
  MARU_CHECK(options.epoch != 0);
  layout::Superblock block;
  const Status valid = layout::ValidateSuperblock(std::span(backing->base(), layout::kRootOffset),
                                                  backing->bytes(), &block);
  if (!valid.ok()) {
    return Status(valid.code(), Concat("pool ", backing->name(), ": ", valid.message()));
  }
  auto impl = std::make_unique<Impl>(std::move(backing));
  MARU_ASSIGN_OR_RETURN(impl->carver, Carver::Open(impl->backing.get()));
  std::unique_ptr<Pool> pool(new Pool(std::move(impl)));
  const Status recovered = pool->Recover(options);
  if (!recovered.ok()) {
    const bool damaged = recovered.code() == StatusCode::kDataLoss;
    return Status(recovered.code(),
                  Concat("pool ", pool->name(), ": ", recovered.message(),
                         damaged ? "; `maru pool check` lists what is wrong, and --fresh makes "
                                   "the pool anew, without its keys"
                                 : ""));
  }
  return pool;
}

Status Pool::Recover(const OpenOptions& options) {
  Impl& impl = *impl_;
  layout::Root& root = impl.root();
  const bool lost = MayHaveLostStores(root, options);
  // The lease areas first: opening them changes no more than what a crash has left, while the
  // writer publishes a new index. So a pool that either of them refuses is as it was.
  MARU_ASSIGN_OR_RETURN(
      impl.leases, catalogue::LeaseAreas::Open(impl.backing->base(), impl.backing->bytes(), this));
  MARU_ASSIGN_OR_RETURN(
      impl.writer,
      catalogue::Writer::Open(impl.backing->base(), impl.backing->bytes(), this, &impl.recovery,
                              {.damage = lost ? Damage::kDrop : Damage::kRefuse,
                               .index_entries_log2_min = options.index_entries_log2_min}));
  MARU_RETURN_IF_ERROR(impl.carver->Mend());
  if (lost) {
    impl.boot_loss = impl.recovery.dropped + impl.DropUnverified();
    const uint64_t kept = impl.recovery.live + impl.recovery.dropped - impl.boot_loss;
    LogWarning(Concat("pool ", impl.name, " was not closed before the machine went down: kept ",
                      kept, " keys whose checksum verifies, dropped ", impl.boot_loss,
                      superblock().flags & layout::kFlagChecksums
                          ? ""
                          : " (a pool made with --checksum can keep keys)"));
  }
  impl.EndOwnersOfEarlierBoot(options);
  impl.MoveClientIdsOn();
  // The boot before the clean mark goes, and after what was lost is dropped: a crash in between
  // leaves a pool that is either clean, or drops the same again.
  for (int i = 0; i < 2; ++i) {
    root.boot_id[i].store(options.boot_id[i], std::memory_order_release);
    MARU_PUBLICATION_POINT("open:boot");
  }
  // Relaxed: only servers, one after the other, count.
  root.starts.store(root.starts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  root.clean.store(0, std::memory_order_release);
  MARU_PUBLICATION_POINT("open:unclean");
  // Release: pairs with the acquire load of clients; who sees the epoch sees a recovered pool.
  root.epoch.store(options.epoch, std::memory_order_release);
  MARU_PUBLICATION_POINT("open:epoch");
  return OkStatus();
}

}  // namespace maru::pool
