// The LIVE pages of one pool by their last use: a list for each page size and owner, so that both
// the least recently used key of a size and the least recently used key of a client are found
// without a walk. The keys of dead clients lie in lists of their own, which are merged when they
// become many; one of them is used again: it moves to the size's common list.
//
// Every list is in the order of last_use, the most recent in front. Single-threaded.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "catalogue/view.h"
#include "engine/page_lists.h"

namespace maru::engine {

// A page size of a pool.
using ClassIndex = StrongId<struct ClassIndexTag, uint32_t>;

class Recency {
 public:
  static constexpr uint32_t kOrphanListsMax = 32;

  // REQUIRES: lists outlives this.
  Recency(const catalogue::PoolView& view, PageLists* lists) : view_(view), lists_(lists) {}

  // Classes are added in the order of their indices.
  void AddClass();

  // In front. REQUIRES: the record is in no list; its last_use is the greatest yet. owner: of a
  // client that lives, else 0.
  void Insert(ClassIndex size_class, ClientId owner, RecordNumber record);
  // REQUIRES: was inserted; the owner's id if it still lives, else 0.
  void Remove(ClassIndex size_class, ClientId owner, RecordNumber record);
  void OwnerDied(ClientId owner);

  // All lists of a size; those of an owner, of every size.
  void Lists(ClassIndex size_class, std::vector<PageLists::Id>* out) const;
  void OwnerLists(ClientId owner, std::vector<PageLists::Id>* out) const;
  // Whether a key of that owner (0: dead) may lie in that list.
  bool Holds(ClassIndex size_class, ClientId owner, PageLists::Id list) const;
  uint32_t classes() const { return static_cast<uint32_t>(classes_.size()); }

  uint64_t LastUse(RecordNumber record) const;

 private:
  struct Owned {
    PageLists::Id list{0};
    uint64_t pages = 0;
  };
  struct Orphans {
    PageLists::Id list{0};
    uint64_t pages_at_most = 0;  // some may have left since
  };
  struct SizeClass {
    PageLists::Id common{0};
    std::unordered_map<ClientId, Owned> owned;
    std::vector<Orphans> orphans;
  };

  void MergeSmallest(SizeClass* size_class);
  // Moves all of `from` into `into`, by last_use.
  void Merge(PageLists::Id from, PageLists::Id into);

  catalogue::PoolView view_;
  PageLists* lists_;
  std::vector<SizeClass> classes_;
};

}  // namespace maru::engine
