// The sizes of the blocks that key text lies in. A slab holds blocks of one class; the class
// follows from the length of the text, so that a restart finds every block from the records alone.
// These sizes are part of the pool's format: another table is another layout version.
//
// Multiples of 8 up to 256 bytes, then steps of about a quarter, each widened to the largest size
// of which as many fit into a slab; the last holds the longest namespace and key.
#pragma once

#include <array>
#include <cstdint>

#include "layout/geometry.h"

namespace maru::catalogue {

inline constexpr uint32_t kTextFineBytesMax = 256;
inline constexpr uint32_t kTextFineClasses = kTextFineBytesMax / layout::kTextGranuleBytes;
inline constexpr uint32_t kTextBytesMax = layout::kNamespaceBytesMax + layout::kKeyBytesMax;
inline constexpr uint32_t kTextClasses = 55;

consteval std::array<uint32_t, kTextClasses> MakeTextClasses() {
  std::array<uint32_t, kTextClasses> sizes{};
  uint32_t count = 0;
  for (; count < kTextFineClasses; ++count) {
    sizes[count] = (count + 1) * static_cast<uint32_t>(layout::kTextGranuleBytes);
  }
  constexpr auto kSlab = static_cast<uint32_t>(layout::kTextSlabBytes);
  while (sizes[count - 1] < kTextBytesMax) {
    const uint32_t step = sizes[count - 1] + sizes[count - 1] / 4;
    sizes[count] = step > kSlab ? kSlab : (kSlab / (kSlab / step)) & ~7u;
    ++count;
  }
  // Too few entries for the loop do not compile (an index out of bounds); too many would leave a
  // zero at the end, which TextClass never reaches and the assertion below refuses.
  return sizes;
}

inline constexpr std::array<uint32_t, kTextClasses> kTextClassBytes = MakeTextClasses();
static_assert(kTextClassBytes.back() >= kTextBytesMax);
static_assert(kTextClassBytes.back() <= layout::kTextSlabBytes);

// The smallest class that holds the text; even an empty text has a block, so that no LIVE record is
// without an offset. REQUIRES: text_bytes <= kTextBytesMax
constexpr uint32_t TextClass(uint64_t text_bytes) {
  if (text_bytes <= kTextFineBytesMax) {
    return text_bytes == 0 ? 0
                           : static_cast<uint32_t>((text_bytes - 1) / layout::kTextGranuleBytes);
  }
  uint32_t low = kTextFineClasses, high = kTextClasses - 1;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (kTextClassBytes[middle] >= text_bytes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

constexpr uint32_t TextBlocks(uint32_t text_class) {
  return static_cast<uint32_t>(layout::kTextSlabBytes / kTextClassBytes[text_class]);
}

}  // namespace maru::catalogue
