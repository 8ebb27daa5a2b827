// The allocator of key text: blocks of a size class in slabs of 128 KiB, in text regions of the
// pool. What is used is kept in bitmaps on the heap, rebuilt from the records at a restart; nothing
// of it is in the pool.
//
// Single-threaded, the writer's.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "catalogue/pool_memory.h"
#include "catalogue/space.h"
#include "catalogue/text_classes.h"
#include "maru/result.h"

namespace maru::catalogue {

class TextSlabs {
 public:
  // REQUIRES: outlives this.
  explicit TextSlabs(SpaceSource* space) : space_(space) {}

  // Recovery: a text region, then every text in it, then Settle.
  void AddRegion(uint64_t offset_bytes, uint64_t length_bytes);
  // Marks the block of a text that lies at an offset read from a record. DataLoss says why no block
  // of that length can be there: outside text regions, off the block grid of its slab, a slab of
  // another class, or a block that another text has.
  Status Adopt(uint64_t offset_bytes, uint64_t text_bytes);
  void Settle();

  // The offset of a free block. ResourceExhausted when the pool has no room for another slab.
  // REQUIRES: text_bytes <= kTextBytesMax
  Result<uint64_t> Allocate(uint64_t text_bytes);
  // REQUIRES: allocated or adopted with that length, not freed since.
  void Free(uint64_t offset_bytes, uint64_t text_bytes);
  // Whether a text of that length has a block without another text going.
  bool Fits(uint64_t text_bytes) const;
  // --- For who empties slabs. Those in which the fewest texts lie, with some in them, at most
  // `count_max`: by offset, the fewest first.
  std::vector<uint64_t> Sparsest(size_t count_max) const;
  // No new text comes into a closed slab until it is empty or opened. REQUIRES: a slab begins
  // there.
  void Close(uint64_t slab_offset_bytes);
  void Open(uint64_t slab_offset_bytes);  // nothing for one that is not closed any more

  // The block of that length at that offset is in use.
  bool Holds(uint64_t offset_bytes, uint64_t text_bytes) const;

  uint64_t region_bytes() const { return slabs_.size() * layout::kTextSlabBytes; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t heap_bytes() const;

 private:
  static constexpr uint8_t kNoClass = 0xFF;
  static constexpr uint32_t kNowhere = 0xFFFFFFFF;
  static constexpr uint64_t kSlabsPerUnit = layout::kUnitBytes / layout::kTextSlabBytes;

  struct Slab {
    std::unique_ptr<uint64_t[]> used_bits;  // one bit a block
    uint32_t unit = 0;
    uint32_t used = 0;
    uint32_t partial_at = kNowhere;  // place in its class's list of slabs with room
    uint16_t first_word = 0;         // all words of used_bits below it are full
    uint8_t size_class = kNoClass;
    bool closed = false;  // then in no list
  };
  struct Block {
    uint32_t slab = kNowhere;
    uint32_t index = 0;
  };

  // Empty: no text region there, or (in a slab of that class) not the start of a block.
  Block Find(uint64_t offset_bytes, uint32_t text_class) const;
  uint64_t Offset(uint32_t slab, uint32_t index) const;
  Slab& At(uint64_t slab_offset_bytes);
  void Assign(Slab& slab, uint32_t text_class);
  Result<uint32_t> FreshSlab(uint32_t text_class);
  void AddPartial(uint32_t slab);
  void RemovePartial(uint32_t slab);
  static bool Used(const Slab& slab, uint32_t index) {
    return (slab.used_bits[index / 64] >> (index % 64) & 1) != 0;
  }

  SpaceSource* space_;
  std::vector<Slab> slabs_;                           // slabs of one unit follow each other
  std::unordered_map<uint64_t, uint32_t> unit_slab_;  // unit -> its first slab
  std::vector<uint32_t> partial_[kTextClasses];       // slabs with used and free blocks
  std::vector<uint32_t> empty_;                       // slabs of no class
  uint64_t used_bytes_ = 0;
  uint64_t bits_bytes_ = 0;
};

}  // namespace maru::catalogue
