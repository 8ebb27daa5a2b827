// Keys are bytes, but clients of upstream's protocol may name them by whole numbers too, and 42 is
// another key than "42" there. Here a number is the byte 0xC1, which no UTF-8 text has, and its
// decimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace maru::layout {

inline constexpr char kNumberKeyMark = '\xC1';
inline constexpr size_t kNumberKeyBytesMax = 21;  // the mark and 20 characters

// The second is for numbers below 0.
inline std::string NumberKey(uint64_t number) { return kNumberKeyMark + std::to_string(number); }
inline std::string NumberKey(int64_t number) { return kNumberKeyMark + std::to_string(number); }

}  // namespace maru::layout
