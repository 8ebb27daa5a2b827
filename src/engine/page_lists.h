// Doubly linked lists over the page records of one pool, 8 bytes a record. A page is in one state
// at a time, so it is in at most one list at a time: the free pages of a size, the pages granted to
// a client, the keys of an owner by recency, the quarantined, the condemned.
//
// Knows records by their numbers only and reads none of them. Single-threaded.
//
// Who walks lists over several steps, while they change in between, watches them (ListWatch).
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

// What the pages of a list have in common. Numbers are shown in audits.
enum class ListKind : uint8_t {
  kFree = 1,     // FREE pages of a size
  kGranted = 2,  // pages granted to a client
  kQuarantined = 3,
  kCondemned = 4,  // pages, or extents, that wait for their last lease
  kLive = 5,       // LIVE pages, the most recently used in front
};

// Is told of each change, before anything else happens. Nodes are numbers of records or of lists.
class ListWatch {
 public:
  virtual ~ListWatch() = default;
  // `record` stands before `node` now.
  virtual void Inserted(RecordNumber record, uint32_t node) = 0;
  // `record` is about to leave its list; `next` stands behind it.
  virtual void Leaves(RecordNumber record, uint32_t next) = 0;
};

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
  Id New(ListKind kind);
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
  // All of `from` behind the last of `to`; `from` is empty then. At once, but one by one while the
  // lists are watched.
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

  // --- For who walks lists a part at a time. Numbers of lists are dense: some are in use.
  Id ListAt(uint32_t number) const { return Id(kRecordsEnd + number); }
  uint32_t lists_end() const { return static_cast<uint32_t>(lists_.size()); }
  static bool IsList(uint32_t node) { return node >= kRecordsEnd; }
  static uint32_t NumberOf(Id list) { return list.value() - kRecordsEnd; }
  bool InUse(Id list) const { return At(list.value()).next != 0; }
  ListKind Kind(Id list) const { return kinds_[NumberOf(list)]; }
  uint32_t NodeAfter(uint32_t node) const { return At(node).next; }
  uint32_t NodeBefore(uint32_t node) const { return At(node).prev; }
  // A node that has links: a list, or a record that is covered.
  bool Covered(uint32_t node) const {
    return IsList(node) ? node - kRecordsEnd < lists_.size()
                        : node >> layout::kRecordsPerChunkLog2 < chunks_.size();
  }
  // REQUIRES: the watch ends before it or the lists do.
  void Watch(ListWatch* watch) { watches_.push_back(watch); }
  void Unwatch(ListWatch* watch) { std::erase(watches_, watch); }

  uint64_t heap_bytes() const;

 private:
  friend class PageListsDamage;  // for tests of what an audit finds
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
  std::vector<ListKind> kinds_;                  // of each list
  std::vector<ListWatch*> watches_;
  std::vector<uint32_t> unused_;  // numbers of lists that were deleted
};

}  // namespace maru::engine
