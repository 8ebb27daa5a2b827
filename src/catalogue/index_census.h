// Looks at every slot of a pool's index over several steps, while the index changes in between:
// that each entry names a record with a key, and that the tables' counts are true.
//
// The slots of a table below a frontier are counted. A store to one of them changes the count as it
// changes the table, so that both are the same when the frontier has come to the end, whatever was
// stored meanwhile. A table that comes into service is looked at as well; one that leaves it takes
// its count with it.
//
// Single-threaded, the writer's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "catalogue/index_writer.h"
#include "catalogue/pool_memory.h"
#include "catalogue/writer.h"

namespace maru::catalogue {

class IndexCensus final : public TableWatch {
 public:
  // Tables that are looked at before it gives up: an index that is replaced that often meanwhile is
  // never seen whole.
  static constexpr uint32_t kTablesMax = 64;
  // What an entry costs beside its slot, in slots: its record is read, which is a cache miss.
  static constexpr uint64_t kSlotsPerEntry = 64;

  // REQUIRES: both outlive this.
  IndexCensus(const PoolMemory* memory, IndexWriter* index);
  ~IndexCensus() override;
  IndexCensus(const IndexCensus&) = delete;
  IndexCensus& operator=(const IndexCensus&) = delete;

  enum class Progress : uint8_t { kMore, kDone, kGaveUp };
  // Looks at *slots_left slots at most and takes off what they and their entries cost; appends what
  // does not agree.
  Progress Step(uint64_t* slots_left, std::vector<Writer::Offender>* offenders);

  // Of the tables in service now.
  uint64_t slots_done() const;

  void Changes(uint64_t table, uint64_t slot, layout::IndexEntry from,
               layout::IndexEntry to) override;

 private:
  // The table that is next to be looked at; nullptr: all are done.
  const IndexTable* Unfinished() const;
  bool Done(const IndexTable& table) const;
  void Look(layout::IndexEntry entry, std::vector<Writer::Offender>* offenders) const;
  void Finish(const IndexTable& table, std::vector<Writer::Offender>* offenders);
  void Count(layout::IndexEntry entry, uint64_t times);

  const PoolMemory* memory_;
  IndexWriter* index_;
  uint32_t tables_ = 0;
  // The table under way.
  uint64_t serial_ = 0, frontier_ = 0, entries_ = 0, tombstones_ = 0;
  uint64_t done_[2] = {0, 0};  // serials of the last two that are done
};

}  // namespace maru::catalogue
