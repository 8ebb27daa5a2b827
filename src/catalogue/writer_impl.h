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
  Impl(std::byte* base, uint64_t bytes, SpaceSource* space, uint32_t index_entries_log2_min)
      : memory(base, bytes),
        runs(&memory, space),
        text(space),
        index(&memory, space, index_entries_log2_min) {}

  // REQUIRES: the record exists; CHECKed.
  layout::PageRecord& Page(RecordNumber record) const;
  // The record's word. REQUIRES: it is in that state; CHECKed.
  layout::StateWord Expect(RecordNumber record, const layout::PageRecord& page,
                           layout::PageState state) const;

  // What a new key brings with it: the fields of its record that are not the key's own.
  struct Fields {
    uint64_t length_bytes = 0;
    uint64_t checksum = 0;
    uint64_t last_use = 0;
    uint64_t extent_offset_bytes = 0;
    ClientId owner{0};
    RegionSlot region{0};  // of an extent; a page has its own since it was cut
  };
  // Text and fields, index entry, `live` last. ResourceExhausted: nothing has changed.
  enum class Place : uint8_t { kPage, kExtent };
  Status GiveKey(RecordNumber record, const KeyRef& key, const Fields& fields, Place place,
                 layout::StateWord live);

  PoolMemory memory;
  RecordRuns runs;
  TextSlabs text;
  IndexWriter index;
};

}  // namespace maru::catalogue
