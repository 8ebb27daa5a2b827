// Where the catalogue's writer gets room from: the pool above it implements this.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "layout/region.h"
#include "maru/result.h"

namespace maru::catalogue {

class SpaceSource {
 public:
  struct Room {
    RegionSlot slot{0};
    uint64_t offset_bytes = 0;
    uint64_t length_bytes = 0;
  };
  virtual ~SpaceSource() = default;

  // Carves a region for the catalogue: reserved (so that no reader of it meets a hole), zeroed and
  // published in the region table. ResourceExhausted when the pool has no such room.
  // REQUIRES: kind is one of the catalogue's; length is a multiple of the unit.
  virtual Result<Room> Carve(layout::RegionKind kind, uint64_t length_bytes) = 0;

  // The same in steps, for what would take too long at once: memory costs a millisecond or two a
  // unit. Nobody else gets the room meanwhile; the region table has it after EndCarve.
  struct Making {
    layout::RegionKind kind = layout::RegionKind::kNone;
    uint64_t offset_bytes = 0, length_bytes = 0;
    uint64_t ready_bytes = 0;

    bool ready() const { return ready_bytes == length_bytes; }
  };
  virtual Result<Making> BeginCarve(layout::RegionKind kind, uint64_t length_bytes) = 0;
  // One unit more. On an error the room is given up. REQUIRES: not ready.
  virtual Status ContinueCarve(Making* making) = 0;
  // REQUIRES: ready.
  virtual Room EndCarve(const Making& making) = 0;
};

}  // namespace maru::catalogue
