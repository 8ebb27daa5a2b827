// The part of a check that reads records, key text and index. For check.cc alone.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "catalogue/text_slabs.h"
#include "catalogue/view.h"
#include "layout/index.h"
#include "layout/values.h"
#include "pool/check.h"
#include "pool/region_scan.h"

namespace maru::pool {

class CatalogueCheck {
 public:
  // REQUIRES: all outlive this; nobody serves the pool.
  CatalogueCheck(const catalogue::PoolView& view, const std::vector<Region>& regions,
                 VerifyBytes verify, CheckReport* report, const CheckProgress& progress);

  void Run();

 private:
  // A record with a key whose text could be read.
  struct Keyed {
    Hash128 hash;
    RecordNumber record{0};
  };
  struct Table {
    uint64_t offset_bytes = 0;
    uint64_t entries = 0;
  };
  struct Text {
    std::string_view name_space;
    std::string_view key;
    friend bool operator==(const Text&, const Text&) = default;
  };

  // Between two records: how far it is.
  void Tell();
  void CheckRegion(const Region& region);
  void CheckPage(const Region& region, uint32_t index);
  void CheckState(RecordNumber record, const layout::PageValues& page, const Region& region);
  // False: its text cannot be read.
  bool CheckKey(RecordNumber record, const layout::PageValues& page);
  void CheckBytes(RecordNumber record, const layout::PageValues& page, uint64_t page_offset);
  void CheckOtherRecords();
  void CheckExtent(RecordNumber record, const layout::PageValues& page);
  void CheckOverlaps();
  uint64_t RecordsEnd() const;
  void CheckDuplicates();
  void CheckIndex();
  void CheckClientIds();
  // REQUIRES: the descriptor is valid.
  bool InIndexRegion(layout::TableDescriptor table) const;
  void CheckEntries(const Table& table);
  bool InTable(const Table& table, const Keyed& key) const;
  layout::IndexEntry Entry(const Table& table, uint64_t slot) const;

  Text TextOf(RecordNumber record) const;
  void Offend(RecordNumber record, std::string_view what);
  void Mend(RecordNumber record, std::string_view what);

  const catalogue::PoolView& view_;
  const std::vector<Region>& regions_;
  const VerifyBytes verify_;
  CheckReport* const report_;
  const CheckProgress& progress_;
  uint64_t looked_at_ = 0;     // records
  uint64_t records_ = 0;       // in all
  catalogue::TextSlabs text_;  // judges where text may lie; carves nothing
  std::vector<Keyed> keyed_;
  std::unordered_map<uint64_t, const Region*> client_cut_;  // by slot
  struct Extent {
    uint64_t slot = 0, begin = 0, end = 0;
    RecordNumber record{0};
  };
  std::vector<Extent> extents_;  // with a key
};

}  // namespace maru::pool
