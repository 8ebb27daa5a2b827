// The namespaces of metadata endpoints by their seeds, which is all that the record of a region
// keeps of the endpoint that lent it (docs/formats/region_table.md): for people, so that they can
// name it. Known are those that were opened since the start, and those that had keys then.
//
// Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "catalogue/endpoint_namespace.h"
#include "catalogue/key.h"

namespace maru::engine {

class EndpointNames {
 public:
  static constexpr size_t kNamesMax = 4096;  // beyond, the oldest are forgotten

  // Of a namespace that a handler put below an endpoint's: that endpoint's. Others have none.
  void Add(std::string_view name_space) {
    if (!name_space.starts_with(catalogue::kEndpointScheme)) return;
    const size_t end = name_space.find('/', catalogue::kEndpointScheme.size());
    const catalogue::Namespace endpoint(name_space.substr(0, end));
    if (!names_.emplace(endpoint.seed(), endpoint.text()).second) return;
    order_.push_back(endpoint.seed());
    if (order_.size() <= kNamesMax) return;
    names_.erase(order_.front());
    order_.pop_front();
  }
  // "": of the endpoint without, or not known.
  std::string_view Of(uint64_t seed) const {
    const auto found = names_.find(seed);
    return found == names_.end() ? std::string_view() : found->second;
  }

 private:
  std::map<uint64_t, std::string> names_;  // by seed
  std::deque<uint64_t> order_;             // the oldest first
};

}  // namespace maru::engine
