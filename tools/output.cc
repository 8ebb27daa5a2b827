#include "tools/output.h"

#include <algorithm>
#include <cstdio>

#include "base/utf8.h"

namespace maru::tools {

namespace {

bool Numeric(const std::string& cell) {
  return !cell.empty() && (cell[0] == '-' || (cell[0] >= '0' && cell[0] <= '9'));
}

// U+0000 to U+001F and U+007F to U+009F, which some terminals take as orders.
bool IsControl(std::string_view text, size_t length) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (length == 2) return byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
  return length == 1 && (byte < 0x20 || byte == 0x7F);
}

std::string Escaped(std::string_view text, const char* format) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0 || IsControl(text, length)) {
      char buffer[8];
      // Of two bytes, the second is the character's number.
      std::snprintf(buffer, sizeof(buffer), format, static_cast<unsigned char>(text[length / 2]));
      out += buffer;
      text.remove_prefix(std::max<size_t>(length, 1));
      continue;
    }
    out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string Table::ToString() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      const bool right = Numeric(row[i]);
      if (i > 0) line += "  ";
      line += right ? pad + row[i] : row[i] + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string JsonString(std::string_view text) {
  std::string quoted;
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return "\"" + Escaped(quoted, "\\u%04x") + "\"";
}

std::string JsonKey(std::string_view key) {
  if (IsUtf8(key)) return "\"key\": " + JsonString(key);
  std::string hex;
  for (const char c : key) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(c));
    hex += digits;
  }
  return "\"key_hex\": \"" + hex + "\"";
}

std::string Printable(std::string_view text) { return Escaped(text, "\\x%02x"); }

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void PrintLine(std::string_view text) {
  Print(text);
  std::fputc('\n', stdout);
}
void Note(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace maru::tools
