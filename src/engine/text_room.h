// Room for the text of a key where a pool has none of its length left.
//
// Key text lies in slabs; the blocks of a slab have one size, and it serves texts of another length
// only when it is empty. Keys that go because of their age go from all slabs alike as soon as keys
// are read in another order than they were stored, so nearly all of a pool could go before one slab
// is empty. So a slab is emptied instead: one of those that hold the fewest keys, none of them
// held. Where its keys are is known from the records alone, which are walked, so many in a step.
// Where all of the sparsest have a key that stays, as many a slab of few long texts has, two more
// walks find the sparsest of the others.
//
// Single-threaded, the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "engine/core.h"
#include "engine/retire.h"

namespace maru::engine {

class LeasedPages;

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
    bool held = false;  // a key stays: it cannot be emptied
  };
  // What a walk over the records is for, in this order.
  enum class Aim : uint8_t {
    kSparsest,  // the keys of the sparsest slabs
    kStaying,   // which slabs have keys that stay
    kOthers,    // the keys of the sparsest without
  };
  struct Walk {
    Stock* stock = nullptr;
    Aim aim = Aim::kSparsest;
    uint64_t next_record = 1;
    std::vector<Slab> slabs;               // closed to new texts
    std::unordered_set<uint64_t> staying;  // slabs with keys that stay, by offset
  };

  // Chooses the slabs for the walk's aim. False: there are none.
  bool Choose();
  // At the end of a walk that has emptied none. False: another would not either.
  bool Advance();
  // Takes its part of the records that this step may look at. False: there is more to look at.
  bool Look(uint64_t* looks_left);
  // Where the text of a key lies; 0: the record has none.
  uint64_t TextOf(RecordNumber record) const;
  // The key of a live record may not go now.
  bool Stays(RecordNumber record, const LeasedPages& leased) const;
  // Empties the first slab that can be. False: none can.
  bool Empty();
  bool Empty(const Slab& slab);
  Slab* SlabOf(RecordNumber record);

  Core* core_;
  Retirement* retirement_;
  std::unique_ptr<Walk> walk_;
};

}  // namespace maru::engine
