// Goes through the LIVE pages of all pools from the least recently used on and picks those of one
// namespace, over several steps: it stands in every list between two of them and goes along when
// the page that it stands at leaves.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/core.h"
#include "engine/page_lists.h"
#include "engine/retire.h"

namespace maru::engine {

class NamespaceWalk {
 public:
  // REQUIRES: the core outlives this.
  NamespaceWalk(Core* core, std::string_view name_space);
  ~NamespaceWalk();
  NamespaceWalk(const NamespaceWalk&) = delete;
  NamespaceWalk& operator=(const NamespaceWalk&) = delete;

  // Appends the next keys of the namespace: `keys_max` at most, no more than make `bytes_wanted`.
  // Looks at *looks pages at most and takes off what it used.
  void Next(size_t keys_max, uint64_t bytes_wanted, uint64_t* looks, std::vector<Target>* batch);
  // Every page that was there when it began has been looked at, or was used since.
  bool at_end() const;

 private:
  // One for each pool: the page that is next in each list.
  class Places final : public ListWatch {
   public:
    explicit Places(Stock* stock) : stock_(stock) { stock_->WatchLists(this); }
    ~Places() override { stock_->UnwatchLists(this); }
    Places(const Places&) = delete;
    Places& operator=(const Places&) = delete;

    void Inserted(RecordNumber, uint32_t) override {}
    void Leaves(RecordNumber record, uint32_t next) override;

    Stock* const stock_;
    std::unordered_set<uint32_t> records;
  };

  const std::string name_space_;
  const uint64_t began_tick_;
  std::deque<Places> pools_;
};

}  // namespace maru::engine
