// Visitors of messages for tests: one that fills a message with random content, one that shows it.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "layout/text.h"
#include "wire/schema.h"

namespace maru::wire {

// Content within the bounds of each field. Owns the texts: must outlive what it filled.
class RandomFill {
 public:
  explicit RandomFill(Random& random, uint64_t items_max = 20, uint64_t text_max = 300)
      : random_(random), items_max_(items_max), text_max_(text_max) {}

  template <typename T>
  void Number(const char* name, T& to, uint64_t max = ~uint64_t{0}) {
    const uint64_t top = std::min<uint64_t>(max, static_cast<Raw<T>>(~Raw<T>{0}));
    uint64_t drawn = random_.OneIn(4) ? top : random_.Between(0, top);
    // Of another version nothing but the version is encoded.
    if (std::string_view(name) == "protocol_version") drawn = layout::kProtocolVersion;
    to = T(static_cast<Raw<T>>(drawn));
  }
  void Flag(const char*, bool& to) { to = random_.OneIn(2); }
  template <typename T>
  void Choice(const char*, T& to, T last) {
    to = static_cast<T>(random_.Between(1, RawOf(last)));
  }
  void Pool(const char*, PoolIndex& to) {
    to = PoolIndex(static_cast<uint8_t>(random_.Below(layout::kPoolsMax)));
  }
  void Page(const char* name, PageRef& to) {
    Pool(name, to.pool);
    to.record = RecordNumber(static_cast<uint32_t>(random_()));
    to.generation = Generation(static_cast<uint32_t>(random_()));
  }
  void Text(const char*, std::string_view& to, uint64_t max) {
    texts_.push_back(Draw(max));
    to = texts_.back();
  }
  void Json(const char*, std::string& to, uint64_t max) { to = Draw(max); }
  void Uuid(const char*, layout::Uuid& to) {
    for (uint8_t& byte : to) byte = static_cast<uint8_t>(random_());
  }
  void Block(const char*, uint64_t& to) {
    to = random_.Below(layout::kPoolBytesMax / layout::kLeaseBlockBytes) * layout::kLeaseBlockBytes;
  }
  template <typename T>
  void List(const char*, std::vector<T>& to, uint64_t max) {
    to.resize(random_.Between(0, std::min(max, items_max_)));
    for (T& item : to) Walk(*this, item);
  }
  void Rest() {}

 private:
  std::string Draw(uint64_t max) {
    std::string text(random_.Between(0, std::min(max, text_max_)), '\0');
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }

  Random& random_;
  uint64_t items_max_;
  uint64_t text_max_;
  std::deque<std::string> texts_;
};

// All fields with their values, as text to compare.
class Show {
 public:
  const std::string& text() const { return text_; }

  template <typename T>
  void Number(const char* name, const T& value, uint64_t = 0) {
    Add(name, layout::Concat(RawOf(value)));
  }
  void Flag(const char* name, const bool& value) { Add(name, value ? "true" : "false"); }
  template <typename T>
  void Choice(const char* name, const T& value, T) {
    Add(name, layout::Concat(RawOf(value)));
  }
  void Pool(const char* name, const PoolIndex& pool) { Add(name, layout::Concat(pool.value())); }
  void Page(const char* name, const PageRef& page) {
    Add(name,
        layout::Concat(page.pool.value(), "/", page.record.value(), "/", page.generation.value()));
  }
  void Text(const char* name, const std::string_view& text, uint64_t) { Add(name, text); }
  void Json(const char* name, const std::string& text, uint64_t) { Add(name, text); }
  void Uuid(const char* name, const layout::Uuid& uuid) {
    Add(name, {reinterpret_cast<const char*>(uuid.data()), uuid.size()});
  }
  void Block(const char* name, const uint64_t& offset) { Add(name, layout::Concat(offset)); }
  template <typename T>
  void List(const char* name, const std::vector<T>& list, uint64_t) {
    Add(name, layout::Concat("list of ", list.size()));
    for (const T& item : list) Walk(*this, item);
  }
  void Rest() {}

 private:
  void Add(const char* name, std::string_view value) {
    text_ += layout::Concat(name, "=", value, ";");
  }

  std::string text_;
};

// The fields in their order with their types, as docs/formats/frame.md writes them.
class FieldList {
 public:
  struct Field {
    std::string name, type;
    friend bool operator==(const Field&, const Field&) = default;
  };
  const std::vector<Field>& fields() const { return fields_; }

  template <typename T>
  void Number(const char* name, const T&, uint64_t = 0) {
    Add(name, layout::Concat("u", 8 * sizeof(Raw<T>)));
  }
  void Flag(const char* name, const bool&) { Add(name, "flag"); }
  template <typename T>
  void Choice(const char* name, const T&, T) {
    Add(name, layout::Concat("u", 8 * sizeof(T)));
  }
  void Pool(const char* name, const PoolIndex&) { Add(name, "u32"); }
  void Page(const char* name, const PageRef&) { Add(name, "page"); }
  void Text(const char* name, const std::string_view&, uint64_t) { Add(name, "text"); }
  void Json(const char* name, const std::string&, uint64_t) { Add(name, "text"); }
  void Uuid(const char* name, const layout::Uuid&) { Add(name, "uuid"); }
  void Block(const char* name, const uint64_t&) { Add(name, "block"); }
  template <typename T>
  void List(const char* name, const std::vector<T>&, uint64_t) {
    FieldList item;
    item.prefix_ = prefix_ + name + "[].";
    const T sample{};
    Walk(item, sample);
    // A list of single values is one row, a list of structs has a row for each field.
    if (item.fields_.size() == 1) {
      Add(name, "list of " + item.fields_[0].type);
    } else {
      Add(name, "list");
      fields_.insert(fields_.end(), item.fields_.begin(), item.fields_.end());
    }
  }
  void Rest() {}

 private:
  void Add(const char* name, std::string type) {
    fields_.push_back({prefix_ + name, std::move(type)});
  }

  std::string prefix_;
  std::vector<Field> fields_;
};

}  // namespace maru::wire
