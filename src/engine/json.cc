#include "engine/json.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace maru::engine {

void JsonWriter::Separate() {
  if (!after_key_ && !first_ && !open_.empty()) text_ += ',';
  after_key_ = false;
  first_ = false;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  text_ += '{';
  open_.push_back('{');
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  MARU_CHECK(!open_.empty() && open_.back() == '{' && !after_key_);
  open_.pop_back();
  text_ += '}';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  text_ += '[';
  open_.push_back('[');
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  MARU_CHECK(!open_.empty() && open_.back() == '[');
  open_.pop_back();
  text_ += ']';
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  MARU_CHECK(!open_.empty() && open_.back() == '{' && !after_key_);
  Separate();
  Escape(key);
  text_ += ':';
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::Text(std::string_view text) {
  Separate();
  Escape(text);
  return *this;
}

JsonWriter& JsonWriter::Number(uint64_t number) {
  Separate();
  text_ += std::to_string(number);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  text_ += "null";
  return *this;
}

std::string JsonWriter::Take() {
  MARU_CHECK(open_.empty());
  first_ = true;
  return std::exchange(text_, {});
}

void JsonWriter::Escape(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  text_ += '"';
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t bytes = Utf8Length(text.substr(at));
    if (bytes == 0) {
      text_ += "\\ufffd";
      ++at;
      continue;
    }
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      text_ += "\\u00";
      text_ += kHex[static_cast<uint8_t>(c) >> 4];
      text_ += kHex[c & 15];
    } else {
      text_.append(text, at, bytes);
    }
    at += bytes;
  }
  text_ += '"';
}

}  // namespace maru::engine
