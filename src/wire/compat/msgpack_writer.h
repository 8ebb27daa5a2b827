// Appends MessagePack to a vector, each item in its shortest form. Not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/utf8.h"

namespace maru::wire::compat {

class MsgpackWriter {
 public:
  // REQUIRES: out outlives the writer.
  explicit MsgpackWriter(std::vector<std::byte>* out) : out_(out) {}

  // As many pairs, items follow.
  void Map(uint32_t pairs) { Head(pairs, 0x80, 15, 0xde); }
  void Array(size_t items) { Head(items, 0x90, 15, 0xdc); }

  void Bool(bool value) { Byte(value ? 0xc3 : 0xc2); }
  void Number(uint64_t value) {
    if (value <= 0x7f) return Byte(static_cast<uint8_t>(value));
    if (value <= 0xff) return Tagged(0xcc, static_cast<uint8_t>(value));
    if (value <= 0xffff) return Tagged(0xcd, static_cast<uint16_t>(value));
    if (value <= 0xffffffff) return Tagged(0xce, static_cast<uint32_t>(value));
    Tagged(0xcf, value);
  }
  void Real(double value) { Tagged(0xcb, std::bit_cast<uint64_t>(value)); }
  // REQUIRES: valid UTF-8 where the reader is strict; shorter than 4 GiB.
  void Text(std::string_view text) {
    if (text.size() > 31 && text.size() <= 0xff) {
      Tagged(0xd9, static_cast<uint8_t>(text.size()));
    } else {
      Head(text.size(), 0xa0, 31, 0xda);
    }
    Bytes(text);
  }
  // Of unknown bytes: what is no UTF-8 is written as bin, which strict readers take as well.
  // REQUIRES: at most 65,535 bytes.
  void TextOrBin(std::string_view text) {
    if (IsUtf8(text)) return Text(text);
    Tagged(0xc5, static_cast<uint16_t>(text.size()));
    Bytes(text);
  }

 private:
  void Bytes(std::string_view text) {
    const auto bytes = AsBytes(text);
    out_->insert(out_->end(), bytes.begin(), bytes.end());
  }
  void Byte(uint8_t value) { out_->push_back(static_cast<std::byte>(value)); }
  template <typename T>
  void Tagged(uint8_t tag, T value) {
    Byte(tag);
    for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0; shift -= 8) {
      Byte(static_cast<uint8_t>(value >> shift));
    }
  }
  // A count within the tag, or behind TAG16 in 16 bits, or behind the next tag in 32.
  void Head(size_t count, uint8_t tag, size_t within_tag_max, uint8_t tag16) {
    if (count <= within_tag_max) return Byte(static_cast<uint8_t>(tag | count));
    if (count <= 0xffff) return Tagged(tag16, static_cast<uint16_t>(count));
    Tagged(static_cast<uint8_t>(tag16 + 1), static_cast<uint32_t>(count));
  }

  std::vector<std::byte>* const out_;
};

}  // namespace maru::wire::compat
