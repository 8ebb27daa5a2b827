#include "wire/compat/field_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "base/utf8.h"
#include "layout/number_key.h"
#include "layout/text.h"

namespace maru::wire::compat {

using layout::Concat;

namespace {

std::array<Field, 4> FieldsOf(RegisterEntry& entry) {
  return {{KeyField("key", &entry.key),
           {"region_id", &entry.region_id},
           {"kv_offset", &entry.offset_bytes},
           {"kv_length", &entry.length_bytes}}};
}

std::array<Field, 5> FieldsOf(StatsEntry& entry) {
  return {{NameField("client_id", &entry.client_id),
           WordField("op_type", &entry.op_type),
           WordField("result", &entry.result, Need::kOptional),
           {"size", &entry.size_bytes, 0, Need::kOptional},
           {"latency_us", &entry.latency_us, 0, Need::kOptional}}};
}

std::array<Field, 5> FieldsOf(LocalRoad& road) {
  return {{{"socket", &road.socket_path, kNameBytesMax},
           {"abstract_name", &road.abstract_name, kNameBytesMax},
           {"host", &road.host, kNameBytesMax},
           {"pool", &road.pool, kNameBytesMax},
           {"namespace", &road.name_space, layout::kNamespaceBytesMax}}};
}

}  // namespace

bool FieldReader::Fail(std::string_view name, std::string_view what) {
  if (error_.empty()) {
    std::string place = list_.empty() ? std::string(map_) : Concat(list_, "[", index_, "]");
    if (!place.empty() && !name.empty()) place += '.';
    error_ = Concat(place, name, " ", what);
  }
  return false;
}

bool FieldReader::FailItem(const Field& field, const MsgpackItem& item, std::string_view expected) {
  return Fail(field.name, Concat("is ", Describe(item), ", ", expected, " was expected"));
}

bool FieldReader::ReadPayload(std::span<Field> fields) {
  if (reader_.bytes_left() == 0) {
    for (const Field& field : fields) {
      if (field.need == Need::kRequired) return Fail(field.name, "is missing");
    }
    return true;
  }
  const bool ok = ReadMap(fields);
  if (!reader_.error().empty()) {
    error_ = reader_.error();
    return false;
  }
  if (!ok) return false;
  if (reader_.bytes_left() == 0) return true;
  error_ = Concat(reader_.bytes_left(), " bytes follow the map");
  return false;
}

bool FieldReader::ReadMap(std::span<Field> fields) {
  MsgpackItem map;
  if (!reader_.Next(&map)) return false;
  const std::string_view what = list_.empty() ? "the payload" : "";
  if (map.kind != MsgpackKind::kMap) {
    return Fail(what, Concat("is ", Describe(map), ", a map was expected"));
  }
  return ReadPairs(map.number, fields);
}

bool FieldReader::ReadPairs(uint64_t pairs, std::span<Field> fields) {
  if (pairs > kMapPairsMax) {
    const bool is_payload = list_.empty() && map_.empty();
    return Fail(is_payload ? "the payload" : "",
                Concat("has ", pairs, " pairs, at most ", kMapPairsMax));
  }
  for (uint64_t i = 0; i < pairs; ++i) {
    if (!ReadPair(fields)) return false;
  }
  for (const Field& field : fields) {
    if (field.need == Need::kRequired && !field.seen) return Fail(field.name, "is missing");
  }
  return true;
}

bool FieldReader::ReadPair(std::span<Field> fields) {
  MsgpackItem key;
  if (!reader_.Next(&key)) return false;
  if (key.kind == MsgpackKind::kMap || key.kind == MsgpackKind::kArray) {
    return Fail(Describe(key), "is the key of a map, a text was expected");
  }
  if (key.kind != MsgpackKind::kText) return reader_.Skip();  // no field of ours
  const auto known = std::ranges::find(fields, key.text, &Field::name);
  return known == fields.end() ? reader_.Skip() : ReadValue(*known);
}

bool FieldReader::ReadValue(Field& field) {
  MsgpackItem item;
  if (!reader_.Next(&item)) return false;
  field.seen = item.kind != MsgpackKind::kNil;
  if (!field.seen) return true;
  return std::visit([&](auto* to) { return Store(field, item, to); }, field.to);
}

bool FieldReader::Store(const Field& field, const MsgpackItem& item, uint64_t* to) {
  if (item.kind != MsgpackKind::kUnsigned) {
    return FailItem(field, item, "a whole number from 0 to 2^64-1");
  }
  *to = item.number;
  return true;
}

bool FieldReader::Store(const Field& field, const MsgpackItem& item, double* to) {
  // One that is none would make a sum none for ever.
  const bool real = item.kind == MsgpackKind::kReal && std::isfinite(item.real) && item.real >= 0;
  if (!real && item.kind != MsgpackKind::kUnsigned) return FailItem(field, item, "a number from 0");
  *to = real ? item.real : static_cast<double>(item.number);
  return true;
}

bool FieldReader::Store(const Field& field, const MsgpackItem& item, bool* to) {
  const bool is_number = item.kind == MsgpackKind::kUnsigned && item.number <= 1;
  if (item.kind != MsgpackKind::kBool && !is_number) return FailItem(field, item, "true or false");
  *to = item.number == 1;
  return true;
}

bool FieldReader::Store(const Field& field, const MsgpackItem& item, std::string_view* to) {
  if (field.letters == Letters::kKey && numbers_ != nullptr) {
    if (item.kind == MsgpackKind::kUnsigned || item.kind == MsgpackKind::kNegative) {
      *to = numbers_->Keep(item.kind == MsgpackKind::kUnsigned
                               ? layout::NumberKey(item.number)
                               : layout::NumberKey(static_cast<int64_t>(item.number)));
      return true;
    }
    if (item.kind != MsgpackKind::kText) return FailItem(field, item, "a text or a whole number");
  }
  if (item.kind != MsgpackKind::kText) return FailItem(field, item, "a text");
  if (item.text.size() > field.max) {
    return Fail(field.name, Concat("has ", item.text.size(), " bytes, at most ", field.max));
  }
  if (field.letters == Letters::kUtf8 && !IsUtf8(item.text)) {
    return Fail(field.name, Concat("is a text of ", item.text.size(), " bytes that is no UTF-8"));
  }
  *to = item.text;
  return true;
}

bool FieldReader::Store(const Field& field, const MsgpackItem& item, std::string* to) {
  if (item.kind == MsgpackKind::kUnsigned) {
    *to = std::to_string(item.number);
    return true;
  }
  std::string_view text;
  if (!Store(field, item, &text)) return false;
  *to = text;
  return true;
}

bool FieldReader::Store(const Field& field, const MsgpackItem& item, LocalRoad* to) {
  if (item.kind != MsgpackKind::kMap) return FailItem(field, item, "a map");
  map_ = field.name;
  auto fields = FieldsOf(*to);
  const bool read = ReadPairs(item.number, fields);
  map_ = {};
  return read;
}

template <typename T>
bool FieldReader::Store(const Field& field, const MsgpackItem& item, std::vector<T>* to) {
  if (item.kind != MsgpackKind::kArray) return FailItem(field, item, "an array");
  if (item.number > field.max) {
    return Fail(field.name, Concat("has ", item.number, " items, at most ", field.max));
  }
  // The count was held against the bytes that are left.
  to->resize(item.number);
  list_ = field.name;
  for (index_ = 0; index_ < to->size(); ++index_) {
    T& entry = (*to)[index_];
    if constexpr (std::is_same_v<T, std::string_view>) {
      MsgpackItem text;
      if (!reader_.Next(&text)) return false;
      const Field element = KeyField("", &entry);
      if (!Store(element, text, &entry)) return false;
    } else {
      auto fields = FieldsOf(entry);
      if (!ReadMap(fields)) return false;
    }
  }
  list_ = {};
  return true;
}

}  // namespace maru::wire::compat
