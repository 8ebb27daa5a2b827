// What Writer is made of; shared by the files that implement it.
#pragma once

#include "catalogue/index_writer.h"
#include "catalogue/pool_memory.h"
#include "catalogue/record_runs.h"
#include "catalogue/text_slabs.h"
#include "catalogue/writer.h"

namespace maru::catalogue {

class Writer::Impl {
 public:
  Impl(std::byte* base, uint64_t bytes, SpaceSource* space)
      : memory(base, bytes), runs(&memory, space), text(space), index(&memory, space) {}

  // REQUIRES: the record exists; CHECKed.
  layout::PageRecord& Page(RecordNumber record) const;
  // The record's word. REQUIRES: it is in that state; CHECKed.
  layout::StateWord Expect(RecordNumber record, const layout::PageRecord& page,
                           layout::PageState state) const;

  PoolMemory memory;
  RecordRuns runs;
  TextSlabs text;
  IndexWriter index;
};

}  // namespace maru::catalogue
