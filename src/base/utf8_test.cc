#include "base/utf8.h"

#include <gtest/gtest.h>

namespace maru {
namespace {

TEST(Utf8, KnowsSequencesOfEachLength) {
  EXPECT_EQ(Utf8Length(""), 0u);
  EXPECT_EQ(Utf8Length(std::string_view("\0", 1)), 1u);
  EXPECT_EQ(Utf8Length("az"), 1u);
  EXPECT_EQ(Utf8Length("\xC3\xA9z"), 2u);
  EXPECT_EQ(Utf8Length("\xE2\x82\xACz"), 3u);
  EXPECT_EQ(Utf8Length("\xF0\x9F\x98\x80z"), 4u);
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
}

TEST(Utf8, RefusesWhatIsNone) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3z", "\xE0\x9F\xBF", "\xE2\x82", "\xE2\x82z",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_EQ(Utf8Length(text), 0u) << text;
    EXPECT_FALSE(IsUtf8(std::string("a") + text)) << text;
  }
  EXPECT_TRUE(IsUtf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF")) << "beside the limits";
}

TEST(Utf8, ReplacesEachByteThatIsNone) {
  EXPECT_EQ(ReplaceNonUtf8("plain \xC3\xA9"), "plain \xC3\xA9");
  // A digit behind the byte would be taken for one of its own.
  EXPECT_EQ(ReplaceNonUtf8("\xFFz\xE2\x82"), "\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace maru
