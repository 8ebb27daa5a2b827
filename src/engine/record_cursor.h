// Goes through the records of all pools a bounded stretch at a time. A cursor names the record to
// go on with: pool in the upper half, record number in the lower; 0 is the first record, and the
// end.
#pragma once

#include <cstdint>

#include "engine/core.h"
#include "layout/state_word.h"
#include "wire/messages.h"

namespace maru::engine {

class RecordCursor {
 public:
  // Looks at `records_max` records at the most.
  RecordCursor(const Core& core, uint64_t cursor, uint64_t records_max)
      : core_(core),
        pool_(cursor >> 32),
        record_(static_cast<uint32_t>(cursor)),
        left_(records_max) {}

  // The next page in that state. False: at the end, or the stretch is done.
  bool Next(layout::PageState state, wire::PageRef* page) {
    for (; pool_ < core_.stocks.size(); ++pool_, record_ = 0) {
      const Stock& stock = *core_.stocks[pool_];
      if (record_ == 0) record_ = 1;
      // Relaxed: this process is the one that stores it.
      const uint64_t end = stock.pool().view().root().record_high.load(std::memory_order_relaxed);
      while (record_ < end) {
        if (left_ == 0) return false;
        --left_;
        const RecordNumber record(static_cast<uint32_t>(record_++));
        if (!stock.Known(record)) continue;
        const layout::StateWord word = stock.State(record);
        if (word.state() != state) continue;
        *page = stock.Ref(record, word.generation());
        return true;
      }
    }
    return false;
  }
  // Steps back, so that the record that Next() gave is the one to go on with.
  void Unread() { --record_; }

  uint64_t cursor() const { return pool_ >= core_.stocks.size() ? 0 : pool_ << 32 | record_; }

 private:
  const Core& core_;
  uint64_t pool_;
  uint64_t record_;  // 0: the pool's first
  uint64_t left_;
};

}  // namespace maru::engine
