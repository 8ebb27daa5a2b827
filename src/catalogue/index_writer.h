// The index as its only writer keeps it: a current table, while it grows an old one whose entries
// move over a few at a time, and while that is being prepared the room that is cleared for the
// next.
//
//   stable --filled to 3/4--> preparing --carved, cleared--> moving --old table is empty--> stable
//
// No step is longer than a named number of slots, or one unit of new room, whatever the size of the
// tables. When there is no room for a next table, inserts go on until 7/8 of the slots hold
// entries.
//
// Single-threaded, the writer's.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "base/ids.h"
#include "catalogue/index_rooms.h"
#include "catalogue/index_table.h"
#include "catalogue/pool_memory.h"
#include "layout/superblock.h"
#include "maru/result.h"

namespace maru::catalogue {

class IndexWriter {
 public:
  // Slots of the old table that one insert looks at, and of the next table that it clears.
  static constexpr uint64_t kMoveSlotsPerInsert = 16;
  static constexpr uint64_t kClearSlotsPerInsert = 512;
  // Inserts carve the next table's room while they fill this part of the current one, at even
  // distances; Advance(kIdle) a unit with each call.
  static constexpr uint64_t kCarvePart = 32;
  // Slots again, for one call of Advance(kIdle).
  static constexpr uint64_t kMoveSlotsIdle = 1024;
  static constexpr uint64_t kClearSlotsIdle = 32 * 1024;

  // A table word's sequence at which it is damaged: more than any pool's life has stores.
  static constexpr uint64_t kSequenceMax = uint64_t{1} << 47;

  // No table has fewer than 2^entries_log2_min entries. REQUIRES: memory and space outlive this;
  // kIndexEntriesLog2Min <= entries_log2_min <= kIndexEntriesLog2Max.
  IndexWriter(PoolMemory* memory, SpaceSource* space, uint32_t entries_log2_min);

  // --- Recovery. Add for every index region; Begin; fill the table; Publish.
  void AddRoom(uint64_t offset_bytes, uint64_t length_bytes) {
    rooms_.Add(offset_bytes, length_bytes);
  }
  // Holds the tables that readers may be probing. DataLoss: the table word names something that is
  // no table in an index region.
  Status HoldNamedTables();
  // Of the table that BeginRebuild would rather have.
  uint64_t RebuiltCapacity(uint64_t keys) const;
  // A cleared table for so many keys, outside the tables that the table word names.
  Status BeginRebuild(uint64_t keys);
  IndexTable& rebuilt() { return current_.table; }
  // One store makes the rebuilt table the only one; the tables of before become spare rooms.
  void PublishRebuilt();

  // --- Service.
  // The slots of the current table: where an insert of that hash goes. ResourceExhausted when the
  // table is full and could not grow. Valid until the next call that changes the index.
  Result<uint64_t> Place(const Hash128& hash);
  void Insert(uint64_t slot, const Hash128& hash, RecordNumber record);
  // REQUIRES: it is in the index.
  void Remove(const Hash128& hash, RecordNumber record);

  // The records whose entries match the hash's tag, old table first; stops when `visit` says true.
  template <typename Visit>
  bool FindMatch(const Hash128& hash, const Visit& visit) const {
    const auto stop = [&](layout::IndexEntry entry) {
      return !entry.tombstone() && entry.MatchesTag(hash) && visit(entry.record());
    };
    for (const Named* named : {&old_, &current_}) {
      if (!named->table.exists()) continue;
      const uint64_t slot = named->table.Probe(named->table.Home(hash), stop);
      if (slot != IndexTable::kNowhere) return true;
    }
    return false;
  }
  void Prefetch(const Hash128& hash) const { current_.table.Prefetch(current_.table.Home(hash)); }

  // One bounded step towards the next table. True: there is more to do.
  enum class Pace : uint8_t { kInsert, kIdle };
  bool Advance(Pace pace);

  // REQUIRES: the watch ends before it or this does.
  void Watch(TableWatch* watch) { watches_.push_back(watch); }
  void Unwatch(TableWatch* watch) { std::erase(watches_, watch); }

  bool growing() const { return old_.table.exists() || next_.table.exists() || rooms_.carving(); }
  bool carving() const { return rooms_.carving(); }
  const IndexTable& current() const { return current_.table; }
  const IndexTable& old() const { return old_.table; }
  uint64_t bytes() const { return rooms_.bytes(); }
  uint64_t heap_bytes() const { return sizeof(*this) + rooms_.heap_bytes(); }

 private:
  struct Named {
    IndexTable table;
    uint8_t number = layout::TableWord::kNone;  // its descriptor in the root
    uint64_t offset_bytes = 0;
  };

  Result<Named> TakeTable(uint64_t capacity, IndexRooms::Contents* contents);
  uint8_t FreeNumber() const;
  void ReleaseHeldTables();
  void StoreTableWord(uint8_t old_number, uint8_t current_number);
  Named TableIn(const IndexRooms::Room& room, uint64_t capacity);
  bool Full() const;  // empty slots of the current table are not given out any more
  void Prepare();
  void CarveSome();
  void Refused();
  void StartClearing(const IndexRooms::Room& room);
  void ClearSome(uint64_t slots);
  void StartMoving();
  void MoveSome(uint64_t slots);
  void MoveEntry(uint64_t slot, layout::IndexEntry entry);
  void FinishMoving();

  PoolMemory* memory_;
  const uint64_t capacity_min_;
  IndexRooms rooms_;
  IndexTable::Watches watches_;
  uint64_t last_serial_ = 0;  // of tables
  Named current_, old_, next_;
  uint64_t cleared_ = 0;        // of next_: slots below it are empty
  uint64_t moved_ = 0;          // of old_: slots below it hold no entry
  uint64_t retry_at_ = 0;       // filled slots at which a refused carving is tried again
  uint64_t next_capacity_ = 0;  // of the table that room is carved for
  uint64_t carve_at_ = 0;       // filled slots at which an insert carves the next unit
  uint64_t carve_every_ = 0;    // from unit to unit
  // Tables named by the table word that the pool was opened with, while a rebuild is under way.
  Named held_[2];
};

}  // namespace maru::catalogue
