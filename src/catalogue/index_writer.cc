#include "catalogue/index_writer.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/prefetch.h"
#include "catalogue/publication_points.h"

namespace maru::catalogue {

using layout::IndexEntry;
using layout::TableDescriptor;
using layout::TableWord;

namespace {

constexpr uint64_t kCapacityMax = uint64_t{1} << layout::kIndexEntriesLog2Max;

// So many slots filled, with entries and tombstones: the next table is prepared.
constexpr uint64_t PrepareAt(uint64_t capacity) { return capacity / 4 * 3; }
// Where that cannot be: no more empty slots are given out. The room between the two is for the
// tombstones of a table that stays full of entries: inserts find them before they find a gap.
constexpr uint64_t EntriesMax(uint64_t capacity) { return capacity / 8 * 7; }
constexpr uint64_t FilledMax(uint64_t capacity) { return capacity / 16 * 15; }

// A next table is at most 5/8 full of entries, so that it takes capacity / 8 inserts before its own
// successor is prepared: more than those that carve its successor's room and move its predecessor's
// slots.
constexpr uint64_t CapacityFor(uint64_t entries, uint64_t at_least) {
  uint64_t capacity = at_least;
  while (capacity < kCapacityMax && entries > capacity / 8 * 5) capacity *= 2;
  return capacity;
}
static_assert(1.0 / IndexWriter::kMoveSlotsPerInsert < 1.0 / 8 - 1.0 / IndexWriter::kCarvePart);

}  // namespace

IndexWriter::IndexWriter(PoolMemory* memory, SpaceSource* space, uint32_t entries_log2_min)
    : memory_(memory), capacity_min_(uint64_t{1} << entries_log2_min), rooms_(space) {
  MARU_CHECK(entries_log2_min >= layout::kIndexEntriesLog2Min &&
             entries_log2_min <= layout::kIndexEntriesLog2Max)
      << entries_log2_min;
}

uint8_t IndexWriter::FreeNumber() const {
  for (uint8_t number = 0; number < layout::kIndexTables; ++number) {
    bool named = false;
    for (const Named* table : {&current_, &old_, &next_, &held_[0], &held_[1]}) {
      named = named || table->number == number;
    }
    if (!named) return number;
  }
  FailCheck({__FILE__, __LINE__, "a free table number", "five of 64 are in use at most"});
}

Result<IndexWriter::Named> IndexWriter::TakeTable(uint64_t capacity,
                                                  IndexRooms::Contents* contents) {
  MARU_ASSIGN_OR_RETURN(const IndexRooms::Room room, rooms_.Take(capacity * sizeof(uint64_t)));
  *contents = room.contents;
  return TableIn(room, capacity);
}

IndexWriter::Named IndexWriter::TableIn(const IndexRooms::Room& room, uint64_t capacity) {
  Named taken;
  taken.table = IndexTable(memory_->Words(room.offset_bytes), capacity, ++last_serial_, &watches_);
  taken.number = FreeNumber();
  taken.offset_bytes = room.offset_bytes;
  return taken;
}

void IndexWriter::StoreTableWord(uint8_t old_number, uint8_t current_number) {
  std::atomic<uint64_t>& shared = memory_->root().table_word;
  const TableWord word(shared.load(std::memory_order_relaxed));
  // A damaged sequence starts anew. Recovery refuses it but for a pool of an earlier boot, which
  // nobody reads.
  const uint64_t sequence = word.sequence() < kSequenceMax ? word.sequence() + 1 : 1;
  // Seq_cst, with the reader's two loads of the word around its probe: whatever a reader meets in a
  // table that is cleared or filled anew after this store, its second load differs.
  shared.store(TableWord::Make(sequence, old_number, current_number).bits(),
               std::memory_order_seq_cst);
  MARU_PUBLICATION_POINT(points::kTableWord);
}

bool IndexWriter::Full() const {
  const IndexTable& table = current_.table;
  return table.entries() >= EntriesMax(table.capacity()) ||
         table.filled() >= FilledMax(table.capacity());
}

Result<uint64_t> IndexWriter::Place(const Hash128& hash) {
  const IndexTable& table = current_.table;
  const uint64_t slot = table.FirstFree(table.Home(hash));
  if (slot == IndexTable::kNowhere || (Full() && table.At(slot).empty())) {
    return ResourceExhausted("the index is full with " + std::to_string(table.entries()) +
                             " keys and the pool has no room for a larger one");
  }
  return slot;
}

void IndexWriter::Insert(uint64_t slot, const Hash128& hash, RecordNumber record) {
  current_.table.Put(slot, IndexEntry::Make(hash, record));
}

void IndexWriter::Remove(const Hash128& hash, RecordNumber record) {
  const IndexEntry entry = IndexEntry::Make(hash, record);
  if (old_.table.exists()) {
    const uint64_t slot = old_.table.Find(old_.table.Home(hash), entry);
    if (slot != IndexTable::kNowhere) {
      // Not emptied: the old table's slots are what MoveSome walks over, tombstones to the end.
      old_.table.Bury(slot);
      return;
    }
  }
  const uint64_t slot = current_.table.Find(current_.table.Home(hash), entry);
  MARU_CHECK_NE(slot, IndexTable::kNowhere) << "record " << record << " is not in the index";
  current_.table.Remove(slot);
}

bool IndexWriter::Advance(Pace pace) {
  const bool idle = pace == Pace::kIdle;
  if (old_.table.exists()) {
    MoveSome(idle ? kMoveSlotsIdle : kMoveSlotsPerInsert);
  } else if (next_.table.exists()) {
    ClearSome(idle ? kClearSlotsIdle : kClearSlotsPerInsert);
  } else if (rooms_.carving()) {
    if (idle || current_.table.filled() >= carve_at_) CarveSome();
  } else if (current_.table.filled() >= PrepareAt(current_.table.capacity()) &&
             (current_.table.filled() >= retry_at_ || Full())) {
    Prepare();
  }
  return growing();
}

void IndexWriter::Prepare() {
  const IndexTable& table = current_.table;
  next_capacity_ = CapacityFor(table.entries(), table.capacity());
  const uint64_t bytes = next_capacity_ * sizeof(uint64_t);
  if (const IndexRooms::Room spare = rooms_.TakeSpare(bytes); spare.length_bytes != 0) {
    return StartClearing(spare);
  }
  if (!rooms_.BeginCarve(bytes).ok()) return Refused();
  const uint64_t units = AlignUp(bytes, layout::kUnitBytes) / layout::kUnitBytes;
  carve_every_ = table.capacity() / kCarvePart / units;
  carve_at_ = table.filled();
  CarveSome();
}

void IndexWriter::CarveSome() {
  carve_at_ += carve_every_;
  const Result<IndexRooms::Room> room = rooms_.CarveSome();
  if (!room.ok()) return Refused();
  if (room->length_bytes != 0) StartClearing(*room);
}

void IndexWriter::Refused() {
  // The pool is full. Not asked again at every insert, but by those that find no place.
  retry_at_ = current_.table.filled() + current_.table.capacity() / 64;
}

void IndexWriter::StartClearing(const IndexRooms::Room& room) {
  retry_at_ = 0;
  next_ = TableIn(room, next_capacity_);
  cleared_ = 0;
  if (room.contents == IndexRooms::Contents::kZero) StartMoving();
}

void IndexWriter::ClearSome(uint64_t slots) {
  const uint64_t count = std::min(slots, next_.table.capacity() - cleared_);
  next_.table.Clear(cleared_, count);
  cleared_ += count;
  MARU_PUBLICATION_POINT(points::kTableCleared);
  if (cleared_ == next_.table.capacity()) StartMoving();
}

void IndexWriter::StartMoving() {
  const auto log2 = static_cast<uint8_t>(std::countr_zero(next_.table.capacity()));
  // Release, with the reader's acquire load: it reads the table word again afterwards, and who sees
  // this descriptor sees that no table word names its number any more.
  memory_->root().tables[next_.number].store(TableDescriptor::Make(next_.offset_bytes, log2).bits(),
                                             std::memory_order_release);
  MARU_PUBLICATION_POINT(points::kDescriptor);
  old_ = std::exchange(current_, std::exchange(next_, {}));
  moved_ = 0;
  StoreTableWord(old_.number, current_.number);
}

void IndexWriter::MoveEntry(uint64_t slot, IndexEntry entry) {
  const layout::PageRecord* page = memory_->Record(entry.record());
  MARU_CHECK(page != nullptr) << "index entry of record " << entry.record();
  const Hash128 hash{page->hash_low.load(std::memory_order_relaxed),
                     page->hash_high.load(std::memory_order_relaxed)};
  const uint64_t to = current_.table.FirstFree(current_.table.Home(hash));
  MARU_CHECK_NE(to, IndexTable::kNowhere);
  // In the new table first: a reader probes old, then new, and must meet it in one of them.
  current_.table.Put(to, entry);
  MARU_PUBLICATION_POINT(points::kEntryCopied);
  old_.table.Bury(slot);
  MARU_PUBLICATION_POINT(points::kEntryMoved);
}

void IndexWriter::MoveSome(uint64_t slots) {
  const uint64_t end = std::min(moved_ + slots, old_.table.capacity());
  const auto is_entry = [](IndexEntry entry) { return !entry.empty() && !entry.tombstone(); };
  // The records of the slots ahead are fetched while these ones move.
  const uint64_t ahead = std::min(end + slots, old_.table.capacity());
  for (uint64_t slot = end; slot < ahead; ++slot) {
    const IndexEntry entry = old_.table.At(slot);
    if (is_entry(entry)) maru::Prefetch(memory_->Record(entry.record()));
  }
  for (; moved_ < end; ++moved_) {
    const IndexEntry entry = old_.table.At(moved_);
    if (is_entry(entry)) MoveEntry(moved_, entry);
  }
  if (moved_ == old_.table.capacity()) FinishMoving();
}

void IndexWriter::FinishMoving() {
  MARU_CHECK_EQ(old_.table.entries(), 0u);
  const Named emptied = std::exchange(old_, {});
  StoreTableWord(TableWord::kNone, current_.number);
  // Only now may the room be cleared: its successor is published.
  rooms_.GiveBack(emptied.offset_bytes);
}

}  // namespace maru::catalogue
