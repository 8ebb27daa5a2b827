// Which keys go when room is needed: the least recently used of a page size, of a client or of a
// pool that are neither pinned, leased nor on hold for a reader without leases, a batch at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
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
  // From the record on; nothing for 0.
  void Push(Stock* stock, RecordNumber record);
  bool Next(Victim* victim);
  // Where it would go on in each list.
  template <typename Visit>
  void Rest(const Visit& visit) const {
    for (const Cursor& cursor : heap_) visit(cursor.at);
  }

 private:
  struct Cursor {
    uint64_t last_use = 0;
    Victim at;
  };
  static bool Later(const Cursor& a, const Cursor& b) { return a.last_use > b.last_use; }

  std::vector<Cursor> heap_;  // one for each list; the least recent on top
};

// Which keys may go: exactly one of the three is set.
struct Scope {
  uint64_t page_bytes = 0;        // those of this page size, in every pool
  const Client* owner = nullptr;  // the client's own
  const Stock* pool = nullptr;    // those in this pool

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

class NamespaceWalk;  // namespace_walk.h

class Evictor {
 public:
  // Spared keys that one walk moves to the front.
  static constexpr uint32_t kSparedMax = 64 * 1024;
  // Keys on hold, or pinned over a wire that names nobody, that one walk passes by: it moves them
  // to the front and the next walk begins behind them.
  static constexpr uint32_t kPassedMax = 16 * 1024;

  // Of one step of TrimNamespace: keys looked at, and keys retired.
  static constexpr uint64_t kTrimLooksMax = 8 * 1024;
  static constexpr uint64_t kTrimKeysMax = 256;
  // Namespaces whose walk is remembered between two steps.
  static constexpr size_t kTrimsMax = 8;

  Evictor(Core* core, Retirement* retirement, Touches* touches);
  ~Evictor();
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  bool on() const { return core_->options.eviction == Eviction::kLeastRecentlyUsed; }

  // Retires at most one batch, and at least so many keys that their pages make bytes_wanted, as far
  // as the batch reaches. Returns how many went; 0: none of the scope may go, or eviction is off.
  // Their pages are free unless a lease came upon them within the step.
  uint32_t Evict(const Scope& scope, uint64_t bytes_wanted);

  // See Engine::TrimNamespace.
  Engine::Trimmed TrimNamespace(std::string_view name_space, uint64_t bytes_max);

 private:
  void Collect(const Scope& scope, uint64_t bytes_wanted, const LeasedPages* leased,
               std::vector<Target>* batch);
  uint32_t RetireBatch(const Scope& scope, std::vector<Target>* batch);
  NamespaceWalk* WalkOf(std::string_view name_space);

  Core* core_;
  Retirement* retirement_;
  Touches* touches_;
  std::map<std::string, std::unique_ptr<NamespaceWalk>, std::less<>> trims_;  // by namespace
};

}  // namespace maru::engine
