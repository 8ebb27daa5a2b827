// Which keys go when room is needed: the least recently used of a page size, of a client or of a
// pool that are neither pinned nor leased, a batch at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/core.h"
#include "engine/page_lists.h"
#include "engine/retire.h"
#include "engine/touches.h"

namespace maru::engine {

// Walks the LIVE pages of several lists from the least recently used on. REQUIRES: the lists do
// not change meanwhile.
class Victims {
 public:
  struct Victim {
    Stock* stock = nullptr;
    RecordNumber record{0};
  };
  void Add(Stock* stock, PageLists::Id list) { Push(stock, stock->lists().Back(list)); }
  bool Next(Victim* victim);

 private:
  struct Cursor {
    uint64_t last_use = 0;
    Victim at;
  };
  static bool Later(const Cursor& a, const Cursor& b) { return a.last_use > b.last_use; }
  void Push(Stock* stock, RecordNumber record);

  std::vector<Cursor> heap_;  // one for each list; the least recent on top
};

// Which keys may go: exactly one of the four is set.
struct Scope {
  uint64_t page_bytes = 0;                          // those of this page size, in every pool
  const Client* owner = nullptr;                    // the client's own
  const Stock* pool = nullptr;                      // those in this pool
  std::optional<std::string_view> name_space = {};  // those of this namespace

  bool Contains(const Stock& stock, RecordNumber record) const;
  uint64_t LivePages(const Core& core) const;
};

// The LIVE pages of a scope that are leased or pinned, by one scan of each pool: a bit a record,
// for one step.
class LeasedPages {
 public:
  LeasedPages(Core* core, const Scope& scope);
  bool Contains(const Stock& stock, RecordNumber record) const;
  uint64_t count() const { return count_; }

 private:
  std::vector<std::vector<bool>> pools_;
  uint64_t count_ = 0;
};

class Evictor {
 public:
  // Spared keys that one walk moves to the front.
  static constexpr uint32_t kSparedMax = 64 * 1024;

  Evictor(Core* core, Retirement* retirement, Touches* touches)
      : core_(core), retirement_(retirement), touches_(touches) {}

  bool on() const { return core_->options.eviction == Eviction::kLeastRecentlyUsed; }

  // Retires at most one batch, and at least so many keys that their pages make bytes_wanted, as far
  // as the batch reaches. Returns how many went; 0: none of the scope may go, or eviction is off.
  // Their pages are free unless a lease came upon them within the step.
  uint32_t Evict(const Scope& scope, uint64_t bytes_wanted);

  // Retires the namespace's least recently used keys until their pages make bytes_max at most, or
  // none may go. Returns the bytes that are left. Walks all keys.
  uint64_t TrimNamespace(std::string_view name_space, uint64_t bytes_max);

 private:
  void Collect(const Scope& scope, uint64_t bytes_wanted, const LeasedPages* leased,
               std::vector<Target>* batch);
  uint32_t RetireBatch(const Scope& scope, std::vector<Target>* batch);

  Core* core_;
  Retirement* retirement_;
  Touches* touches_;
};

}  // namespace maru::engine
