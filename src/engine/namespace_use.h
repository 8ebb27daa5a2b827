// What the LIVE pages of each namespace take, over all pools: counted as it changes, so that a
// quota is compared without a walk. Extents do not count: their clients pay for them by region.
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace maru::engine {

class NamespaceUse {
 public:
  struct Use {
    uint64_t pages = 0, bytes = 0;  // in whole pages
    friend bool operator==(const Use&, const Use&) = default;
  };
  void Add(std::string_view name_space, uint64_t page_bytes) {
    Use& use = Entry(name_space);
    ++use.pages;
    use.bytes += page_bytes;
  }
  // A namespace without a page is forgotten. Sums wrap around where more is taken off than was
  // added, and are true again when that is added.
  void TakeOff(std::string_view name_space, uint64_t page_bytes) {
    Use& use = Entry(name_space);
    --use.pages;
    use.bytes -= page_bytes;
    if (use == Use{}) uses_.erase(uses_.find(name_space));
  }
  Use Of(std::string_view name_space) const {
    const auto found = uses_.find(name_space);
    return found == uses_.end() ? Use{} : found->second;
  }
  using Uses = std::map<std::string, Use, std::less<>>;
  const Uses& all() const { return uses_; }

 private:
  Use& Entry(std::string_view name_space) {
    const auto found = uses_.find(name_space);
    return found != uses_.end() ? found->second : uses_[std::string(name_space)];
  }

  Uses uses_;
};

}  // namespace maru::engine
