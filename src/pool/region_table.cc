#include "pool/region_table.h"

#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "base/sequence_point.h"
#include "layout/text.h"

namespace maru::pool {
namespace {

// Used ones at which the log tells that they come to an end.
constexpr uint64_t kWarnAtOrdinal = layout::kRegionIdsPerPool / 16 * 15;
constexpr uint32_t kCutLast = std::numeric_limits<uint32_t>::max();

template <typename T>
T& At(std::byte* base, uint64_t offset_bytes) {
  return *reinterpret_cast<T*>(base + offset_bytes);
}

// Zero-padded. REQUIRES: shorter than the field.
void StoreText(const std::string& text, uint8_t (&field)[layout::kLabelBytes]) {
  MARU_CHECK_LT(text.size(), layout::kLabelBytes);
  std::memset(field, 0, sizeof(field));
  std::memcpy(field, text.data(), text.size());
}

}  // namespace

RegionTable::RegionTable(std::byte* base, uint64_t bytes, const RegionScan& scan)
    : base_(base),
      bytes_(bytes),
      root_(At<layout::Root>(base, layout::kRootOffset)),
      id_base_(At<layout::Superblock>(base, layout::kSuperblockOffset).region_id_base),
      slots_high_(static_cast<uint32_t>(root_.region_slots_high.load(std::memory_order_relaxed))),
      cuts_(scan.cuts) {
  MARU_CHECK_EQ(scan.offence_count, 0u);
  tables_ = static_cast<uint32_t>((cuts_.size() - layout::kRegionTableEntriesFirst) /
                                  layout::kRegionTableEntriesUnit);
  for (const Region& region : scan.regions) {
    regions_.emplace(region.slot, region);
    if (region.has_id()) by_id_.emplace(region.id, region.slot);
    bytes_of_[static_cast<uint8_t>(region.kind)] += region.length_bytes;
  }
  for (uint32_t slot = 0; slot < slots_high_; ++slot) {
    // A slot at its last cut is never used again, so that (slot, cut) names one region for ever.
    if (cuts_[slot] != kCutLast && Find(RegionSlot(slot)) == nullptr) free_.push(slot);
  }
}

uint64_t RegionTable::free_slots() const { return free_.size() + (cuts_.size() - slots_high_); }

RegionSlot RegionTable::TakeSlot() {
  MARU_CHECK_GT(free_slots(), 0u);
  if (!free_.empty()) {
    const RegionSlot slot(free_.top());
    free_.pop();
    return slot;
  }
  const RegionSlot slot(slots_high_++);
  // Release, before the slot's word: whoever finds the word in use finds the slot below the mark.
  root_.region_slots_high.store(slots_high_, std::memory_order_release);
  MARU_PUBLICATION_POINT("region:slots-high");
  return slot;
}

RegionSlot RegionTable::Publish(Region region) {
  MARU_CHECK(region.kind != layout::RegionKind::kNone);
  region.slot = TakeSlot();
  layout::RegionRecord& record = Record(region.slot);
  // Release, with the acquire loads of PoolView::Pages: who meets a field of this region sees the
  // end of the one that had the slot before, when it reads the word again.
  constexpr auto kRelease = std::memory_order_release;
  record.offset_bytes.store(region.offset_bytes, kRelease);
  record.length_bytes.store(region.length_bytes, kRelease);
  record.page_bytes.store(region.page_bytes, kRelease);
  record.pages.store(layout::PackRegionPages(region.page_count, region.first_record.value()),
                     kRelease);
  record.region_id.store(region.id.value(), kRelease);
  record.owner.store(region.owner.value(), kRelease);
  record.lease_deadline_unix_ns.store(region.lease_deadline_unix_ns, kRelease);
  StoreText(region.instance_id, record.instance_id);
  StoreText(region.lease_id, record.lease_id);
  record.road.store(static_cast<uint8_t>(region.road), kRelease);
  record.request_id.store(region.request_id, kRelease);
  record.endpoint.store(region.endpoint, kRelease);
  record.hold_until_unix_ns.store(region.hold_until_unix_ns, kRelease);
  MARU_PUBLICATION_POINT("region:fields");
  uint32_t& cut = cuts_[region.slot.value()];
  record.word.store(layout::RegionWord::Make(region.kind, ++cut).bits(), std::memory_order_release);
  MARU_PUBLICATION_POINT("region:word");
  bytes_of_[static_cast<uint8_t>(region.kind)] += region.length_bytes;
  regions_.emplace(region.slot, region);
  if (region.has_id()) by_id_.emplace(region.id, region.slot);
  return region.slot;
}

void RegionTable::Grow(RegionSlot slot, uint32_t page_count) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end() && found->second.kind == layout::RegionKind::kPages)
      << "region slot " << slot;
  Region& region = found->second;
  MARU_CHECK_GT(page_count, region.page_count);
  MARU_CHECK_LE(page_count, region.length_bytes / region.page_bytes);
  region.page_count = page_count;
  // Release, before any of their records is a page: who meets one finds it in its region.
  Record(slot).pages.store(layout::PackRegionPages(page_count, region.first_record.value()),
                           std::memory_order_release);
  MARU_PUBLICATION_POINT("region:grown");
}

void RegionTable::Shorten(RegionSlot slot, uint64_t length_bytes) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end() && found->second.kind == layout::RegionKind::kPages)
      << "region slot " << slot;
  Region& region = found->second;
  MARU_CHECK_LT(length_bytes, region.length_bytes);
  MARU_CHECK_LE(region.page_count, length_bytes / region.page_bytes);
  bytes_of_[static_cast<uint8_t>(region.kind)] -= region.length_bytes - length_bytes;
  region.length_bytes = length_bytes;
  // Release, before another region has the units.
  Record(slot).length_bytes.store(length_bytes, std::memory_order_release);
  MARU_PUBLICATION_POINT("region:shortened");
}

void RegionTable::Withdraw(RegionSlot slot) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end()) << "region slot " << slot;
  const uint32_t cut = cuts_[slot.value()];
  // Release: what the server did to the region's records before comes before its end.
  Record(slot).word.store(layout::RegionWord::Make(layout::RegionKind::kNone, cut).bits(),
                          std::memory_order_release);
  MARU_PUBLICATION_POINT("region:freed");
  bytes_of_[static_cast<uint8_t>(found->second.kind)] -= found->second.length_bytes;
  by_id_.erase(found->second.id);
  regions_.erase(found);
  if (cut != kCutLast) free_.push(slot.value());
}

void RegionTable::ChangeId(RegionSlot slot, RegionId id) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end() && found->second.has_id()) << "region slot " << slot;
  by_id_.erase(found->second.id);
  by_id_.emplace(id, slot);
  found->second.id = id;
  // Release: pairs with whoever attaches after the epoch is stored; the pool is not served yet.
  Record(slot).region_id.store(id.value(), std::memory_order_release);
  MARU_PUBLICATION_POINT("region:id");
}

void RegionTable::EndOwner(RegionSlot slot) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end() && found->second.kind == layout::RegionKind::kClientCut)
      << "region slot " << slot;
  found->second.owner = ClientId(0);
  // Release: what the server did for the owner before comes before its end.
  Record(slot).owner.store(0, std::memory_order_release);
  MARU_PUBLICATION_POINT("region:owner");
}

void RegionTable::SetLeaseDeadline(RegionSlot slot, uint64_t unix_ns) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end() && found->second.kind == layout::RegionKind::kClientCut)
      << "region slot " << slot;
  found->second.lease_deadline_unix_ns = unix_ns;
  // Relaxed: for people; a server starts the lease's time anew.
  Record(slot).lease_deadline_unix_ns.store(unix_ns, std::memory_order_relaxed);
}

void RegionTable::SetHoldUntil(RegionSlot slot, uint64_t unix_ns) {
  const auto found = regions_.find(slot);
  MARU_CHECK(found != regions_.end() && found->second.kind == layout::RegionKind::kClientCut)
      << "region slot " << slot;
  found->second.hold_until_unix_ns = unix_ns;
  // Relaxed: only servers, one after the other, read it.
  Record(slot).hold_until_unix_ns.store(unix_ns, std::memory_order_relaxed);
}

void RegionTable::AddTable(uint64_t unit) {
  MARU_CHECK(CanAddTable());
  auto& directory = At<layout::RegionDirectory>(base_, layout::kRegionDirectoryOffset);
  // Release: pairs with the acquire load of readers; the table's zeroes come before.
  directory.units[tables_++].store(unit, std::memory_order_release);
  MARU_PUBLICATION_POINT("region:table");
  cuts_.resize(cuts_.size() + layout::kRegionTableEntriesUnit, 0);
}

Result<RegionId> RegionTable::NextId() {
  // Relaxed: only the server stores it.
  const uint64_t ordinal = root_.next_region_ordinal.load(std::memory_order_relaxed);
  if (ordinal >= layout::kRegionIdsPerPool) {
    return ResourceExhausted(
        layout::Concat("all ", layout::kRegionIdsPerPool,
                       " region ids of the pool were used; stop the server and draw new ones "
                       "with `maru pool renumber PATH`"));
  }
  if (ordinal == kWarnAtOrdinal) {
    LogWarning(layout::Concat(ordinal, " of ", layout::kRegionIdsPerPool, " region ids from ",
                              id_base_,
                              " on were used; without one no region is made, for pages or for a "
                              "client. Before that, stop "
                              "the server and draw new ones with `maru pool renumber PATH`"));
  }
  // Release, before any region has the id: a crash may skip an id, never give it out twice.
  root_.next_region_ordinal.store(ordinal + 1, std::memory_order_release);
  MARU_PUBLICATION_POINT("region:ordinal");
  return RegionId(id_base_ + static_cast<uint32_t>(ordinal));
}

const Region* RegionTable::Find(RegionSlot slot) const {
  const auto found = regions_.find(slot);
  return found == regions_.end() ? nullptr : &found->second;
}

const Region* RegionTable::ById(RegionId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : Find(found->second);
}

uint64_t RegionTable::BytesOf(layout::RegionKind kind) const {
  return bytes_of_[static_cast<uint8_t>(kind)];
}

layout::RegionRecord& RegionTable::Record(RegionSlot slot) {
  const layout::RegionRecord* record = FindRegionRecord(base_, bytes_, slot);
  MARU_CHECK(record != nullptr) << "region slot " << slot;
  return const_cast<layout::RegionRecord&>(*record);
}

}  // namespace maru::pool
