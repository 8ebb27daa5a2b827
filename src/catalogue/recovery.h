// Opening a catalogue: everything that a former server left is read, checked as bytes from outside,
// and only then changed.
//
// A record that a crash stopped inside a transition is simply what its state word says: fields and
// text of a record that is not LIVE or RETIRING mean nothing. What no crash leaves is damage.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "catalogue/index_table.h"
#include "catalogue/index_writer.h"
#include "catalogue/pool_memory.h"
#include "catalogue/record_runs.h"
#include "catalogue/region_scan.h"
#include "catalogue/text_slabs.h"
#include "catalogue/writer.h"
#include "layout/state_word.h"

namespace maru::catalogue {

class Recovery {
 public:
  // REQUIRES: all outlive this; the parts are empty.
  Recovery(PoolMemory* memory, RecordRuns* runs, TextSlabs* text, IndexWriter* index, Damage damage)
      : memory_(memory), runs_(runs), text_(text), index_(index), damage_(damage) {}

  // On an error that is damage the pool is as it was, to the byte; without room for an index, the
  // table word may name none.
  Status Run(RecoverySummary* summary);

 private:
  struct Repair {
    RecordNumber record{0};
    layout::StateWord word;
    RegionSlot slot{0};
  };

  Status ReadParts();
  Status ReadRun(const RegionExtent& region);
  Status ReadFreeRun(uint32_t first, uint32_t count);
  Status ReadExtent(RecordNumber record, const layout::PageRecord& page);
  // The client-cut region that the record names; nullptr: none.
  const RegionExtent* ClientCutOf(const layout::PageRecord& page) const;
  Status CheckOverlaps();
  Status Read(RecordNumber record, const layout::PageRecord& page, const RegionExtent& region);
  // `room_bytes`: of the page, or of the region from the extent's beginning on.
  Status CheckKeyed(const layout::PageRecord& page, uint64_t room_bytes);
  // By the rule of whoever else judges records.
  Status CheckFields(const layout::PageRecord& page) const;
  Status Offend(RecordNumber record, const std::string& what);
  void Drop(RecordNumber record, layout::StateWord word, RegionSlot slot);

  // The index in memory of this process: the last that may find damage.
  Status DraftIndex();
  // The same in the pool.
  Status BuildIndex();
  // Behind kAhead others, so that the cache misses of the table overlap.
  Status Enqueue(RecordNumber record, RegionSlot slot);
  Status AddToDraft(RecordNumber record, RegionSlot slot);
  // An extent leaves no page behind: its record becomes ABSENT.
  void DropKeyed(RecordNumber record, RegionSlot slot);
  bool SameKey(const layout::PageRecord& a, const layout::PageRecord& b) const;
  void Apply();

  PoolMemory* memory_;
  RecordRuns* runs_;
  TextSlabs* text_;
  IndexWriter* index_;
  Damage damage_;
  std::vector<RegionExtent> regions_;
  std::vector<Repair> repairs_;
  std::vector<RecordNumber> retiring_;
  std::unordered_map<RegionSlot, const RegionExtent*> client_cut_;
  std::vector<RecordNumber> extents_;    // LIVE and RETIRING, by number
  std::vector<RecordNumber> condemned_;  // extents
  struct Pending {
    RecordNumber record{0};
    RegionSlot slot{0};
  };
  static constexpr size_t kAhead = 16;
  std::array<Pending, kAhead> pending_;
  uint64_t enqueued_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> draft_slots_;
  const IndexTable::Watches nobody_;
  IndexTable draft_;
  Namespace name_space_;  // of the key looked at last: mostly that of the next one too
  RecoverySummary summary_;
};

}  // namespace maru::catalogue
