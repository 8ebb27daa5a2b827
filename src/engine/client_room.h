// Room for a region that a client cuts by itself, in a pool that is full of pages of our own: first
// the regions whose pages are all free, then the keys of those that lie in one piece and were used
// least recently. What is pinned, leased, granted or told to a reader without a lease stays, and so
// does the region around it.
//
// Grants that lie idle in clients' hands are not waited for: they come back later, and a request is
// answered at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core.h"
#include "engine/evict.h"
#include "engine/retire.h"
#include "engine/touches.h"

namespace maru::engine {

class ClientRoom {
 public:
  // Of one request: pages that are looked at, and keys that are retired.
  static constexpr uint64_t kLooksMax = 1024 * 1024;
  static constexpr uint64_t kKeysMax = 64 * 1024;
  static constexpr size_t kKeysPerBatch = 1024;
  // Pieces that are emptied: one for the region, the rest for the catalogue.
  static constexpr int kWindowsMax = 16;

  ClientRoom(Core* core, Retirement* retirement, Evictor* evictor, Touches* touches)
      : core_(core), retirement_(retirement), evictor_(evictor), touches_(touches) {}

  // Frees regions without a key. False: there was none.
  bool FreeIdle(Stock* stock);
  // Retires the keys of regions that, with what is free between them, make room for a region of so
  // many bytes and for what the catalogue keeps beside it, and frees those regions. False: nothing
  // was freed, since there are none such whose keys may go and are kKeysMax at most, or eviction is
  // off.
  bool Empty(Stock* stock, uint64_t bytes);

 private:
  // A part of the pool: a region of pages, or what is free between two.
  struct Part {
    uint64_t offset_bytes = 0, length_bytes = 0;
    RecordNumber first_record{0};
    uint32_t pages = 0;  // 0: free
    uint64_t keys = 0;
    uint64_t last_use = 0;  // the latest of its keys
  };
  struct Window {
    size_t from = 0, to = 0;  // of the parts
    uint64_t last_use = 0, keys = 0;
  };
  // In the order of their places; regions that cannot be emptied are left out.
  std::vector<Part> Parts(Stock* stock) const;
  // False: a page of it has to stay.
  bool Look(const Stock& stock, const LeasedPages& leased, Part* part) const;
  // The one whose latest use is the longest ago.
  static std::optional<Window> Choose(const std::vector<Part>& parts, uint64_t bytes);
  // What has to be emptied, all of it before anything is. None: it does not suffice.
  static std::vector<Part> Plan(const pool::Pool& pool, std::vector<Part> parts, uint64_t bytes);
  void RetireAll(Stock* stock, const Part& part);

  Core* core_;
  Retirement* retirement_;
  Evictor* evictor_;
  Touches* touches_;
};

}  // namespace maru::engine
