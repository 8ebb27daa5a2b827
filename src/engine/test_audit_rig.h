// For tests of the audit: the engine's parts over two pools in memory, with a page in each state,
// two clients, and client-cut regions; and ways to damage any of it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/units.h"
#include "engine/audit.h"
#include "engine/core.h"
#include "layout/index.h"
#include "pool/memory_backing.h"
#include "pool/pool.h"

namespace maru::engine {

// Reaches the links of a list.
class PageListsDamage {
 public:
  static void SetNext(const PageLists& lists, RecordNumber record, RecordNumber next) {
    const_cast<PageLists&>(lists).At(record.value()).next = next.value();
  }
  static void SetPrev(const PageLists& lists, RecordNumber record, RecordNumber prev) {
    const_cast<PageLists&>(lists).At(record.value()).prev = prev.value();
  }
};

class AuditRig {
 public:
  static constexpr uint64_t kSmall = 4096, kLarge = 8192, kIdle = 512 * kKiB;

  AuditRig() : core_(EngineOptions(), 2) {
    for (uint32_t i = 0; i < 2; ++i) AddPool(i);
    first = AddClient(0);
    second = AddClient(1);
    AddPages();
    AddExtents();
  }

  Core& core() { return core_; }
  Stock& stock(size_t pool = 0) { return *core_.stocks[pool]; }
  pool::Pool& pool() { return *pools_[0]; }

  // Of pool 0. The keys "key", "yek" and "large" are the first client's, "second" is the other's.
  RecordNumber granted, free, key, other_key, large_key, second_key, quarantined, condemned;
  RecordNumber idle;  // of a region whose pages are all FREE
  RecordNumber extent, next_extent, condemned_extent;
  Client* first = nullptr;
  Client* second = nullptr;

  // What a whole audit finds, bytes too, a line each. work: of one step.
  std::string Audit(uint64_t work = 1u << 20) {
    AuditRun run(&core_, AuditRun::Bytes::kVerify);
    while (!run.Step(work)) continue;
    std::string text;
    for (const std::string& offender : run.offenders()) text += offender + "\n";
    return text;
  }

  RecordNumber Grant(Client* client, uint64_t page_bytes = kSmall, size_t pool = 0) {
    wire::PageRef page;
    if (!stock(pool).FindClass(page_bytes) ||
        stock(pool).lists().Empty(stock(pool).Class(*stock(pool).FindClass(page_bytes)).free)) {
      MARU_CHECK_OK(stock(pool).CutUnit(page_bytes, 2 * kMiB).status());
    }
    MARU_CHECK(stock(pool).Grant(*stock(pool).FindClass(page_bytes), client, &page));
    return page.record;
  }
  RecordNumber Put(Client* client, std::string_view text, uint64_t page_bytes = kSmall,
                   size_t pool = 0, uint64_t length_bytes = 100) {
    const RecordNumber record = Grant(client, page_bytes, pool);
    catalogue::PoolView::PageExtent page;
    MARU_CHECK(stock(pool).pool().view().Page(record, &page));
    const uint64_t sum =
        HashBytes64(std::span(stock(pool).pool().view().base() + page.offset_bytes, length_bytes));
    const catalogue::Writer::Birth birth{length_bytes, sum, client->id, ++core_.use_tick};
    MARU_CHECK_OK(stock(pool).Register(record, client,
                                       catalogue::MakeKeyRef(catalogue::Namespace(), text), birth));
    stock(pool).Used(record);
    return record;
  }
  void Delete(RecordNumber record) {
    stock().Retire(record);
    stock().Condemn(record);
    stock().Free(record);
  }

  // --- Damage.
  layout::PageRecord& Field(RecordNumber record) {
    return const_cast<layout::PageRecord&>(*pool().view().Record(record));
  }
  void SetState(RecordNumber record, layout::PageState state, uint16_t slot = 0) {
    const layout::StateWord word = stock().State(record);
    Field(record).state_word.store(
        layout::StateWord::Make(state, word.generation(), ClientSlot(slot)).bits());
  }
  std::byte* Bytes(RecordNumber record) {
    catalogue::PoolView::PageExtent page;
    MARU_CHECK(pool().view().Page(record, &page));
    return memories_[0]->base() + page.offset_bytes;
  }
  // A number below the end that no region has.
  RecordNumber absent() const { return absent_; }

  PageLists::Id ListOf(RecordNumber record) {
    PageLists::Id list(stock().lists().NodeAfter(record.value()));
    while (!PageLists::IsList(list.value())) {
      list = PageLists::Id(stock().lists().NodeAfter(list.value()));
    }
    return list;
  }
  // Out of its list and, but for Id(0), into another.
  void Move(RecordNumber record, PageLists::Id list) {
    auto& lists = const_cast<PageLists&>(stock().lists());
    if (lists.Linked(record)) lists.Remove(record);
    if (list.value() != 0) lists.PushBack(list, record);
  }
  void Link(RecordNumber record, RecordNumber next) {
    PageListsDamage::SetNext(stock().lists(), record, next);
  }
  void LinkBack(RecordNumber record, RecordNumber prev) {
    PageListsDamage::SetPrev(stock().lists(), record, prev);
  }

  static constexpr uint64_t Tombstone() { return layout::IndexEntry::kTombstone; }
  uint64_t EntryOf(RecordNumber record) {
    const layout::PageRecord& fields = Field(record);
    return layout::IndexEntry::Make({fields.hash_low.load(), fields.hash_high.load()}, record)
        .bits();
  }
  std::atomic<uint64_t>& SlotOf(RecordNumber record) {
    return SlotWith([record](layout::IndexEntry entry) {
      return !entry.tombstone() && entry.record() == record;
    });
  }
  // One that no probe of a key of the rig comes by: the one before it is empty as well.
  std::atomic<uint64_t>& EmptySlot() {
    bool empty_before = false;
    return SlotWith([&](layout::IndexEntry entry) {
      return std::exchange(empty_before, entry.empty()) && entry.empty();
    });
  }
  // The text and the hash of `to` become those of `from`, which is as long.
  void GiveSameKey(RecordNumber from, RecordNumber to) {
    layout::PageRecord& target = Field(to);
    target.hash_low.store(Field(from).hash_low.load());
    target.hash_high.store(Field(from).hash_high.load());
    target.text_offset.store(Field(from).text_offset.load());
  }
  void WithdrawRegion(RecordNumber record) {
    MARU_CHECK_OK(pool().FreePages(stock().RunOf(record)->slot));
  }
  ClientRegions::Region& EmptyRegion() { return *stock().client_regions().BySlot(empty_region_); }

 private:
  void AddPool(uint32_t i) {
    memories_.push_back(pool::MakeMemoryPool(64 * kMiB, layout::kFlagChecksums,
                                             (i + 1) * layout::kRegionIdsPerPool));
    auto opened = pool::Pool::Open(
        std::make_unique<pool::MemoryBacking>(memories_[i], i == 0 ? "zero" : "one"),
        {.boot_id = {1, 2}, .epoch = 1, .index_entries_log2_min = 6});
    MARU_CHECK_OK(opened.status());
    pools_.push_back(std::move(*opened));
    core_.stocks.push_back(std::make_unique<Stock>(
        pools_[i].get(), PoolIndex(static_cast<uint8_t>(i)),
        Stock::Shared{&core_.clients, &core_.region_usage, &core_.namespace_use}, 1));
  }

  Client* AddClient(uint16_t slot) {
    auto client = std::make_unique<Client>();
    client->id = ClientId(slot + 1u);
    client->slot = ClientSlot(slot);
    client->pools.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      MARU_CHECK_OK(pools_[i]->leases().AddClient(client->slot, {.id = client->id}));
      client->pools[i].present = true;
      stock(i).Welcome(client.get());
    }
    return core_.clients.Add(std::move(client));
  }

  void AddPages() {
    granted = Grant(first);
    // A region between two others goes: its numbers are no page's.
    MARU_CHECK_OK(stock().CutUnit(2 * kLarge, 2 * kMiB).status());
    const RecordNumber gone = stock().lists().Front(stock().Class(ClassIndex(1)).free);
    large_key = Put(first, "large", kLarge);
    MARU_CHECK_OK(stock().CutUnit(kIdle, 2 * kMiB).status());
    idle = stock().lists().Front(stock().Class(*stock().FindClass(kIdle)).free);
    MARU_CHECK_EQ(stock().FreeIdleRegions(kIdle), 1u);
    absent_ = RecordNumber(gone.value() + 50);
    other_key = Put(first, "yek");
    key = Put(first, "key");
    Put(first, "newer");
    second_key = Put(second, "second");
    Grant(second);
    quarantined = Grant(first);
    stock().Quarantine(quarantined, first, 0);
    condemned = Put(first, "gone");
    stock().Retire(condemned);
    stock().Condemn(condemned);
    free = stock().lists().Back(stock().Class(*stock().FindClass(kSmall)).free);
  }

  void AddExtents() {
    const auto cut = [this](const char* instance) {
      auto region = stock().CutForClient(2 * kMiB, {.instance_id = instance, .lease_id = ""});
      MARU_CHECK_OK(region.status());
      return *region;
    };
    ClientRegions::Region* const region = cut("upstream");
    const auto add = [&](const char* text, uint64_t offset) {
      auto record =
          stock().RegisterExtent(*region, catalogue::MakeKeyRef(catalogue::Namespace(), text),
                                 {.region = region->cut.slot,
                                  .offset_bytes = offset,
                                  .length_bytes = 4096,
                                  .last_use = ++core_.use_tick});
      MARU_CHECK_OK(record.status());
      return *record;
    };
    extent = add("extent", 0);
    next_extent = add("next extent", 4096);
    condemned_extent = add("gone extent", 8192);
    stock().Retire(condemned_extent);
    stock().Condemn(condemned_extent);
    empty_region_ = cut("other")->cut.slot;
  }

  template <typename Wanted>
  std::atomic<uint64_t>& SlotWith(const Wanted& wanted) {
    const layout::Root& root = pool().view().root();
    const layout::TableWord word(root.table_word.load());
    const layout::TableDescriptor table(root.tables[word.current()].load());
    auto* const slots =
        reinterpret_cast<std::atomic<uint64_t>*>(memories_[0]->base() + table.offset_bytes());
    for (uint64_t i = 0; i < uint64_t{1} << table.entries_log2(); ++i) {
      if (wanted(layout::IndexEntry(slots[i].load()))) return slots[i];
    }
    FailCheck({__FILE__, __LINE__, "a slot", "the index has none"});
  }

  std::vector<std::shared_ptr<pool::PlainMemory>> memories_;
  std::vector<std::unique_ptr<pool::Pool>> pools_;
  Core core_;
  RecordNumber absent_;
  RegionSlot empty_region_;
};

}  // namespace maru::engine
