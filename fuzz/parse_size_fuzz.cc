// Sizes come from the command line and from configuration files.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const maru::Result<std::uint64_t> parsed = maru::ParseSize(text);
  if (parsed.ok()) {
    // What FormatSize writes without loss reads back as the same number.
    const maru::Result<std::uint64_t> again = maru::ParseSize(maru::FormatSizeExact(*parsed));
    MARU_CHECK(again.ok());
    MARU_CHECK_EQ(*again, *parsed);
  }
  return 0;
}
