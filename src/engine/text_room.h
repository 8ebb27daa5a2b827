// Room for the text of a key where a pool has none of its length left.
//
// Key text lies in slabs; the blocks of a slab have one size, and it serves texts of another length
// only when it is empty. Keys that go because of their age go from all slabs alike as soon as keys
// are read in another order than they were stored, so nearly all of a pool could go before one slab
// is empty. So a slab is emptied instead: one of those that hold the fewest keys, none of them
// held. Where its keys are is known from the records alone, which are walked, so many in a step.
//
// Single-threaded, the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core.h"
#include "engine/retire.h"

namespace maru::engine {

class TextRoom {
 public:
  // Records looked at in one step. Pools with more take several steps, and a key without room is
  // rejected until the walk has come to its end.
  static constexpr uint64_t kLooksMax = 256 * 1024;
  // Slabs that are looked for at a time: the keys of some may be held.
  static constexpr size_t kSlabsMax = 8;

  TextRoom(Core* core, Retirement* retirement) : core_(core), retirement_(retirement) {}

  // Goes on with the walk over the pool's records, or begins one. True: a slab is empty now.
  bool Make(Stock* stock);
  // The same for the walk that is under way, if any. True: it is not at its end.
  bool GoOn();
  bool under_way() const { return walk_ != nullptr; }

 private:
  struct Slab {
    uint64_t offset_bytes = 0;
    std::vector<RecordNumber> keys;
    bool held = false;  // of an extent, or leased: it cannot be emptied
  };
  struct Walk {
    Stock* stock = nullptr;
    uint64_t next_record = 1;
    std::vector<Slab> slabs;  // closed to new texts
  };

  void Begin(Stock* stock);
  // False: there is more to look at.
  bool Look();
  // Empties the first slab that can be. False: none can.
  bool Empty();
  bool Empty(const Slab& slab);
  Slab* SlabOf(RecordNumber record);

  Core* core_;
  Retirement* retirement_;
  std::unique_ptr<Walk> walk_;
};

}  // namespace maru::engine
