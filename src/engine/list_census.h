// Walks every list of a stock over several steps, while pages go from list to list in between, and
// knows from then on which list each page lies in.
//
// The lists are walked in the order of their numbers, each from its front. What has been met stands
// behind the frontier: its place is known, and a change there changes the places and the counts as
// it changes the lists. A page that enters a list stands behind the frontier if what it stands
// before does. So each page that lies in a list is met exactly once, and none that lies in no list,
// whatever happens meanwhile (docs/audit.md).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "engine/page_lists.h"
#include "engine/stock.h"

namespace maru::engine {

class ListCensus final : public ListWatch {
 public:
  // What a list says that cannot be: the record, what is wrong.
  using Offend = std::function<void(RecordNumber, std::string)>;

  // REQUIRES: the stock outlives this.
  explicit ListCensus(Stock* stock);
  ~ListCensus() override;
  ListCensus(const ListCensus&) = delete;
  ListCensus& operator=(const ListCensus&) = delete;

  // Meets *work pages and lists at most and takes off what it used. use_tick: the clock of last_use
  // now. True: all lists are walked.
  bool Step(uint64_t* work, uint64_t use_tick, const Offend& offend);

  // The list in which the record was met, or has come to lie since; Id(0): none.
  PageLists::Id Where(RecordNumber record) const;
  // How many pages of a list were met, with those that came and without those that left since.
  uint64_t Count(PageLists::Id list) const;
  uint64_t met() const { return met_; }

  // The end of it, in parts as well: it knows nothing from then on, and gives its heap back, *work
  // permitting. True: all of it.
  static constexpr uint64_t kWorkPerChunk = 32;  // to free 64 KiB
  bool Release(uint64_t* work);

  void Inserted(RecordNumber record, uint32_t node) override;
  void Leaves(RecordNumber record, uint32_t next) override;

 private:
  uint32_t& Place(RecordNumber record);
  uint64_t& CountOf(uint32_t list);
  void Meet(RecordNumber record, uint32_t list);
  // The list of which what stands before that node has been met; 0: not met yet, if any.
  uint32_t MetBefore(uint32_t node) const;
  // False: the list cannot be followed any further.
  bool Visit(uint32_t list, uint64_t use_tick, const Offend& offend);
  void CheckOrder(RecordNumber record, uint64_t use_tick, const Offend& offend) const;

  static constexpr uint32_t kAllMet = ~uint32_t{0};

  Stock* stock_;
  const PageLists& lists_;
  uint32_t number_ = 0;   // of the list under way; those below it are done
  bool in_list_ = false;  // its walk has begun
  uint32_t cursor_ = 0;   // the node that is met next; the list itself: its end
  uint64_t met_ = 0;      // in all
  std::vector<std::unique_ptr<uint32_t[]>> chunks_;  // of kRecordsPerChunk each; 0: in no list
  std::vector<uint64_t> counts_;                     // by number of list
};

}  // namespace maru::engine
