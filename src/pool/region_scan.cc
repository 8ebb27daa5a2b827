#include "pool/region_scan.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/bytes.h"
#include "layout/describe.h"
#include "layout/page_record.h"
#include "layout/text.h"
#include "layout/validate.h"
#include "layout/values.h"

namespace maru::pool {
namespace {

using layout::Concat;
using layout::RegionKind;
using layout::RegionWord;

constexpr uint64_t kUnit = layout::kUnitBytes;

// REQUIRES: validated, so there is a zero.
std::string TextOf(const uint8_t (&text)[layout::kLabelBytes]) {
  return reinterpret_cast<const char*>(text);
}

// One scan: the pool's bytes, and the result as it grows.
class Scanner {
 public:
  Scanner(const std::byte* base, uint64_t bytes)
      : base_(base),
        units_(bytes / kUnit),
        root_(layout::ReadRoot(At<layout::Root>(layout::kRootOffset))),
        id_base_(At<layout::Superblock>(layout::kSuperblockOffset).region_id_base) {}

  RegionScan Run() {
    ReadRoot();
    ReadTableDirectory();
    ReadRecordDirectory();
    ReadTable(layout::kRegionTableOffset, layout::kRegionTableEntriesFirst);
    for (const uint64_t unit : table_units_) {
      ReadTable(unit * kUnit, layout::kRegionTableEntriesUnit);
    }
    CheckSlotsHigh();
    std::ranges::sort(scan_.regions, {}, &Region::offset_bytes);
    CheckOverlaps();
    CheckRecordRuns();
    CheckIds();
    CheckNames(RegionKind::kRegionTable, table_units_, "region directory");
    CheckNames(RegionKind::kRecords, record_units_, "record directory");
    return std::move(scan_);
  }

 private:
  template <typename T>
  const T& At(uint64_t offset_bytes) const {
    return *reinterpret_cast<const T*>(base_ + offset_bytes);
  }

  template <typename... Parts>
  void Offend(const Parts&... parts) {
    if (scan_.offences.size() < RegionScan::kOffencesMax) {
      scan_.offences.push_back(Concat(parts...));
    }
    ++scan_.offence_count;
  }

  void ReadRoot() {
    const Status status = layout::ValidateRoot(root_, units_ * kUnit);
    if (!status.ok()) Offend(status.message());
  }

  // The units of the further tables: a row without gaps.
  void ReadTableDirectory() {
    const auto& directory = At<layout::RegionDirectory>(layout::kRegionDirectoryOffset);
    bool ended = false;
    for (uint32_t i = 0; i < layout::kRegionTablesMax; ++i) {
      // Acquire: pairs with the release store by which a server publishes a further table.
      const uint64_t unit = directory.units[i].load(std::memory_order_acquire);
      if (unit == 0) {
        ended = true;
      } else if (ended || unit >= units_) {
        Offend("region directory: entry ", i, " is unit ", unit,
               ended ? " after an empty one" : ", outside the pool");
        return;
      } else {
        table_units_.push_back(unit);
      }
    }
  }

  void ReadRecordDirectory() {
    const auto& directory = At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
    for (uint32_t i = 0; i < layout::kRecordChunksMax; ++i) {
      // Acquire: pairs with the release store by which a server publishes a chunk.
      const uint32_t unit = directory.units[i].load(std::memory_order_acquire);
      if (unit == 0) continue;
      if (unit >= units_) Offend("record directory: chunk ", i, " is unit ", unit, ", outside");
      if (i != record_units_.size()) Offend("record directory: chunk ", i, " follows a gap");
      record_units_.push_back(unit);
    }
    const uint64_t end = record_units_.size() * uint64_t{layout::kRecordsPerChunk};
    if (root_.record_high > end) {
      Offend("root: record_high is ", root_.record_high, ", but there is memory for those below ",
             end, " only");
    }
  }

  void ReadTable(uint64_t offset_bytes, uint32_t entries) {
    const auto* records = &At<layout::RegionRecord>(offset_bytes);
    for (uint32_t i = 0; i < entries; ++i) {
      const RegionSlot slot(static_cast<uint32_t>(scan_.cuts.size()));
      // Relaxed: a first look. ReadRegion loads the word of a record in use again, acquire.
      const RegionWord word(records[i].word.load(std::memory_order_relaxed));
      scan_.cuts.push_back(word.cut());
      if (word.kind() == RegionKind::kNone) continue;
      slots_used_ = slot.value() + 1;
      TakeRecord(slot, layout::ReadRegion(records[i]));
    }
  }

  void TakeRecord(RegionSlot slot, const layout::RegionValues& values) {
    const Status status = layout::ValidateRegionRecord(values, units_ * kUnit);
    if (!status.ok()) {
      Offend("region slot ", slot.value(), ": ", status.message());
      return;
    }
    Region region;
    region.slot = slot;
    region.kind = RegionWord(values.word).kind();
    // Freed between the two looks, by a server that is running.
    if (region.kind == RegionKind::kNone) return;
    region.offset_bytes = values.offset_bytes;
    region.length_bytes = values.length_bytes;
    region.page_bytes = values.page_bytes;
    region.page_count = layout::RegionPageCount(values.pages);
    region.first_record = RecordNumber(layout::RegionFirstRecord(values.pages));
    region.id = RegionId(static_cast<uint32_t>(values.region_id));
    region.owner = ClientId(static_cast<uint32_t>(values.owner));
    region.lease_deadline_unix_ns = values.lease_deadline_unix_ns;
    region.instance_id = TextOf(values.instance_id);
    region.lease_id = TextOf(values.lease_id);
    region.road = static_cast<layout::RegionRoad>(values.road);
    region.request_id = values.request_id;
    region.endpoint = values.endpoint;
    region.hold_until_unix_ns = values.hold_until_unix_ns;
    if (!HasRecords(region)) return;
    if (region.kind == RegionKind::kPages && region.length_bytes > region.filled_bytes()) {
      scan_.unfilled.push_back(slot);
    }
    scan_.regions.push_back(region);
  }

  bool HasRecords(const Region& region) {
    if (region.kind != RegionKind::kPages) return true;
    const uint64_t end = uint64_t{region.first_record.value()} + region.page_count;
    const uint64_t memory_end = record_units_.size() * uint64_t{layout::kRecordsPerChunk};
    if (end <= root_.record_high && end <= memory_end) return true;
    Offend("region slot ", region.slot.value(), ": records ", region.first_record.value(), " to ",
           end - 1, ", but there are only those below ", std::min(root_.record_high, memory_end));
    return false;
  }

  void CheckSlotsHigh() {
    const uint64_t high = root_.region_slots_high;
    if (high > scan_.cuts.size()) {
      Offend("root: region_slots_high is ", high, ", the tables have ", scan_.cuts.size());
    } else if (slots_used_ > high) {
      Offend("region slot ", slots_used_ - 1, ": in use, but region_slots_high is ", high);
    }
  }

  void CheckOverlaps() {
    for (size_t i = 1; i < scan_.regions.size(); ++i) {
      const Region& low = scan_.regions[i - 1];
      const Region& high = scan_.regions[i];
      if (low.offset_bytes + low.length_bytes > high.offset_bytes) {
        Offend("region slots ", low.slot.value(), " and ", high.slot.value(), " overlap at ",
               high.offset_bytes);
      }
    }
  }

  void CheckRecordRuns() {
    std::vector<const Region*> pages;
    for (const Region& region : scan_.regions) {
      if (region.kind == RegionKind::kPages) pages.push_back(&region);
    }
    std::ranges::sort(pages, {}, [](const Region* r) { return r->first_record.value(); });
    for (size_t i = 1; i < pages.size(); ++i) {
      const uint64_t end = uint64_t{pages[i - 1]->first_record.value()} + pages[i - 1]->page_count;
      if (end > pages[i]->first_record.value()) {
        Offend("region slots ", pages[i - 1]->slot.value(), " and ", pages[i]->slot.value(),
               " share record ", pages[i]->first_record.value());
      }
    }
  }

  void CheckIds() {
    std::unordered_set<uint32_t> seen;
    for (const Region& region : scan_.regions) {
      if (!region.has_id()) continue;
      const uint32_t id = region.id.value();
      if (id < id_base_ || id - id_base_ >= layout::kRegionIdsPerPool) {
        scan_.other_ids.push_back(region.slot);
      } else if (id - id_base_ >= root_.next_region_ordinal) {
        Offend("region slot ", region.slot.value(), ": region id ", id, " was not given out yet");
      }
      if (!seen.insert(id).second) {
        Offend("region slot ", region.slot.value(), ": region id ", id, " is another's too");
      }
    }
  }

  // The units that a directory names are those of the regions of one kind.
  void CheckNames(RegionKind kind, const std::vector<uint64_t>& named, std::string_view directory) {
    std::unordered_set<uint64_t> left;
    for (const uint64_t unit : named) {
      if (!left.insert(unit).second) Offend(directory, ": unit ", unit, " is named twice");
    }
    for (const Region& region : scan_.regions) {
      if (region.kind != kind) continue;
      const uint64_t first = region.offset_bytes / kUnit;
      uint64_t found = 0;
      for (uint64_t i = 0; i < region.length_bytes / kUnit; ++i) found += left.erase(first + i);
      // Record chunks that are not named yet are the catalogue's to use.
      if (found == 0 && kind == RegionKind::kRegionTable) {
        scan_.unnamed_tables.push_back(region.slot);
      }
    }
    for (const uint64_t unit : named) {
      if (left.contains(unit)) {
        Offend(directory, ": unit ", unit, " lies in no region of ", RegionKindName(kind));
      }
    }
  }

  const std::byte* const base_;
  const uint64_t units_;
  const layout::RootValues root_;
  const uint32_t id_base_;
  uint64_t slots_used_ = 0;
  std::vector<uint64_t> table_units_;
  std::vector<uint64_t> record_units_;
  RegionScan scan_;
};

}  // namespace

RegionScan ScanRegions(const std::byte* base, uint64_t bytes) { return Scanner(base, bytes).Run(); }

const layout::RegionRecord* FindRegionRecord(const std::byte* base, uint64_t bytes,
                                             RegionSlot slot) {
  uint64_t index = slot.value();
  uint64_t table = layout::kRegionTableOffset;
  if (index >= layout::kRegionTableEntriesFirst) {
    index -= layout::kRegionTableEntriesFirst;
    const uint64_t further = index / layout::kRegionTableEntriesUnit;
    if (further >= layout::kRegionTablesMax) return nullptr;
    const auto& directory =
        *reinterpret_cast<const layout::RegionDirectory*>(base + layout::kRegionDirectoryOffset);
    // Acquire: pairs with the release store by which a server publishes a further table.
    const uint64_t unit = directory.units[further].load(std::memory_order_acquire);
    if (unit == 0 || unit >= bytes / kUnit) return nullptr;
    table = unit * kUnit;
    index %= layout::kRegionTableEntriesUnit;
  }
  return reinterpret_cast<const layout::RegionRecord*>(base + table) + index;
}

}  // namespace maru::pool
