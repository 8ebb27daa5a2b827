// Opening a catalogue: everything that a former server left is read, checked as bytes from outside,
// and only then changed.
//
// A record that a crash stopped inside a transition is simply what its state word says: fields and
// text of a record that is not LIVE or RETIRING mean nothing. What no crash leaves is damage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

  // On an error the pool is as it was, but for room that was carved for the index.
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
  Status Read(RecordNumber record, const layout::PageRecord& page, const RegionExtent& region);
  Status CheckKeyed(const layout::PageRecord& page, const RegionExtent& region);
  Status Offend(RecordNumber record, const std::string& what);
  void Drop(RecordNumber record, layout::StateWord word, RegionSlot slot);

  Status BuildIndex();
  Status AddToIndex(RecordNumber record, RegionSlot slot);
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
  Namespace name_space_;  // of the key looked at last: mostly that of the next one too
  RecoverySummary summary_;
};

}  // namespace maru::catalogue
