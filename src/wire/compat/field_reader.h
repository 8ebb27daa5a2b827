// Fills structs from MessagePack maps with text keys, by tables of fields: keys in any order and
// written as str or bin, unknown ones passed over, the last of several alike wins, nil is as
// absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "wire/compat/metadata.h"
#include "wire/compat/msgpack_reader.h"

namespace maru::wire::compat {

enum class Need : uint8_t { kRequired, kOptional };
// Names are told to others, in texts that their readers may be strict about.
// Keys may also be whole numbers.
enum class Letters : uint8_t { kAnyBytes, kUtf8, kKey };

struct Field {
  using Target = std::variant<uint64_t*, double*, bool*, std::string_view*, std::string*,
                              std::vector<std::string_view>*, std::vector<RegisterEntry>*,
                              std::vector<StatsEntry>*, LocalRoad*>;
  std::string_view name;
  Target to;
  uint64_t max = 0;  // bytes of a text, items of a list
  Need need = Need::kRequired;
  Letters letters = Letters::kAnyBytes;  // of a text
  bool seen = false;
};

// Of an id or a version, and of what is chosen from a few words.
inline Field NameField(std::string_view name, Field::Target to, Need need = Need::kRequired) {
  return {name, to, kNameBytesMax, need, Letters::kUtf8};
}
inline Field KeyField(std::string_view name, std::string_view* to) {
  return {name, to, kKeyBytesMax, Need::kRequired, Letters::kKey};
}
inline Field WordField(std::string_view name, Field::Target to, Need need = Need::kRequired) {
  return {name, to, kWordBytesMax, need, Letters::kUtf8};
}

class FieldReader {
 public:
  // `numbers` gets the texts of keys that are numbers; may be null where no field is a key.
  explicit FieldReader(std::span<const std::byte> payload, KeyTexts* numbers = nullptr)
      : reader_(payload), numbers_(numbers) {}

  // One map and nothing behind it. No bytes at all are a map without pairs.
  bool ReadPayload(std::span<Field> fields);
  // "entries[3].kv_offset is -5, a number from 0 to 2^64-1 was expected"
  const std::string& error() const { return error_; }

 private:
  bool ReadMap(std::span<Field> fields);
  // What follows a map's head.
  bool ReadPairs(uint64_t pairs, std::span<Field> fields);
  bool ReadPair(std::span<Field> fields);
  bool ReadValue(Field& field);

  bool Store(const Field& field, const MsgpackItem& item, uint64_t* to);
  bool Store(const Field& field, const MsgpackItem& item, double* to);
  bool Store(const Field& field, const MsgpackItem& item, bool* to);
  bool Store(const Field& field, const MsgpackItem& item, std::string_view* to);
  bool Store(const Field& field, const MsgpackItem& item, std::string* to);
  bool Store(const Field& field, const MsgpackItem& item, LocalRoad* to);
  template <typename T>
  bool Store(const Field& field, const MsgpackItem& item, std::vector<T>* to);

  bool Fail(std::string_view name, std::string_view what);
  bool FailItem(const Field& field, const MsgpackItem& item, std::string_view expected);

  MsgpackReader reader_;
  KeyTexts* const numbers_;
  std::string_view list_;  // the list that is being read
  std::string_view map_;   // the map within the payload that is being read
  size_t index_ = 0;
  std::string error_;
};

}  // namespace maru::wire::compat
