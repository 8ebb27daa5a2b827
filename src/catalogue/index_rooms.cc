#include "catalogue/index_rooms.h"

#include "base/bytes.h"
#include "base/check.h"
#include "catalogue/publication_points.h"
#include "layout/geometry.h"

namespace maru::catalogue {

void IndexRooms::Add(uint64_t offset_bytes, uint64_t length_bytes) {
  rooms_.push_back({{offset_bytes, length_bytes, Contents::kUnknown}, true});
  bytes_ += length_bytes;
}

IndexRooms::Entry* IndexRooms::Find(uint64_t offset_bytes) {
  for (Entry& entry : rooms_) {
    if (entry.room.offset_bytes == offset_bytes) return &entry;
  }
  return nullptr;
}

IndexRooms::Room IndexRooms::At(uint64_t offset_bytes) const {
  for (const Entry& entry : rooms_) {
    if (entry.room.offset_bytes == offset_bytes) return entry.room;
  }
  return {};
}

Result<IndexRooms::Room> IndexRooms::Take(uint64_t length_bytes) {
  Entry* best = nullptr;
  for (Entry& entry : rooms_) {
    if (!entry.spare || entry.room.length_bytes < length_bytes) continue;
    if (best == nullptr || entry.room.length_bytes < best->room.length_bytes) best = &entry;
  }
  if (best != nullptr) {
    best->spare = false;
    return best->room;
  }
  const uint64_t units_bytes = AlignUp(length_bytes, layout::kUnitBytes);
  MARU_ASSIGN_OR_RETURN(const SpaceSource::Room carved,
                        space_->Carve(layout::RegionKind::kIndex, units_bytes));
  MARU_CHECK_EQ(carved.length_bytes, units_bytes);
  Add(carved.offset_bytes, carved.length_bytes);
  Entry& added = rooms_.back();
  added.spare = false;
  Room room = added.room;
  room.contents = Contents::kZero;
  MARU_PUBLICATION_POINT(points::kIndexCarved);
  return room;
}

void IndexRooms::Hold(uint64_t offset_bytes) {
  Entry* entry = Find(offset_bytes);
  MARU_CHECK(entry != nullptr && entry->spare) << "index room at " << offset_bytes;
  entry->spare = false;
}

void IndexRooms::GiveBack(uint64_t offset_bytes) {
  Entry* entry = Find(offset_bytes);
  MARU_CHECK(entry != nullptr && !entry->spare) << "index room at " << offset_bytes;
  entry->spare = true;
}

}  // namespace maru::catalogue
