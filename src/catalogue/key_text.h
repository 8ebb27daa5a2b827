// Key text in the pool: the namespace followed by the key, as 64-bit words so that readers of other
// processes may read it while it is replaced.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "catalogue/key.h"
#include "catalogue/pool_memory.h"
#include "layout/page_record.h"

namespace maru::catalogue {

// Fills whole words, the last one padded with zeros. REQUIRES: `to` has room for them.
void StoreText(std::atomic<uint64_t>* to, std::string_view name_space, std::string_view key);

struct TextParts {
  std::string_view name_space;
  std::string_view key;
};
// The text in place. For the writer alone, which knows that nobody changes it.
// REQUIRES: the record's text offset and sizes were checked.
TextParts TextOf(const PoolMemory& memory, const layout::PageRecord& page);

bool SameText(const PoolMemory& memory, const layout::PageRecord& page, const KeyRef& key);

}  // namespace maru::catalogue
