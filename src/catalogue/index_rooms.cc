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

IndexRooms::Room IndexRooms::TakeSpare(uint64_t length_bytes) {
  Entry* best = nullptr;
  for (Entry& entry : rooms_) {
    if (!entry.spare || entry.room.length_bytes < length_bytes) continue;
    if (best == nullptr || entry.room.length_bytes < best->room.length_bytes) best = &entry;
  }
  if (best == nullptr) return {};
  best->spare = false;
  return best->room;
}

IndexRooms::Room IndexRooms::AddCarved(uint64_t offset_bytes, uint64_t length_bytes) {
  Add(offset_bytes, length_bytes);
  Entry& added = rooms_.back();
  added.spare = false;
  Room room = added.room;
  room.contents = Contents::kZero;
  MARU_PUBLICATION_POINT(points::kIndexCarved);
  return room;
}

Result<IndexRooms::Room> IndexRooms::Take(uint64_t length_bytes) {
  const Room spare = TakeSpare(length_bytes);
  if (spare.length_bytes != 0) return spare;
  MARU_ASSIGN_OR_RETURN(
      const SpaceSource::Room carved,
      space_->Carve(layout::RegionKind::kIndex, AlignUp(length_bytes, layout::kUnitBytes)));
  return AddCarved(carved.offset_bytes, carved.length_bytes);
}

Status IndexRooms::BeginCarve(uint64_t length_bytes) {
  MARU_CHECK(!carving());
  MARU_ASSIGN_OR_RETURN(making_, space_->BeginCarve(layout::RegionKind::kIndex,
                                                    AlignUp(length_bytes, layout::kUnitBytes)));
  return OkStatus();
}

Result<IndexRooms::Room> IndexRooms::CarveSome() {
  MARU_CHECK(carving());
  if (Status status = space_->ContinueCarve(&making_); !status.ok()) {
    making_ = {};
    return status;
  }
  if (!making_.ready()) return Room();
  const SpaceSource::Room carved = space_->EndCarve(making_);
  making_ = {};
  return AddCarved(carved.offset_bytes, carved.length_bytes);
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
