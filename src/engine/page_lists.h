// Doubly linked lists over the page records of one pool, 8 bytes a record. A page is in one state
// at a time, so it is in at most one list at a time: the free pages of a size, the pages granted to
// a client, the keys of an owner by recency, the quarantined, the condemned.
//
// Knows records by their numbers only and reads none of them. Single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/prefetch.h"
#include "layout/geometry.h"

namespace maru::engine {

class PageLists {
 public:
  // Names a list; 0 names none.
  using Id = StrongId<struct PageListTag, uint32_t>;
  static constexpr uint32_t kListsMax = 1u << 20;
  // Records from here on have no links: their numbers name lists.
  static constexpr uint32_t kRecordsEnd = 0xFFFFFFFFu - kListsMax;

  // Makes links for all records below `end`. REQUIRES: end <= kRecordsEnd.
  void Cover(RecordNumber end);

  // An empty list; Id(0) when kListsMax are in use.
  Id New();
  // REQUIRES: the list is empty.
  void Delete(Id list);

  bool Linked(RecordNumber record) const { return At(record.value()).next != 0; }
  bool Empty(Id list) const { return At(list.value()).next == list.value(); }
  // The record at that end or beside that record; 0: none.
  RecordNumber Front(Id list) const { return Record(At(list.value()).next); }
  RecordNumber Back(Id list) const { return Record(At(list.value()).prev); }
  RecordNumber Next(RecordNumber record) const { return Record(At(record.value()).next); }
  RecordNumber Prev(RecordNumber record) const { return Record(At(record.value()).prev); }

  // REQUIRES: the record is in no list.
  void PushFront(Id list, RecordNumber record) { Insert(At(list.value()).next, record); }
  void PushBack(Id list, RecordNumber record) { Insert(list.value(), record); }
  void PushBefore(RecordNumber place, RecordNumber record) { Insert(place.value(), record); }
  // REQUIRES: the record is in a list, whichever.
  void Remove(RecordNumber record);
  // All of `from` behind the last of `to`; `from` is empty then.
  void Append(Id from, Id to);

  // Hints before a number of records move: the record's own links, then those of its neighbours,
  // which the former name. REQUIRES for PrefetchBeside: Cover reached the record.
  void Prefetch(RecordNumber record) const {
    if (record.value() >> layout::kRecordsPerChunkLog2 >= chunks_.size()) return;
    maru::Prefetch(&At(record.value()));
  }
  void PrefetchBeside(RecordNumber record) const {
    const Node& node = At(record.value());
    if (node.next == 0) return;
    maru::Prefetch(&At(node.prev));
    maru::Prefetch(&At(node.next));
  }

  uint64_t heap_bytes() const;

 private:
  struct Node {
    uint32_t prev = 0, next = 0;  // 0, 0: in no list
  };
  static_assert(sizeof(Node) == 8);

  static RecordNumber Record(uint32_t node) { return RecordNumber(node < kRecordsEnd ? node : 0); }
  Node& At(uint32_t node) { return const_cast<Node&>(std::as_const(*this).At(node)); }
  const Node& At(uint32_t node) const {
    if (node >= kRecordsEnd) return lists_[node - kRecordsEnd];
    return chunks_[node >> layout::kRecordsPerChunkLog2][node & (layout::kRecordsPerChunk - 1)];
  }
  void Insert(uint32_t before, RecordNumber record);

  std::vector<std::unique_ptr<Node[]>> chunks_;  // of kRecordsPerChunk records each
  std::vector<Node> lists_;                      // the ends of each list
  std::vector<uint32_t> unused_;                 // numbers of lists that were deleted
};

}  // namespace maru::engine
