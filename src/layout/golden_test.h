// Golden bytes for tests: dumps that are written by hand, in a test and on a format's page.
//
// A dump has lines of an offset, a colon, bytes, and a comment after a semicolon; all numbers are
// hexadecimal, bytes that no line gives are zero, and the last line is the bare size:
//
//   0000: 4d 41 52 55  ; magic
//   0010:
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "layout/text.h"

namespace maru::layout {

using Bytes = std::vector<std::byte>;

inline Bytes FromDump(std::string_view dump) {
  std::istringstream lines{std::string(dump)};
  Bytes bytes;
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find(';'));
    const size_t colon = line.find(':');
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (colon == std::string::npos) throw std::runtime_error("dump without an offset: " + line);
    const size_t offset = std::stoul(line.substr(0, colon), nullptr, 16);
    if (offset < bytes.size()) throw std::runtime_error("dump goes backwards: " + line);
    bytes.resize(offset);
    std::istringstream words(line.substr(colon + 1));
    for (std::string word; words >> word;) {
      if (word.size() != 2) throw std::runtime_error("dump has no byte: " + line);
      bytes.push_back(static_cast<std::byte>(std::stoul(word, nullptr, 16)));
    }
  }
  return bytes;
}

inline std::string ToDump(std::span<const std::byte> bytes) {
  std::string out;
  char text[32];
  for (size_t at = 0; at < bytes.size(); at += 16) {
    const auto line = bytes.subspan(at, std::min<size_t>(16, bytes.size() - at));
    if (std::ranges::all_of(line, [](std::byte b) { return b == std::byte{0}; })) continue;
    std::snprintf(text, sizeof(text), "%04zx:", at);
    out += text;
    for (const std::byte b : line) {
      std::snprintf(text, sizeof(text), " %02x", static_cast<unsigned>(b));
      out += text;
    }
    out += '\n';
  }
  std::snprintf(text, sizeof(text), "%04zx:\n", bytes.size());
  return out + text;
}

// The dump between "```dump NAME" and "```" on a page of docs/formats/.
inline std::string DumpOnPage(std::string_view page, std::string_view name) {
  const std::string path = Concat(MARU_FORMATS_DIR "/", page);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string head = Concat("```dump ", name, "\n");
  const size_t start = text.find(head);
  if (start == std::string::npos) throw std::runtime_error(path + " has no dump " + head);
  const size_t from = start + head.size();
  return text.substr(from, text.find("```", from) - from);
}

template <typename T>
std::span<const std::byte> BytesOf(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

// The bytes are those of the dump in the test, and the page shows the same.
inline void ExpectGolden(std::span<const std::byte> bytes, std::string_view dump,
                         std::string_view page, std::string_view name) {
  EXPECT_EQ(ToDump(bytes), ToDump(FromDump(dump))) << name << " has other bytes than the test says";
  EXPECT_EQ(ToDump(FromDump(DumpOnPage(page, name))), ToDump(FromDump(dump)))
      << "docs/formats/" << page << " shows other bytes than the test says";
}

}  // namespace maru::layout
