// Which bytes are text for readers that are strict about it (UTF-8, RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace maru {

// Bytes of the sequence at the front; 0: there is none, or no text is left.
size_t Utf8Length(std::string_view text);

bool IsUtf8(std::string_view text);

// Each byte that belongs to no sequence becomes U+FFFD.
std::string ReplaceNonUtf8(std::string_view text);

}  // namespace maru
