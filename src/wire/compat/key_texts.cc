#include "wire/compat/key_texts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace maru::wire::compat {

char* KeyTexts::AddBlock(size_t bytes) {
  bytes_ += bytes;
  return blocks_.emplace_back(std::make_shared_for_overwrite<char[]>(bytes)).get();
}

std::string_view KeyTexts::Keep(std::string_view text) {
  char* to = nullptr;
  if (text.size() > kBlockBytesMax / 4) {
    // A block of its own: it would leave much of others unused.
    to = AddBlock(text.size());
    if (blocks_.size() > 1) std::swap(blocks_.back(), *std::prev(blocks_.end(), 2));
    // The first of all: nothing is left of it.
    if (blocks_.size() == 1) block_bytes_ = used_ = text.size();
  } else {
    if (blocks_.empty() || text.size() > block_bytes_ - used_) {
      const size_t next = blocks_.empty() ? 0 : 2 * block_bytes_;
      block_bytes_ = std::max(std::clamp(next, kBlockBytesMin, kBlockBytesMax), text.size());
      used_ = 0;
      AddBlock(block_bytes_);
    }
    to = blocks_.back().get() + used_;
    used_ += text.size();
  }
  std::ranges::copy(text, to);
  return {to, text.size()};
}

}  // namespace maru::wire::compat
