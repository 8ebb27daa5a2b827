// Keys as Python gives them: str (its UTF-8), bytes, or int (layout/number_key.h).
#pragma once

#include <nanobind/nanobind.h>

#include <forward_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maru::python {

// The bytes of a key, while this and the object live. Throws TypeError that names what it is
// instead, OverflowError for a number outside -2^63 to 2^64-1.
class Key {
 public:
  explicit Key(nanobind::handle key);
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  std::string_view view() const { return view_; }

 private:
  std::string number_;
  std::string_view view_;  // of the object, or of number_
};

// The keys of an iterable, each kept alive by this.
class Keys {
 public:
  explicit Keys(nanobind::handle iterable);
  std::span<const std::string_view> views() const { return views_; }
  size_t size() const { return views_.size(); }

 private:
  nanobind::tuple objects_;
  std::forward_list<Key> numbers_;
  std::vector<std::string_view> views_;
};

}  // namespace maru::python
