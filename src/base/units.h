#pragma once

// Sizes in bytes: literals in code, text on the command line and in configuration files.

#include <cstdint>
#include <string>
#include <string_view>

#include "maru/result.h"

namespace maru {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kTiB = 1024 * kGiB;

namespace literals {
consteval std::uint64_t operator""_KiB(unsigned long long n) { return n * kKiB; }
consteval std::uint64_t operator""_MiB(unsigned long long n) { return n * kMiB; }
consteval std::uint64_t operator""_GiB(unsigned long long n) { return n * kGiB; }
}  // namespace literals

// "4GiB", "512M", "64k", "1.5G", "4096", "0": a decimal number, then nothing or one of B, K, M, G,
// T, with or without B or iB, in either case; every unit is a power of 1024. A fraction must come
// out as a whole number of bytes. InvalidArgument names the text and what is wrong with it.
Result<std::uint64_t> ParseSize(std::string_view text);

// For people: "512 B", "64 KiB", "1.5 GiB"; rounded to one decimal.
std::string FormatSize(std::uint64_t bytes);

// For files and messages that are read back: the largest unit that divides, "1536MiB", "4097".
std::string FormatSizeExact(std::uint64_t bytes);

}  // namespace maru
