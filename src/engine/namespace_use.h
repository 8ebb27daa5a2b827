// What the LIVE keys of each namespace take, over all pools: counted as it changes, so that a quota
// is compared, and statistics are told, without a walk. Extents do not count for a quota: their
// clients pay for them by region.
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
    uint64_t extents = 0;
    uint64_t stored_bytes = 0;  // of the keys in either
    uint64_t keys() const { return pages + extents; }
    friend bool operator==(const Use&, const Use&) = default;
  };
  void Add(std::string_view name_space, const Use& more) {
    Use& use = Entry(name_space);
    use.pages += more.pages;
    use.bytes += more.bytes;
    use.extents += more.extents;
    use.stored_bytes += more.stored_bytes;
  }
  // A namespace without a key is forgotten. Sums wrap around where more is taken off than was
  // added, and are true again when that is added.
  void TakeOff(std::string_view name_space, const Use& less) {
    Use& use = Entry(name_space);
    use.pages -= less.pages;
    use.bytes -= less.bytes;
    use.extents -= less.extents;
    use.stored_bytes -= less.stored_bytes;
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
