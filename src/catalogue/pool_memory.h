// A mapped pool as the server sees it: PoolView's bounds checks, with pointers that may be written
// through. Only the code that changes a catalogue includes this.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "catalogue/view.h"
#include "layout/geometry.h"
#include "layout/page_record.h"
#include "layout/region.h"
#include "layout/superblock.h"

namespace maru::catalogue {

class PoolMemory {
 public:
  // REQUIRES: as PoolView; base is mapped read-write.
  PoolMemory(std::byte* base, uint64_t bytes) : view_(base, bytes), base_(base) {}

  const PoolView& view() const { return view_; }
  uint64_t bytes() const { return view_.bytes(); }

  layout::Root& root() const { return *At<layout::Root>(layout::kRootOffset); }
  layout::RecordDirectory& record_directory() const {
    return *At<layout::RecordDirectory>(layout::kRecordDirectoryOffset);
  }
  // The casts only give back what the constructor was given: the memory is not const.
  layout::PageRecord* Record(RecordNumber record) const {
    return const_cast<layout::PageRecord*>(view_.Record(record));
  }
  layout::ClientRecord* Client(ClientSlot slot) const {
    return const_cast<layout::ClientRecord*>(view_.Client(slot));
  }

  // REQUIRES: in the pool and aligned.
  template <typename T>
  T* At(uint64_t offset_bytes) const {
    MARU_DCHECK_LE(offset_bytes + sizeof(T), view_.bytes());
    return reinterpret_cast<T*>(base_ + offset_bytes);
  }
  std::atomic<uint64_t>* Words(uint64_t offset_bytes) const {
    return At<std::atomic<uint64_t>>(offset_bytes);
  }

 private:
  PoolView view_;
  std::byte* base_;
};

}  // namespace maru::catalogue
