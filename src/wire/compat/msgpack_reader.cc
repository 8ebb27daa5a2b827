#include "wire/compat/msgpack_reader.h"

#include <array>
#include <bit>
#include <cstdio>

#include "base/bytes.h"
#include "layout/text.h"

namespace maru::wire::compat {

using layout::Concat;

std::string Describe(const MsgpackItem& item) {
  switch (item.kind) {
    case MsgpackKind::kNil: return "nil";
    case MsgpackKind::kBool: return item.number != 0 ? "true" : "false";
    case MsgpackKind::kUnsigned: return std::to_string(item.number);
    case MsgpackKind::kNegative: return std::to_string(static_cast<int64_t>(item.number));
    case MsgpackKind::kReal: {
      std::array<char, 40> text;
      std::snprintf(text.data(), text.size(), "the float %.17g", item.real);
      return text.data();
    }
    case MsgpackKind::kText: return Concat("a text of ", item.text.size(), " bytes");
    case MsgpackKind::kArray: return Concat("an array of ", item.number);
    case MsgpackKind::kMap: return Concat("a map of ", item.number);
    case MsgpackKind::kExtension: return "an extension";
  }
  return "";
}

bool MsgpackReader::Fail(std::string what) {
  left_ = {};  // nothing more is read
  if (error_.empty()) error_ = std::move(what);
  return false;
}

bool MsgpackReader::Take(size_t bytes, uint64_t* number) {
  if (bytes > left_.size()) {
    return Fail(Concat("MessagePack ends within an item: ", bytes, " bytes expected, ",
                       left_.size(), " are left"));
  }
  *number = 0;
  for (size_t i = 0; i < bytes; ++i) *number = *number << 8 | static_cast<uint8_t>(left_[i]);
  left_ = left_.subspan(bytes);
  return true;
}

bool MsgpackReader::TakeSigned(size_t bytes, MsgpackItem* item) {
  if (!Take(bytes, &item->number)) return false;
  const size_t unused_bits = 64 - 8 * bytes;
  // Shifted up and down again, so that the sign fills the upper bits.
  item->number =
      static_cast<uint64_t>(static_cast<int64_t>(item->number << unused_bits) >> unused_bits);
  const bool negative = item->number >> 63 != 0;
  item->kind = negative ? MsgpackKind::kNegative : MsgpackKind::kUnsigned;
  return true;
}

bool MsgpackReader::TakeReal(size_t bytes, MsgpackItem* item) {
  uint64_t raw = 0;
  if (!Take(bytes, &raw)) return false;
  item->kind = MsgpackKind::kReal;
  item->real = bytes == sizeof(float) ? double{std::bit_cast<float>(static_cast<uint32_t>(raw))}
                                      : std::bit_cast<double>(raw);
  return true;
}

bool MsgpackReader::Content(MsgpackKind kind, uint64_t size, MsgpackItem* item) {
  item->kind = kind;
  item->number = size;
  const bool text = kind == MsgpackKind::kText || kind == MsgpackKind::kExtension;
  // Every item takes a byte at least.
  const uint64_t bytes_min = kind == MsgpackKind::kMap ? 2 * size : size;
  if (bytes_min > left_.size()) {
    return Fail(Concat(text                        ? "a text"
                       : kind == MsgpackKind::kMap ? "a map"
                                                   : "an array",
                       " of ", size, text ? " bytes" : " items", " begins where only ",
                       left_.size(), " bytes are left"));
  }
  if (!text) return true;
  item->text = AsText(left_.first(size));
  left_ = left_.subspan(size);
  return true;
}

bool MsgpackReader::Sized(MsgpackKind kind, size_t bytes, MsgpackItem* item) {
  uint64_t size = 0;
  return Take(bytes, &size) && Content(kind, size, item);
}

bool MsgpackReader::Extension(uint64_t size, MsgpackItem* item) {
  uint64_t type = 0;
  return Take(1, &type) && Content(MsgpackKind::kExtension, size, item);
}

bool MsgpackReader::Next(MsgpackItem* item) {
  uint64_t head = 0;
  if (!error_.empty() || !Take(1, &head)) return false;
  if (++items_ > kItemsMax) return Fail(Concat("there are more than ", kItemsMax, " items"));
  const auto tag = static_cast<uint8_t>(head);
  if (tag <= 0x7f) {
    *item = {MsgpackKind::kUnsigned, tag};
    return true;
  }
  if (tag >= 0xe0) {
    *item = {MsgpackKind::kNegative, static_cast<uint64_t>(int64_t{static_cast<int8_t>(tag)})};
    return true;
  }
  if (tag <= 0x8f) return Content(MsgpackKind::kMap, tag & 0x0f, item);
  if (tag <= 0x9f) return Content(MsgpackKind::kArray, tag & 0x0f, item);
  if (tag <= 0xbf) return Content(MsgpackKind::kText, tag & 0x1f, item);
  return Wide(tag, item);
}

bool MsgpackReader::Wide(uint8_t tag, MsgpackItem* item) {
  const size_t width = size_t{1} << (tag & 3);  // of the runs whose first tag is a multiple of 4
  uint64_t size = 0;
  switch (tag) {
    case 0xc0: *item = {}; return true;
    case 0xc1: return Fail("the byte 0xc1 begins no MessagePack item");
    case 0xc2:
    case 0xc3: *item = {MsgpackKind::kBool, tag & 1u}; return true;
    case 0xc4:
    case 0xc5:
    case 0xc6: return Sized(MsgpackKind::kText, width, item);
    case 0xc7:
    case 0xc8:
    case 0xc9: return Take(size_t{1} << (tag - 0xc7), &size) && Extension(size, item);
    case 0xca: return TakeReal(sizeof(float), item);
    case 0xcb: return TakeReal(sizeof(double), item);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: item->kind = MsgpackKind::kUnsigned; return Take(width, &item->number);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: return TakeSigned(width, item);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8: return Extension(uint64_t{1} << (tag - 0xd4), item);
    case 0xd9:
    case 0xda:
    case 0xdb: return Sized(MsgpackKind::kText, size_t{1} << (tag - 0xd9), item);
    case 0xdc:
    case 0xdd: return Sized(MsgpackKind::kArray, size_t{2} << (tag & 1), item);
    default: return Sized(MsgpackKind::kMap, size_t{2} << (tag & 1), item);  // 0xde, 0xdf
  }
}

bool MsgpackReader::Skip() {
  // Items still to pass, by level.
  std::array<uint64_t, kNestingMax + 1> pending{1};
  size_t level = 0;
  MsgpackItem item;
  while (true) {
    while (pending[level] == 0) {
      if (level == 0) return true;
      --level;
    }
    --pending[level];
    if (!Next(&item)) return false;
    const bool map = item.kind == MsgpackKind::kMap;
    if (!map && item.kind != MsgpackKind::kArray) continue;
    if (level == kNestingMax) {
      return Fail(Concat("maps and arrays lie more than ", kNestingMax, " deep in each other"));
    }
    pending[++level] = map ? 2 * item.number : item.number;
  }
}

}  // namespace maru::wire::compat
