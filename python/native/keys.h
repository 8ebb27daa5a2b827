// Keys as Python gives them: str (its UTF-8) or bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string_view>
#include <vector>

namespace maru::python {

// The bytes of a key. Lives as long as the object; TypeError names what it is instead.
std::string_view KeyOf(nanobind::handle key);

// The keys of an iterable, each kept alive by this.
class Keys {
 public:
  explicit Keys(nanobind::handle iterable);
  std::span<const std::string_view> views() const { return views_; }
  size_t size() const { return views_.size(); }

 private:
  nanobind::tuple objects_;
  std::vector<std::string_view> views_;
};

}  // namespace maru::python
