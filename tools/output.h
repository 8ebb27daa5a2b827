// What commands print: tables for people, JSON for machines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maru::tools {

// Columns as wide as their widest cell; numbers stand right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  size_t rows() const { return rows_.size() - 1; }
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A quoted JSON string; bytes that are no UTF-8 are written as \u00XX of their value, so that a
// byte and the letter of its number look alike: keys are told by JsonKey.
std::string JsonString(std::string_view text);
// The member of an object that names a key, a different one for each: "key": "TEXT", and
// "key_hex": "00FF" of what is no UTF-8.
std::string JsonKey(std::string_view key);
// Text that is safe on a terminal, and one line: control characters and what is no UTF-8 as \xXX.
std::string Printable(std::string_view text);

void Print(std::string_view text);  // to standard output
void PrintLine(std::string_view text);
void Note(std::string_view text);  // one line to standard error

}  // namespace maru::tools
