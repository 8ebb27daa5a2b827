#include "catalogue/record_runs.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/check.h"
#include "catalogue/publication_points.h"

namespace maru::catalogue {

namespace {

// A chunk that nobody can see yet; atomics all the same, so that every store to the pool is one.
void ZeroUnit(PoolMemory* memory, uint64_t unit) {
  std::atomic<uint64_t>* words = memory->Words(unit * layout::kUnitBytes);
  for (uint64_t i = 0; i < layout::kUnitBytes / sizeof(uint64_t); ++i) {
    words[i].store(0, std::memory_order_relaxed);
  }
}

std::string RunText(const RegionExtent& region) {
  return "region slot " + std::to_string(region.slot.value()) + " (records " +
         std::to_string(region.first_record.value()) + " and on, " +
         std::to_string(region.page_count) + " of them)";
}

}  // namespace

uint64_t RecordRuns::End() const {
  return std::min(chunks_ * layout::kRecordsPerChunk, kNumbersEnd);
}

Status RecordRuns::Recover(std::span<const RegionExtent> regions) {
  MARU_RETURN_IF_ERROR(ReadDirectory(regions));
  return ReadRuns(regions);
}

Status RecordRuns::ReadDirectory(std::span<const RegionExtent> regions) {
  std::map<uint64_t, bool> units;  // of records regions; true: named by the directory
  for (const RegionExtent& region : regions) {
    if (region.kind != layout::RegionKind::kRecords) continue;
    const uint64_t first = region.offset_bytes / layout::kUnitBytes;
    for (uint64_t i = 0; i < region.length_bytes / layout::kUnitBytes; ++i)
      units[first + i] = false;
  }
  const layout::RecordDirectory& directory = memory_->record_directory();
  uint64_t chunks = 0;
  for (uint32_t chunk = 0; chunk < layout::kRecordChunksMax; ++chunk) {
    const uint32_t unit = directory.units[chunk].load(std::memory_order_relaxed);
    if (unit == 0) continue;
    if (chunk != chunks) {
      return DataLoss("the record directory names chunk " + std::to_string(chunk) +
                      " but not chunk " + std::to_string(chunks));
    }
    const auto found = units.find(unit);
    if (found == units.end()) {
      return DataLoss("record chunk " + std::to_string(chunk) + " lies in unit " +
                      std::to_string(unit) + ", which is in no records region");
    }
    if (found->second) {
      return DataLoss("the record directory names unit " + std::to_string(unit) + " twice");
    }
    found->second = true;
    ++chunks;
  }
  chunks_ = chunks;
  for (const auto& [unit, named] : units) {
    if (!named) spare_units_.push_back(unit);
  }
  const uint64_t high = memory_->root().record_high.load(std::memory_order_relaxed);
  if (high > End()) {
    return DataLoss("the root counts records up to " + std::to_string(high) +
                    ", the directory has memory up to " + std::to_string(End()));
  }
  return OkStatus();
}

Status RecordRuns::ReadRuns(std::span<const RegionExtent> regions) {
  const uint64_t high = memory_->root().record_high.load(std::memory_order_relaxed);
  std::map<uint32_t, const RegionExtent*> used;
  for (const RegionExtent& region : regions) {
    if (region.kind != layout::RegionKind::kPages) continue;
    const uint64_t end = uint64_t{region.first_record.value()} + region.page_count;
    if (region.page_count == 0 || region.first_record.value() == 0 || end > high) {
      return DataLoss(RunText(region) + " has a run outside the records up to " +
                      std::to_string(high));
    }
    if (!used.emplace(region.first_record.value(), &region).second) {
      return DataLoss(RunText(region) + " has the same first record as " +
                      RunText(*used[region.first_record.value()]));
    }
  }
  uint64_t next = 1;
  const RegionExtent* before = nullptr;
  for (const auto& [first, region] : used) {
    if (first < next) return DataLoss(RunText(*before) + " overlaps " + RunText(*region));
    if (first > next) AddFree(static_cast<uint32_t>(next), static_cast<uint32_t>(first - next));
    next = uint64_t{first} + region->page_count;
    before = region;
  }
  if (next < End()) AddFree(static_cast<uint32_t>(next), static_cast<uint32_t>(End() - next));
  return OkStatus();
}

void RecordRuns::AddFree(uint32_t first, uint32_t count) {
  MARU_CHECK_GT(count, 0u);
  auto after = free_.lower_bound(first);
  MARU_CHECK(after == free_.end() || uint64_t{first} + count <= after->first)
      << "records from " << first << " are free already";
  if (after != free_.end() && first + count == after->first) {
    count += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    MARU_CHECK_LE(uint64_t{before->first} + before->second, first);
    if (before->first + before->second == first) {
      before->second += count;
      return;
    }
  }
  free_.emplace_hint(after, first, count);
}

void RecordRuns::NameChunk(uint64_t unit) {
  // Release, with the acquire of PoolView::Record: who sees the unit sees zeros or records in it.
  memory_->record_directory().units[chunks_].store(static_cast<uint32_t>(unit),
                                                   std::memory_order_release);
  const uint64_t before = End();
  ++chunks_;
  // Number 0 means "no record" and is never handed out.
  const uint64_t first = before == 0 ? 1 : before;
  AddFree(static_cast<uint32_t>(first), static_cast<uint32_t>(End() - first));
  MARU_PUBLICATION_POINT(points::kChunkNamed);
}

Status RecordRuns::AddChunks(uint64_t count) {
  uint64_t piece = std::min<uint64_t>(count, kChunksPerCarveMax);
  while (count > 0) {
    if (!spare_units_.empty()) {
      const uint64_t unit = spare_units_.back();
      spare_units_.pop_back();
      ZeroUnit(memory_, unit);
      NameChunk(unit);
      --count;
      continue;
    }
    piece = std::min(piece, count);
    Result<SpaceSource::Room> room =
        space_->Carve(layout::RegionKind::kRecords, piece * layout::kUnitBytes);
    if (!room.ok()) {
      if (piece == 1) return room.status();
      piece /= 2;
      continue;
    }
    MARU_CHECK_EQ(room->length_bytes, piece * layout::kUnitBytes);
    MARU_PUBLICATION_POINT(points::kChunksCarved);
    for (uint64_t i = 0; i < piece; ++i) NameChunk(room->offset_bytes / layout::kUnitBytes + i);
    count -= piece;
  }
  return OkStatus();
}

Result<RecordNumber> RecordRuns::Allocate(uint32_t count) {
  MARU_CHECK_GT(count, 0u);
  auto run = std::find_if(free_.begin(), free_.end(),
                          [count](const auto& entry) { return entry.second >= count; });
  if (run == free_.end()) {
    uint64_t tail = std::max<uint64_t>(End(), 1);
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (uint64_t{last->first} + last->second == End()) tail = last->first;
    }
    const uint64_t end = tail + count;
    if (end > kNumbersEnd) {
      return ResourceExhausted("no run of " + std::to_string(count) +
                               " record numbers is free in the pool");
    }
    const uint64_t chunks = (end + layout::kRecordsPerChunk - 1) / layout::kRecordsPerChunk;
    MARU_RETURN_IF_ERROR(AddChunks(chunks - chunks_));
    run = std::prev(free_.end());
    MARU_CHECK_GE(run->second, count);
  }
  return TakeFrom(run, count);
}

RecordNumber RecordRuns::TakeFrom(std::map<uint32_t, uint32_t>::iterator run, uint32_t count) {
  const uint32_t first = run->first;
  const uint32_t rest = run->second - count;
  free_.erase(run);
  if (rest > 0) free_.emplace(first + count, rest);

  std::atomic<uint64_t>& high = memory_->root().record_high;
  const uint64_t end = uint64_t{first} + count;
  if (end > high.load(std::memory_order_relaxed)) {
    // Release, with the acquire of whoever walks the records: before the first of them is bound.
    high.store(end, std::memory_order_release);
    MARU_PUBLICATION_POINT(points::kRecordHigh);
  }
  return RecordNumber(first);
}

Status RecordRuns::AddLastChunk() {
  if (chunks_ == layout::kRecordChunksMax) {
    return ResourceExhausted("all record numbers of the pool are in use");
  }
  return AddChunks(1);
}

Result<RecordRuns::Run> RecordRuns::AllocateSome(uint32_t count) {
  MARU_CHECK_GT(count, 0u);
  auto run = std::find_if(free_.begin(), free_.end(),
                          [count](const auto& entry) { return entry.second >= count; });
  if (run == free_.end()) {
    const auto ends_last = [this] {
      if (free_.empty()) return false;
      const auto last = std::prev(free_.end());
      return uint64_t{last->first} + last->second == End();
    };
    if (!ends_last()) MARU_RETURN_IF_ERROR(AddLastChunk());
    run = std::prev(free_.end());
  }
  const uint32_t taken = std::min(count, run->second);
  return Run{TakeFrom(run, taken), taken};
}

Result<uint32_t> RecordRuns::Extend(RecordNumber next, uint32_t count) {
  MARU_CHECK_GT(count, 0u);
  if (next.value() == End()) MARU_RETURN_IF_ERROR(AddLastChunk());
  const auto run = free_.find(next.value());
  if (run == free_.end()) return 0u;
  const uint32_t taken = std::min(count, run->second);
  TakeFrom(run, taken);
  return taken;
}

void RecordRuns::Claim(std::span<const RecordNumber> records) {
  for (const RecordNumber record : records) {
    const uint32_t number = record.value();
    auto run = free_.upper_bound(number);
    MARU_CHECK(run != free_.begin()) << "record " << record << " is not free";
    --run;
    const auto [first, count] = *run;
    MARU_CHECK_LT(number - first, count) << "record " << record << " is not free";
    const uint32_t behind = count - (number - first) - 1;
    if (number == first) {
      run = free_.erase(run);
    } else {
      run->second = number - first;
      ++run;
    }
    if (behind > 0) free_.emplace_hint(run, number + 1, behind);
  }
}

void RecordRuns::Release(RecordNumber first, uint32_t count) {
  MARU_CHECK_GE(first.value(), 1u);
  MARU_CHECK_LE(uint64_t{first.value()} + count, End());
  AddFree(first.value(), count);
}

uint64_t RecordRuns::heap_bytes() const {
  // A red-black node is three pointers, a colour and the pair; rounded to malloc's grain.
  constexpr uint64_t kNodeBytes = 64;
  return sizeof(*this) + free_.size() * kNodeBytes + spare_units_.capacity() * sizeof(uint64_t);
}

}  // namespace maru::catalogue
