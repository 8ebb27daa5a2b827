#include "catalogue/key_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "layout/golden_test.h"

namespace maru::catalogue {
namespace {

TEST(KeyText, HasTheBytesThatPoolsWereWrittenWith) {
  std::vector<std::atomic<uint64_t>> words(2);
  StoreText(words.data(), "team", "prefix/0042");
  layout::ExpectGolden(std::as_bytes(std::span(words)), R"(
0000: 74 65 61 6d 70 72 65 66
0008: 69 78 2f 30 30 34 32 00
0010:)",
                       "key_text.md", "text");
}

TEST(KeyText, NothingBehindTheLastWordIsTouched) {
  for (const size_t length :
       {size_t{0}, size_t{1}, size_t{8}, size_t{255}, size_t{256}, size_t{257}, size_t{600}}) {
    const std::string key(length, 'k');
    const size_t used = (length + 3 + 7) / 8;
    std::vector<std::atomic<uint64_t>> words(used + 1);
    words[used].store(42);
    StoreText(words.data(), "abc", key);
    EXPECT_EQ(words[used].load(), 42u) << length;
    const std::string_view text(reinterpret_cast<const char*>(words.data()), used * 8);
    EXPECT_EQ(text.substr(0, 3), "abc");
    EXPECT_EQ(text.substr(3, length), key);
    EXPECT_EQ(text.find_first_not_of('\0', 3 + length), std::string_view::npos);
  }
}

}  // namespace
}  // namespace maru::catalogue
