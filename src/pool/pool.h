// One pool, open for serving: its regions (carved, cut, merged, recovered), its catalogue's writer
// and its clients' lease areas. Single-threaded, the server's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "catalogue/lease_areas.h"
#include "catalogue/space.h"
#include "catalogue/view.h"
#include "catalogue/writer.h"
#include "layout/geometry.h"
#include "layout/superblock.h"
#include "maru/result.h"
#include "pool/backing.h"

namespace maru::pool {

struct OpenOptions {
  uint64_t boot_id[2] = {0, 0};
  uint64_t epoch = 0;  // drawn by the caller, not 0
  // log2 of the entries of the smallest index table. A simulation makes it small, so that a few
  // keys are enough for the index to grow.
  uint32_t index_entries_log2_min = layout::kIndexEntriesLog2Unit;
};

class Pool final : public catalogue::SpaceSource {
 public:
  // Opens a pool that was initialised: recovers the region table by scanning, the catalogue (see
  // Writer::Open) and the lease areas; stores epoch and boot id, clears the clean mark.
  // A pool of an earlier boot that was not closed cleanly keeps only keys whose checksum verifies,
  // none without checksums (`boot_loss` tells how many went, a log line both numbers).
  // DataLoss names what no server leaves behind; the pool is as it was then.
  // REQUIRES: the superblock is valid for the backing; nobody else serves it.
  static Result<std::unique_ptr<Pool>> Open(std::unique_ptr<Backing> backing,
                                            const OpenOptions& options);
  ~Pool() override;

  const layout::Superblock& superblock() const;
  const catalogue::PoolView& view() const;
  catalogue::Writer& writer();
  catalogue::LeaseAreas& leases();
  const catalogue::RecoverySummary& recovery() const;
  uint64_t boot_loss() const;
  // The machine has started anew since the pool was served: no process of that time is alive.
  bool new_boot() const;
  const std::string& name() const;

  Result<Room> Carve(layout::RegionKind kind, uint64_t length_bytes) override;
  Result<Making> BeginCarve(layout::RegionKind kind, uint64_t length_bytes) override;
  Status ContinueCarve(Making* making) override;
  Room EndCarve(const Making& making) override;

  struct PageRegion {
    RegionSlot slot{0};
    RegionId id{0};
    uint64_t offset_bytes = 0, length_bytes = 0, page_bytes = 0;
    uint32_t page_count = 0;
    RecordNumber first_record{0};
  };
  // A region of pages that is being cut: it gets memory a unit at a time, so that no step of a
  // server is a long one. Its pages come in order; the first of them puts it into the region table
  // with its whole length, each further unit raises its page count. That it is to have more is in
  // this process alone: after a crash it ends with the pages that it had.
  struct Cutting {
    PageRegion region;  // what there is; nothing but page_bytes without a page
    uint32_t pages_planned = 0;
    uint64_t first_unit = 0, units = 0, units_ready = 0;
    RecordNumber first_record{0};
    uint32_t records = 0;  // numbers that are its own, from the first on

    bool over() const { return region.page_count == pages_planned; }
  };
  // wanted_bytes is rounded up to units and bounded by the largest free run, by kPagesPerRegionMax
  // and by what the catalogue must keep for the pages (room_plan.h); at least one page.
  // ResourceExhausted when nothing fits; InvalidArgument for a size that no page can have.
  Result<Cutting> BeginCut(uint64_t page_bytes, uint64_t wanted_bytes);
  // Brings in one unit, and a chunk of records when one is needed. How many pages are new: those
  // behind the former page_count. On an error, and where the record numbers behind its own are
  // another's by now, it is over with the pages that it has. REQUIRES: not over.
  Result<uint32_t> ContinueCut(Cutting* cutting);
  // Over with what it has; the units behind are free again.
  void EndCut(Cutting* cutting);
  // All of it at once, for tests and small regions; as much of it as there is memory for.
  Result<PageRegion> CutPages(uint64_t page_bytes, uint64_t wanted_bytes);
  // REQUIRES: all pages FREE or WORN. The units are free again, merged with their neighbours.
  // NotFound: no region of pages has the slot.
  Status FreePages(RegionSlot slot);
  std::vector<PageRegion> PageRegions() const;
  // Those from a slot on, `count_max` at most, by slot.
  std::vector<PageRegion> PageRegions(RegionSlot from, size_t count_max) const;

  // What a client cuts by itself. Who it is: the texts have at most 63 bytes.
  struct ClientCut {
    std::string instance_id, lease_id;
    uint64_t lease_deadline_unix_ns = 0;  // 0: no lease
    layout::RegionRoad road = layout::RegionRoad::kMetadata;
    uint64_t request_id = 0;
    uint64_t endpoint = 0;  // whose clients may use it: the seed of its namespace
  };
  struct ClientRegion {
    RegionSlot slot{0};
    RegionId id{0};
    uint64_t offset_bytes = 0, length_bytes = 0;
    ClientId owner{0};  // 0: nobody's
    ClientCut client;
    uint64_t hold_until_unix_ns = 0;
  };
  // `bytes` rounded up to units, in one piece and reserved; an owner's id that no region and no
  // client ever had. ResourceExhausted when the pool has no such room beside what the catalogue
  // must keep for keys of kExtentBytesPlanned each; InvalidArgument: 0 bytes, or a text too long.
  // It gets its memory in steps, so that no step of a server is a long one. Until it is whole this
  // process alone knows of it: after a crash its units are free.
  static constexpr uint64_t kExtentBytesPlanned = 256ull * 1024;
  struct ClientCutting {
    uint64_t first_unit = 0, units = 0, units_ready = 0;
    std::vector<uint64_t> new_units;  // that the pool had no memory for before

    bool reserved() const { return units_ready == units; }
  };
  Result<ClientCutting> BeginClientCut(uint64_t bytes, const ClientCut& client);
  // What has to be free for it, if there were so many pages less: so much in one piece, and so much
  // in all, with what is kept for the catalogue.
  struct ClientNeed {
    uint64_t piece_bytes = 0, free_bytes = 0;
  };
  ClientNeed NeedOfClientCut(uint64_t bytes, uint64_t fewer_pages = 0) const;
  // Brings in so many units at most. On an error it cannot be gone on with: what it brought in goes
  // back with UndoClientCut.
  Status ContinueClientCut(ClientCutting* cutting, uint64_t units_max);
  // Over, with a region that is published. REQUIRES: reserved. On an error its units are free.
  Result<ClientRegion> EndClientCut(const ClientCutting& cutting, const ClientCut& client);
  // Over without one: its units are free, with what memory they have.
  void GiveUpClientCut(const ClientCutting& cutting);
  // The same for a machine that is short of memory, which gets back what was new to the pool, so
  // many units at most. True: over.
  bool UndoClientCut(ClientCutting* cutting, uint64_t units_max);
  // All at once, for tests.
  Result<ClientRegion> CutForClient(uint64_t bytes, const ClientCut& client);
  // What nothing lies in, in the order of its place.
  struct FreeRun {
    uint64_t offset_bytes = 0, length_bytes = 0;
  };
  std::vector<FreeRun> FreeRuns() const;
  // REQUIRES for all four: a client-cut region has the slot; for FreeForClient, no record names it
  // but ABSENT ones.
  void EndOwner(RegionSlot slot);
  void SetLeaseDeadline(RegionSlot slot, uint64_t unix_ns);
  void SetHoldUntil(RegionSlot slot, uint64_t unix_ns);
  void FreeForClient(RegionSlot slot);
  // Leases over such regions that have lapsed, each a number but 0: the newest
  // layout::kLapsedLeases are there for the next server too, until the machine starts anew. To be
  // stored before any region of the lease has no owner.
  void RememberLapsed(uint64_t lease);
  std::vector<uint64_t> LapsedLeases() const;
  std::vector<ClientRegion> ClientRegions() const;
  // LIVE and CONDEMNED records of client-cut regions, by number: one pass over the records that no
  // region of pages has.
  std::vector<RecordNumber> Extents() const;

  // A region of either kind by its id; false: none has it.
  struct Place {
    RegionSlot slot{0};
    layout::RegionKind kind = layout::RegionKind::kNone;
    uint64_t offset_bytes = 0, length_bytes = 0;
  };
  bool FindRegion(RegionId id, Place* place) const;

  // From 1 on and at least that, stored in the root before it is returned, never repeats.
  // ResourceExhausted: all were used.
  static constexpr uint64_t kClientIdMax = 0xFFFFFFFF;
  Result<uint64_t> NextClientId(uint64_t at_least = 1);
  void StoreUseTick(uint64_t tick);
  void CloseCleanly();  // sets the clean mark; last call before destruction

  struct Usage {
    uint64_t pool_bytes = 0, head_bytes = 0, free_bytes = 0, client_cut_bytes = 0;
    uint64_t pages_bytes = 0;  // of whole regions, also while they get their memory
    uint64_t records_bytes = 0, text_bytes = 0, index_bytes = 0, lease_bytes = 0;
    uint64_t region_table_bytes = 0;  // of further tables
    uint32_t regions = 0;
  };
  Usage usage() const;

  // Region ids of this pool: [first, first + kRegionIdsPerPool).
  uint32_t region_id_base() const;
  struct Identity {
    std::string name;  // the pool's
    layout::Uuid uuid{};
    uint32_t region_id_base = 0;
  };
  // FailedPrecondition when two pools have one uuid, by which a client knows its pools again, or
  // their region ids overlap: names both and what to do.
  static Status CheckPools(std::span<const Identity> pools);

 private:
  class Impl;
  explicit Pool(std::unique_ptr<Impl> impl);
  Status Recover(const OpenOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace maru::pool
