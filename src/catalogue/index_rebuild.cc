// The part of the index writer that runs once, when a pool is opened.
#include <bit>
#include <string>
#include <utility>

#include "base/check.h"
#include "catalogue/index_writer.h"
#include "catalogue/publication_points.h"

namespace maru::catalogue {

using layout::TableDescriptor;
using layout::TableWord;

Status IndexWriter::HoldNamedTables() {
  const layout::Root& root = memory_->root();
  const TableWord word(root.table_word.load(std::memory_order_relaxed));
  if (word.sequence() >= kSequenceMax) {
    return DataLoss("the table word has the impossible sequence " +
                    std::to_string(word.sequence()));
  }
  const uint8_t numbers[2] = {word.current(), word.old_table()};
  for (int i = 0; i < 2; ++i) {
    const uint8_t number = numbers[i];
    if (number == TableWord::kNone) continue;
    if (number >= layout::kIndexTables || (i == 1 && number == numbers[0])) {
      return DataLoss("the table word names index tables " + std::to_string(numbers[0]) + " and " +
                      std::to_string(numbers[1]));
    }
    const TableDescriptor descriptor(root.tables[number].load(std::memory_order_relaxed));
    const std::string name = "index table " + std::to_string(number);
    if (!descriptor.Valid(memory_->bytes())) {
      return DataLoss(name + " has the impossible descriptor " + std::to_string(descriptor.bits()));
    }
    const uint64_t capacity = uint64_t{1} << descriptor.entries_log2();
    const IndexRooms::Room room = rooms_.At(descriptor.offset_bytes());
    if (room.length_bytes < capacity * sizeof(uint64_t)) {
      return DataLoss(name + " lies at " + std::to_string(descriptor.offset_bytes()) +
                      ", where no index region of its size begins");
    }
    if (i == 1 && held_[0].number != TableWord::kNone &&
        held_[0].offset_bytes == room.offset_bytes) {
      return DataLoss("both index tables lie at " + std::to_string(room.offset_bytes));
    }
    rooms_.Hold(room.offset_bytes);
    held_[i].number = number;
    held_[i].offset_bytes = room.offset_bytes;
  }
  return OkStatus();
}

uint64_t IndexWriter::RebuiltCapacity(uint64_t keys) const {
  uint64_t capacity = capacity_min_;
  while (keys > capacity / 8 * 5) capacity *= 2;
  return capacity;
}

Status IndexWriter::BeginRebuild(uint64_t keys) {
  IndexRooms::Contents contents = IndexRooms::Contents::kUnknown;
  const uint64_t capacity = RebuiltCapacity(keys);
  Result<Named> taken = TakeTable(capacity, &contents);
  // A full pool: a table that is filled further is better than none.
  const bool half_does = capacity > capacity_min_ && keys <= capacity / 16 * 7;
  if (!taken.ok() && half_does) taken = TakeTable(capacity / 2, &contents);
  if (!taken.ok() && held_[0].number != TableWord::kNone) {
    // Only the tables that readers may be probing are left. They are told that there is none: they
    // ask the server, which answers when it has opened the pool.
    StoreTableWord(TableWord::kNone, TableWord::kNone);
    ReleaseHeldTables();
    taken = TakeTable(half_does ? capacity / 2 : capacity, &contents);
  }
  if (!taken.ok()) return taken.status();
  current_ = *taken;
  if (contents == IndexRooms::Contents::kUnknown) {
    current_.table.Clear(0, current_.table.capacity());
    MARU_PUBLICATION_POINT(points::kTableCleared);
  }
  return OkStatus();
}

void IndexWriter::PublishRebuilt() {
  const auto log2 = static_cast<uint8_t>(std::countr_zero(current_.table.capacity()));
  // Release, as in StartMoving.
  memory_->root().tables[current_.number].store(
      TableDescriptor::Make(current_.offset_bytes, log2).bits(), std::memory_order_release);
  MARU_PUBLICATION_POINT(points::kDescriptor);
  StoreTableWord(TableWord::kNone, current_.number);
  ReleaseHeldTables();
}

void IndexWriter::ReleaseHeldTables() {
  for (Named& held : held_) {
    if (held.number != TableWord::kNone) rooms_.GiveBack(held.offset_bytes);
    held = {};
  }
}

}  // namespace maru::catalogue
