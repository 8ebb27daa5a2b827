// JSON for machines out of more than a few members. Numbers are whole up to 2^64-1.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace maru::tools {

using Json = nlohmann::ordered_json;

// "name": TEXT, and "name_hex": "00ff" of what is no UTF-8, as JsonKey has it.
void SetText(Json* object, const std::string& name, std::string_view text);
// Two digits a byte.
std::string HexText(std::span<const std::byte> bytes);
// To standard output.
void PrintJson(const Json& json);

}  // namespace maru::tools
