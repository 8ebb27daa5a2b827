// Texts that keys of a request point to where they are not within its message: of keys that came as
// numbers (layout/number_key.h), and copies of what outlives it. One behind the other in few
// blocks; they stay where they are when this is moved, and as long as a copy of it is there.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace maru::wire::compat {

class KeyTexts {
 public:
  static constexpr size_t kBlockBytesMin = 64;
  static constexpr size_t kBlockBytesMax = 64 * kKiB;

  KeyTexts() = default;
  KeyTexts(KeyTexts&&) = default;
  KeyTexts& operator=(KeyTexts&&) = default;
  // What is kept later is not the other's.
  KeyTexts(const KeyTexts& other) : blocks_(other.blocks_), bytes_(other.bytes_) {}
  KeyTexts& operator=(const KeyTexts& other) { return *this = KeyTexts(other); }

  // A copy that lives as long as this.
  std::string_view Keep(std::string_view text);
  // What they take, with what is left of the last block.
  size_t bytes() const { return bytes_; }

  // Who points to them compares them.
  friend bool operator==(const KeyTexts&, const KeyTexts&) { return true; }

 private:
  char* AddBlock(size_t bytes);

  std::vector<std::shared_ptr<char[]>> blocks_;  // the last may have room left
  size_t block_bytes_ = 0;                       // of the last
  size_t used_ = 0;                              // of the last
  size_t bytes_ = 0;
};

}  // namespace maru::wire::compat
