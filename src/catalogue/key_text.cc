#include "catalogue/key_text.h"

#include <algorithm>
#include <cstring>

namespace maru::catalogue {

void StoreText(std::atomic<uint64_t>* to, std::string_view name_space, std::string_view key) {
  constexpr size_t kStagedBytes = 256;
  char staged[kStagedBytes];
  size_t filled = 0;
  // Release, with the reader's acquire loads: who meets a word of this text sees that the record
  // was CONDEMNED before, so the second look at its state word tells.
  const auto flush = [&] {
    while (filled % sizeof(uint64_t) != 0) staged[filled++] = 0;
    for (size_t at = 0; at < filled; at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, staged + at, sizeof(word));
      (to++)->store(word, std::memory_order_release);
    }
    filled = 0;
  };
  for (std::string_view rest : {name_space, key}) {
    while (!rest.empty()) {
      const size_t count = std::min(rest.size(), kStagedBytes - filled);
      std::memcpy(staged + filled, rest.data(), count);
      filled += count;
      rest.remove_prefix(count);
      if (filled == kStagedBytes) flush();
    }
  }
  flush();
}

TextParts TextOf(const PoolMemory& memory, const layout::PageRecord& page) {
  // Relaxed: stored by this thread, or found in a pool that is being opened.
  const auto sizes = layout::KeySizes::Unpack(page.key_sizes.load(std::memory_order_relaxed));
  const uint64_t offset = page.text_offset.load(std::memory_order_relaxed);
  const char* text = memory.At<char>(offset);
  return {{text, sizes.namespace_bytes}, {text + sizes.namespace_bytes, sizes.key_bytes}};
}

bool SameText(const PoolMemory& memory, const layout::PageRecord& page, const KeyRef& key) {
  if (page.hash_low.load(std::memory_order_relaxed) != key.hash.low ||
      page.hash_high.load(std::memory_order_relaxed) != key.hash.high) {
    return false;
  }
  const TextParts text = TextOf(memory, page);
  return text.name_space == key.name_space && text.key == key.key;
}

}  // namespace maru::catalogue
