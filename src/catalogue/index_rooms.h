// The room for index tables: regions of the pool that were carved for tables and are kept for later
// ones. A pool ends with about two rooms of its largest table's size and one of each smaller size.
//
// Single-threaded, the writer's.
#pragma once

#include <cstdint>
#include <vector>

#include "catalogue/space.h"
#include "maru/result.h"

namespace maru::catalogue {

class IndexRooms {
 public:
  enum class Contents : uint8_t { kZero, kUnknown };
  struct Room {
    uint64_t offset_bytes = 0;
    uint64_t length_bytes = 0;
    Contents contents = Contents::kUnknown;
  };

  // REQUIRES: outlives this.
  explicit IndexRooms(SpaceSource* space) : space_(space) {}

  // Recovery: a region of that kind, found in the region table.
  void Add(uint64_t offset_bytes, uint64_t length_bytes);
  // A room that starts there, or nothing (length 0).
  Room At(uint64_t offset_bytes) const;
  // Takes the smallest spare room that is long enough, else carves one of whole units, at once.
  Result<Room> Take(uint64_t length_bytes);
  // The same in steps: a spare room, or length 0 when there is none; then carving, a unit at a
  // time, until a room comes out. REQUIRES: not carving for BeginCarve, carving for CarveSome. An
  // error ends the carving.
  Room TakeSpare(uint64_t length_bytes);
  Status BeginCarve(uint64_t length_bytes);
  bool carving() const { return making_.length_bytes != 0; }
  // Length 0: more to do.
  Result<Room> CarveSome();
  // Takes the room at an offset out of the spare ones. REQUIRES: it is spare.
  void Hold(uint64_t offset_bytes);
  // The room's table is out of use: spare, with old entries in it.
  void GiveBack(uint64_t offset_bytes);

  uint64_t bytes() const { return bytes_; }
  uint64_t heap_bytes() const { return sizeof(*this) + rooms_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    Room room;
    bool spare = true;
  };
  Entry* Find(uint64_t offset_bytes);
  Room AddCarved(uint64_t offset_bytes, uint64_t length_bytes);

  SpaceSource* space_;
  std::vector<Entry> rooms_;
  uint64_t bytes_ = 0;
  SpaceSource::Making making_;  // length 0: none
};

}  // namespace maru::catalogue
