// Which of a few pages are leased or pinned: one scan of a pool's lease areas. Words found there
// are compared, never followed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "catalogue/lease_areas.h"

namespace maru::engine {

class LeaseScan {
 public:
  explicit LeaseScan(size_t pages_max);

  // Pages are numbered in the order of adding. REQUIRES: fewer than pages_max so far; no record
  // twice.
  void Add(RecordNumber record, Generation generation);
  size_t size() const { return pages_.size(); }

  // Forgets what an earlier scan found.
  void Run(const catalogue::LeaseAreas& areas);
  bool Leased(size_t page) const { return pages_[page].leased; }  // pinned is leased as well
  bool Pinned(size_t page) const { return pages_[page].pinned; }

  // The page's number, or -1.
  int64_t IndexOf(RecordNumber record) const;

 private:
  struct Page {
    RecordNumber record{0};
    Generation generation{0};
    bool leased = false, pinned = false;
  };
  size_t Home(RecordNumber record) const;

  std::vector<Page> pages_;
  std::vector<uint32_t> table_;  // page number + 1, 0: empty; probed linearly, at most half full
};

}  // namespace maru::engine
