// The parts of an open pool. For pool.cc and its neighbours alone.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "pool/carver.h"
#include "pool/pool.h"
#include "pool/room_plan.h"

namespace maru::pool {

Pool::PageRegion PagesOf(const Region& region);

class Pool::Impl {
 public:
  explicit Impl(std::unique_ptr<Backing> pool_backing)
      : backing(std::move(pool_backing)), name(backing->name()) {}

  layout::Root& root() {
    return *reinterpret_cast<layout::Root*>(backing->base() + layout::kRootOffset);
  }
  const layout::Superblock& superblock() const {
    return *reinterpret_cast<const layout::Superblock*>(backing->base() +
                                                        layout::kSuperblockOffset);
  }
  // What the planner needs to know of the pool as it is now.
  PoolRoom Room() const;
  RegionPlan WithRoomForIndex(const PoolRoom& room, RegionPlan plan, uint64_t page_bytes);

  // The part of ContinueCut behind the memory. How many pages are new.
  Result<uint32_t> AddPages(Cutting* cutting);
  // So many pages are there from now on, of those that have memory and numbers.
  Status Publish(Cutting* cutting, uint32_t pages);
  void EndCut(Cutting* cutting);

  // Of a pool that may have lost stores: whether a LIVE page's bytes have the checksum in its
  // record. False without checksums.
  bool Verifies(const Region& region, uint32_t index) const;
  // Frees the LIVE pages that do not verify, and all extents: nobody computed a checksum of theirs.
  // How many.
  uint64_t DropUnverified();
  uint64_t DropExtents();
  // No process of an earlier boot is alive, and clients of regions hold no lock that would tell.
  // What their leases came to is forgotten with them.
  void EndOwnersOfEarlierBoot(const OpenOptions& options);
  // Ids that are in use were given out: none of them is given out again.
  void MoveClientIdsOn();
  std::vector<RecordNumber> Extents() const;

  // In the order of making: the writer and the lease areas carve through the carver.
  std::unique_ptr<Backing> backing;
  std::string name;
  std::unique_ptr<Carver> carver;
  std::unique_ptr<catalogue::Writer> writer;
  std::unique_ptr<catalogue::LeaseAreas> leases;
  catalogue::RecoverySummary recovery;
  uint64_t boot_loss = 0;
  bool new_boot = false;
  // Of regions that are being cut: pages that are planned and not there, units held for those
  // without a page.
  uint64_t pages_to_come = 0;
  uint64_t units_begun = 0;
  uint64_t client_units_begun = 0;  // of client-cut regions that are not whole
};

}  // namespace maru::pool
