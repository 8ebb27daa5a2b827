#include "tools/json.h"

#include "base/bytes.h"
#include "base/utf8.h"
#include "tools/output.h"

namespace maru::tools {

void SetText(Json* object, const std::string& name, std::string_view text) {
  if (IsUtf8(text)) {
    (*object)[name] = std::string(text);
  } else {
    (*object)[name + "_hex"] = HexText(AsBytes(text));
  }
}

std::string HexText(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text += kDigits[std::to_integer<size_t>(byte >> 4)];
    text += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

void PrintJson(const Json& json) {
  PrintLine(json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace maru::tools
