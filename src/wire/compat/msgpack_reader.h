// Pulls MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) from a span, item by
// item, without a tree and without allocation. Bytes are from outside: every length and count is
// held against the bytes that are there before it is believed.
//
// Texts point into the span. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace maru::wire::compat {

// How deep maps and arrays that are skipped may lie in each other.
inline constexpr uint32_t kNestingMax = 32;
// Items that one reader reads, those that are passed over among them: 16 for each entry of the
// largest batch. Each takes the same time, however few bytes it has.
inline constexpr uint32_t kItemsMax = 1'048'576;

enum class MsgpackKind : uint8_t {
  kNil,
  kBool,       // number is 0 or 1
  kUnsigned,   // number; also what a signed width wrote and is not negative
  kNegative,   // number is the two's complement
  kReal,       // real; float 32 is widened
  kText,       // text; written as str or as bin
  kArray,      // number of items that follow
  kMap,        // number of pairs that follow
  kExtension,  // text is its payload
};

struct MsgpackItem {
  MsgpackKind kind = MsgpackKind::kNil;
  uint64_t number = 0;
  double real = 0;
  std::string_view text;
};

// "-5", "3.5", "a text of 12 bytes": for messages.
std::string Describe(const MsgpackItem& item);

class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::byte> bytes) : left_(bytes) {}

  // Reads the next item; of an array or a map its head, and what it holds follows. False when
  // something is wrong, now or before; error() says what.
  bool Next(MsgpackItem* item);
  // Passes over one item with all that it holds.
  bool Skip();

  size_t bytes_left() const { return left_.size(); }
  const std::string& error() const { return error_; }

 private:
  // The big-endian number of BYTES bytes at the front; sets error_ when they are not there.
  bool Take(size_t bytes, uint64_t* number);
  bool TakeSigned(size_t bytes, MsgpackItem* item);
  bool TakeReal(size_t bytes, MsgpackItem* item);
  // What follows a length or a count that was read.
  bool Content(MsgpackKind kind, uint64_t size, MsgpackItem* item);
  // With a length or count of BYTES bytes in front.
  bool Sized(MsgpackKind kind, size_t bytes, MsgpackItem* item);
  bool Extension(uint64_t size, MsgpackItem* item);
  bool Wide(uint8_t tag, MsgpackItem* item);
  bool Fail(std::string what);

  std::span<const std::byte> left_;
  uint32_t items_ = 0;  // read so far
  std::string error_;
};

}  // namespace maru::wire::compat
