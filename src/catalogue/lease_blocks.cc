#include "catalogue/lease_blocks.h"

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/publication_points.h"

namespace maru::catalogue {

std::atomic<uint64_t>& LeaseBlocks::Entry(uint64_t offset_bytes) const {
  const uint64_t unit = AlignDown(offset_bytes, layout::kUnitBytes);
  return memory_->At<layout::LeaseDirectory>(unit)
      ->owners[(offset_bytes - unit) / layout::kLeaseBlockBytes];
}

Result<uint64_t> LeaseBlocks::Take() {
  if (free_.empty()) {
    MARU_ASSIGN_OR_RETURN(const SpaceSource::Room room,
                          space_->Carve(layout::RegionKind::kLeases, layout::kUnitBytes));
    MARU_CHECK_EQ(room.length_bytes, layout::kUnitBytes);
    AddUnit(room.offset_bytes, [](uint64_t offset, layout::BlockOwner owner) {
      MARU_CHECK(owner.free()) << "new lease block at " << offset << " has an owner";
    });
    MARU_PUBLICATION_POINT(points::kLeasesCarved);
  }
  const uint64_t offset = free_.back();
  free_.pop_back();
  // Whose block it was is dead. Relaxed: Name's release, which the client's attach follows, carries
  // the zeros.
  std::atomic<uint64_t>* words = memory_->Words(offset);
  for (uint64_t i = 0; i < layout::kLeaseBlockBytes / sizeof(uint64_t); ++i) {
    words[i].store(0, std::memory_order_relaxed);
  }
  return offset;
}

void LeaseBlocks::Name(uint64_t offset_bytes, layout::BlockOwner owner) {
  MARU_CHECK(!owner.free());
  // Release, with the acquire of whoever reads the directory in a mapped pool (inspect, audit).
  Entry(offset_bytes).store(owner.bits(), std::memory_order_release);
  MARU_PUBLICATION_POINT(points::kBlockNamed);
}

void LeaseBlocks::Unname(uint64_t offset_bytes) {
  std::atomic<uint64_t>& entry = Entry(offset_bytes);
  MARU_CHECK_NE(entry.load(std::memory_order_relaxed), 0u);
  entry.store(0, std::memory_order_release);  // as in Name
  free_.push_back(offset_bytes);
  MARU_PUBLICATION_POINT(points::kBlockUnnamed);
}

}  // namespace maru::catalogue
