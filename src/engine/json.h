// Writes JSON text, for the views that people and tools ask for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maru::engine {

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  // REQUIRES: within an object; its value follows.
  JsonWriter& Key(std::string_view key);
  JsonWriter& Text(std::string_view text);  // bytes that are no UTF-8 become U+FFFD
  JsonWriter& Number(uint64_t number);
  JsonWriter& Bool(bool value);  // NOLINT: the value itself, not a switch
  JsonWriter& Null();

  JsonWriter& Field(std::string_view key, std::string_view text) { return Key(key).Text(text); }
  JsonWriter& Field(std::string_view key, uint64_t number) { return Key(key).Number(number); }

  size_t size() const { return text_.size(); }
  // REQUIRES: everything that was begun is ended.
  std::string Take();

 private:
  void Separate();
  void Escape(std::string_view text);

  std::string text_;
  std::vector<char> open_;  // '{' and '['
  bool first_ = true;       // nothing stands in the innermost one yet
  bool after_key_ = false;
};

}  // namespace maru::engine
