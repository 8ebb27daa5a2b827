// The pages of one pool as the engine keeps them: which list each lies in, and how many there are
// of each kind. A transition of a page goes through here, so that record, list and counts change
// together; what may change when is decided above.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "catalogue/key.h"
#include "catalogue/writer.h"
#include "engine/client_regions.h"
#include "engine/clients.h"
#include "engine/engine.h"
#include "engine/namespace_use.h"
#include "engine/page_lists.h"
#include "engine/recency.h"
#include "layout/state_word.h"
#include "pool/pool.h"
#include "wire/messages.h"

namespace maru::engine {

// Is told before and after each change of what a record counts for: its state, its owner, whether a
// region has it. For counts that go on while pages change (page_census.h).
class StockWatch {
 public:
  virtual ~StockWatch() = default;
  virtual void Before(RecordNumber record) = 0;
  virtual void After(RecordNumber record) = 0;
};

class Stock {
 public:
  // Page sizes that a pool is cut into at most.
  static constexpr uint32_t kPageSizesMax = 1024;
  // Pages whose quarantine ends in one step; the rest's in the next ones.
  static constexpr uint64_t kQuarantinesEndedMax = 16 * 1024;
  static constexpr uint64_t kHoldsEndedMax = 16 * 1024;

  struct SizeClass {
    uint64_t page_bytes = 0;
    PageLists::Id free{0};
    uint64_t pages = 0, free_pages = 0, live_pages = 0;
  };

  // What all pools count in common. REQUIRES: it outlives the stocks.
  struct Shared {
    Clients* clients = nullptr;
    RegionUsages* regions = nullptr;
    NamespaceUse* namespaces = nullptr;
  };
  // REQUIRES: the pool outlives this.
  Stock(pool::Pool* pool, PoolIndex index, const Shared& shared, uint64_t quarantine_ns);

  pool::Pool& pool() const { return *pool_; }
  catalogue::Writer& writer() const { return pool_->writer(); }
  PoolIndex index() const { return index_; }

  // --- What is there.
  // False for a number from outside that no page has.
  bool Known(RecordNumber record) const;
  layout::StateWord State(RecordNumber record) const { return writer().State(record); }
  // The record is of a key in a client-cut region: in no list but when it is condemned, in no
  // count of pages, without a size class and an owner.
  bool IsExtent(RecordNumber record) const { return ClassOf(record) == kExtentClass; }
  const ClientRegions& client_regions() const { return client_regions_; }
  ClientRegions& client_regions() { return client_regions_; }
  PageLists::Id condemned_extents() const { return condemned_extents_; }
  // All that wait for their last lease alone.
  uint64_t reapable() const { return counts_.condemned - holds_.size() + extents_condemned_; }
  // Of LIVE keys, pages and extents: the bytes that were stored.
  uint64_t stored_bytes() const { return stored_bytes_ + client_regions_.live_bytes(); }
  // REQUIRES: a page was cut for the record, or it is an extent.
  ClassIndex ClassOf(RecordNumber record) const;
  uint64_t PageBytes(RecordNumber record) const { return Class(ClassOf(record)).page_bytes; }
  const SizeClass& Class(ClassIndex index) const { return classes_[index.value()]; }
  const std::vector<SizeClass>& classes() const { return classes_; }
  std::optional<ClassIndex> FindClass(uint64_t page_bytes) const;
  const Engine::PoolCounts& counts() const { return counts_; }
  const PageLists& lists() const { return lists_; }
  PageLists::Id condemned() const { return condemned_; }
  PageLists::Id on_hold() const { return on_hold_; }  // condemned pages as well
  PageLists::Id quarantined() const { return quarantined_; }
  const Recency& recency() const { return recency_; }
  // nullptr when the client that registered the key is dead.
  Client* LivingOwner(RecordNumber record) const;
  // The regions of pages by their records: the first number, and what begins there.
  struct Run {
    uint32_t count = 0;
    RegionSlot slot{0};
  };
  const std::map<uint32_t, Run>& runs() const { return runs_; }
  ClassIndex ClassOfRegion(RegionSlot slot) const { return class_of_region_[slot.value()]; }
  // The run that has the record; nullptr: it is no page's.
  const Run* RunOf(RecordNumber record) const;
  uint64_t extents_condemned() const { return extents_condemned_; }
  wire::PageRef Ref(RecordNumber record, Generation generation) const {
    return {index_, record, generation};
  }

  // --- Room for keys.
  // False: the last key that was to be stored here found no room for its text or in the index, and
  // since then neither a sixteenth of the keys has gone nor have units come free. A page here helps
  // nobody while another pool has one.
  bool KeysFit() const;
  // A client was told to store the key of that page in another pool. It comes back with the page
  // when it finds none there: as long as the page is granted to it, that is known.
  void SendElsewhere(RecordNumber record) { sent_elsewhere_.insert(record.value()); }
  bool SentElsewhere(RecordNumber record) const {
    return !sent_elsewhere_.empty() && sent_elsewhere_.contains(record.value());
  }
  // A key was registered here, but in room that others have just left for it: keys of that length
  // find no more of it than before.
  void StayWithoutRoom(uint64_t text_bytes);

  // --- Regions. Each gets memory a unit at a time (Pool::Cutting), at most one of a page size.
  // Brings in one unit of the region that is being cut for the size, or of one of wanted_bytes that
  // it begins; what pages it makes whole are free. ResourceExhausted: no room for a page, too many
  // page sizes, or no memory: the region ends with the pages that it has.
  enum class Cut : uint8_t { kBegun, kGoneOn };
  Result<Cut> CutUnit(uint64_t page_bytes, uint64_t wanted_bytes);
  // The same for whichever region is being cut. False: none is.
  bool CutAnyUnit();
  bool cutting(uint64_t page_bytes) const { return cuttings_.contains(page_bytes); }
  // Why the last region that was to be begun, or was begun, got no more memory, though the pool has
  // room; OK when that was not so.
  const Status& cut_failure() const { return cut_failure_; }
  // WORN, and in the hands of no client that lives: one whose page became so under it may still
  // write there.
  bool WornOut(RecordNumber record) const;
  // Regions whose pages are all FREE or worn out, but for those of the size to be kept: their units
  // can be cut anew, for pages of another size. The records keep their generations. How many.
  uint32_t FreeIdleRegions(uint64_t kept_page_bytes);
  // The same, but what is being cut is gone on with.
  uint32_t FreeWholeIdleRegions(uint64_t kept_page_bytes);

  // A region that a client cuts by itself; see Pool::CutForClient.
  Result<ClientRegions::Region*> CutForClient(uint64_t bytes, const pool::Pool::ClientCut& client);
  // The end of one that was cut in steps; see Pool::EndClientCut.
  Result<ClientRegions::Region*> EndClientCut(const pool::Pool::ClientCutting& cutting,
                                              const pool::Pool::ClientCut& client);
  // REQUIRES: the extent lies in the region and overlaps none that is LIVE; the key is nowhere.
  Result<RecordNumber> RegisterExtent(const ClientRegions::Region& region,
                                      const catalogue::KeyRef& key,
                                      const catalogue::Writer::ExtentBirth& birth);

  // --- Clients. A client's lists; REQUIRES for Forget: nothing is granted to it.
  void Welcome(Client* client);
  void Forget(Client* client);
  // The settlement under way has named the page, which is granted to the client; at its end what it
  // has named is granted like any other.
  void Settled(RecordNumber record, Client* client);
  void EndSettlement(Client* client);

  // --- Transitions. REQUIRES: the page is in the state they start from, and granted to the client
  // that is named.
  // The next free page of the size; false: there is none.
  bool Grant(ClassIndex size_class, Client* client, wire::PageRef* page);
  // False: the page is worn and not the client's any more.
  bool Renew(RecordNumber record, Client* client, Generation* generation);
  void GiveBack(RecordNumber record, Client* client);
  void Quarantine(RecordNumber record, Client* client, uint64_t now_ns);
  // Those whose time is over are free then, kQuarantinesEndedMax of them at most. Returns when the
  // next one's is (or was), 0: none waits.
  uint64_t EndQuarantines(uint64_t now_ns);
  // The page lies in no list until Used() names it: it cannot be evicted in the same step.
  Status Register(RecordNumber record, Client* client, const catalogue::KeyRef& key,
                  const catalogue::Writer::Birth& birth);
  // The LIVE page is the most recently used; nothing for an extent, which is never evicted.
  // REQUIRES: its last_use is the greatest yet.
  void Used(RecordNumber record);
  // Hints that Used() of the record will follow; whatever its state, of any number.
  void PrefetchUse(RecordNumber record) const;
  // Takes the LIVE page out of its list, so that it cannot be evicted until Used().
  void Hide(RecordNumber record);
  void Retire(RecordNumber record);
  void Revert(RecordNumber record);
  void Condemn(RecordNumber record);
  void Free(RecordNumber record);
  // Condemned pages that still wait lie behind those that were not looked at.
  void KeepCondemned(RecordNumber record);
  // A condemned page that is not to be looked at before: its bytes were told to a reader without
  // leases. REQUIRES: it is not on hold.
  void HoldCondemned(RecordNumber record, uint64_t until_unix_ns);
  // Those whose hold is over wait for their last lease alone, kHoldsEndedMax of them at most.
  // Returns when the next one's is (or was), 0: none is on hold.
  uint64_t EndHolds(uint64_t now_unix_ns);

  // --- At the start of a server: takes the pages over as their records say. LIVE pages are to be
  // taken over from the least recently used on. A page granted to nobody is quarantined.
  void AdoptRegion(const pool::Pool::PageRegion& region);
  void AdoptClientRegion(const pool::Pool::ClientRegion& region);
  void AdoptExtent(RecordNumber record);
  void Adopt(RecordNumber record, uint64_t now_ns);

  uint64_t heap_bytes() const { return lists_.heap_bytes() + holds_.size() * sizeof(Hold); }

  // REQUIRES: the watch ends before it or the stock does.
  void Watch(StockWatch* watch) { watches_.push_back(watch); }
  void Unwatch(StockWatch* watch) { std::erase(watches_, watch); }
  // Watching changes nothing of what a stock is.
  void WatchLists(ListWatch* watch) { lists_.Watch(watch); }
  void UnwatchLists(ListWatch* watch) { lists_.Unwatch(watch); }

 private:
  // Around a change of one record.
  class Change {
   public:
    Change(Stock* stock, RecordNumber record) : stock_(stock), record_(record) {
      for (StockWatch* const watch : stock_->watches_) watch->Before(record_);
    }
    ~Change() { stock_->Changed(record_); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    Stock* stock_;
    RecordNumber record_;
  };
  void Changed(RecordNumber record) const {
    for (StockWatch* const watch : watches_) watch->After(record);
  }

  struct Ending {  // of quarantines that began together
    uint64_t at_ns = 0;
    uint64_t pages = 0;
  };

  enum class End : uint8_t { kFront, kBack };
  void EnterFree(RecordNumber record, End end);  // or WORN, if that is what the page became
  void LeaveFree(RecordNumber record);
  void EnterGranted(RecordNumber record, Client* client);
  void LeaveGranted(RecordNumber record, Client* client);
  void EnterQuarantine(RecordNumber record, uint64_t now_ns);
  void EnterLive(RecordNumber record);
  void LeaveLive(RecordNumber record);
  void EnterLiveExtent(RecordNumber record);
  void LeaveLiveExtent(RecordNumber record);
  void EnterCondemned(RecordNumber record);
  // A class that has no pages, made one of that size, or a new one.
  ClassIndex AddClass(uint64_t page_bytes);
  // Page sizes that there are pages of, or that regions are being cut for.
  size_t SizesInUse() const;
  using Cuttings = std::map<uint64_t, pool::Pool::Cutting>;  // by page size
  // The last `pages` of the region, which is known, are new.
  void AdoptMore(const pool::Pool::PageRegion& region, uint32_t pages);
  Status ContinueCut(Cuttings::iterator cutting);
  void EndCut(Cuttings::iterator cutting);
  bool Idle(const pool::Pool::PageRegion& region) const;
  void FreeRegion(const pool::Pool::PageRegion& region);
  const layout::PageRecord& Record(RecordNumber record) const;
  ClientId RecencyOwner(RecordNumber record) const;  // 0: dead
  uint64_t Keys() const { return counts_.live + client_regions_.extents(); }

  pool::Pool* pool_;
  PoolIndex index_;
  Clients* clients_;
  NamespaceUse* namespaces_;
  uint64_t quarantine_ns_;
  PageLists lists_;
  Recency recency_;
  static constexpr ClassIndex kExtentClass{0xFFFFFFFF};
  void SetClass(RegionSlot slot, ClassIndex size_class);

  PageLists::Id condemned_, quarantined_, condemned_extents_, on_hold_;
  // Of the pages in on_hold_: until when, the earliest on top.
  using Hold = std::pair<uint64_t, RecordNumber>;
  std::priority_queue<Hold, std::vector<Hold>, std::greater<>> holds_;
  ClientRegions client_regions_;
  uint64_t extents_condemned_ = 0;
  uint64_t stored_bytes_ = 0;   // in pages
  std::deque<Ending> endings_;  // of the pages in quarantined_, in its order
  std::vector<SizeClass> classes_;
  std::map<uint64_t, ClassIndex> by_page_bytes_;
  std::vector<ClassIndex> class_of_region_;  // by region slot
  std::map<uint32_t, Run> runs_;
  Cuttings cuttings_;
  Status cut_failure_;
  // The last key that found no room, and how full the pool was.
  struct RefusedKey {
    uint64_t text_bytes = 0;
    uint64_t keys = 0;
    uint64_t free_bytes = 0;  // of units
  };
  static constexpr uint64_t kKeysGonePart = 16;
  std::optional<RefusedKey> refused_key_;
  std::unordered_set<uint32_t> sent_elsewhere_;  // records, of granted pages alone
  std::vector<StockWatch*> watches_;
  Engine::PoolCounts counts_;
};

}  // namespace maru::engine
