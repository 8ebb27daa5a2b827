#include "engine/page_lists.h"

namespace maru::engine {

void PageLists::Cover(RecordNumber end) {
  MARU_CHECK_LE(end.value(), kRecordsEnd);
  const uint64_t chunks =
      (uint64_t{end.value()} + layout::kRecordsPerChunk - 1) >> layout::kRecordsPerChunkLog2;
  while (chunks_.size() < chunks) {
    chunks_.push_back(std::make_unique<Node[]>(layout::kRecordsPerChunk));
  }
}

PageLists::Id PageLists::New(ListKind kind) {
  uint32_t list = 0;
  if (!unused_.empty()) {
    list = unused_.back();
    unused_.pop_back();
  } else if (lists_.size() < kListsMax) {
    list = kRecordsEnd + static_cast<uint32_t>(lists_.size());
    lists_.emplace_back();
    kinds_.emplace_back();
  } else {
    return Id(0);
  }
  At(list) = {list, list};
  kinds_[list - kRecordsEnd] = kind;
  return Id(list);
}

void PageLists::Delete(Id list) {
  MARU_CHECK(Empty(list));
  At(list.value()) = {};
  unused_.push_back(list.value());
}

void PageLists::Insert(uint32_t before, RecordNumber record) {
  Node& node = At(record.value());
  MARU_CHECK_EQ(node.next, 0u) << "record " << record << " is in a list already";
  Node& following = At(before);
  node = {following.prev, before};
  At(following.prev).next = record.value();
  following.prev = record.value();
  for (ListWatch* const watch : watches_) watch->Inserted(record, before);
}

void PageLists::Remove(RecordNumber record) {
  Node& node = At(record.value());
  MARU_CHECK_NE(node.next, 0u) << "record " << record << " is in no list";
  for (ListWatch* const watch : watches_) watch->Leaves(record, node.next);
  At(node.prev).next = node.next;
  At(node.next).prev = node.prev;
  node = {};
}

void PageLists::Append(Id from, Id to) {
  if (Empty(from)) return;
  if (!watches_.empty()) {
    while (!Empty(from)) {
      const RecordNumber record = Front(from);
      Remove(record);
      PushBack(to, record);
    }
    return;
  }
  Node& source = At(from.value());
  Node& target = At(to.value());
  At(source.next).prev = target.prev;
  At(target.prev).next = source.next;
  At(source.prev).next = to.value();
  target.prev = source.prev;
  source = {from.value(), from.value()};
}

uint64_t PageLists::heap_bytes() const {
  return chunks_.size() * (sizeof(Node) * layout::kRecordsPerChunk + sizeof(chunks_[0])) +
         lists_.capacity() * (sizeof(Node) + sizeof(ListKind)) +
         unused_.capacity() * sizeof(uint32_t);
}

}  // namespace maru::engine
