#include "wire/compat/key_texts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "layout/number_key.h"

namespace maru::wire::compat {
namespace {

TEST(KeyTexts, StayWhereTheyAreWhateverFollowsAndWhenMoved) {
  KeyTexts texts;
  std::vector<std::string> expected;
  std::vector<std::string_view> kept;
  for (const size_t size :
       {size_t{1}, size_t{0}, KeyTexts::kBlockBytesMin, size_t{5000}, KeyTexts::kBlockBytesMax,
        KeyTexts::kBlockBytesMax / 4, size_t{65'535}, KeyTexts::kBlockBytesMax / 4 + 1}) {
    for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f'}) {
      expected.emplace_back(size, letter);
      kept.push_back(texts.Keep(expected.back()));
    }
  }
  const KeyTexts moved = std::move(texts);
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i], expected[i]) << i;
}

TEST(KeyTexts, StayAsLongAsACopyIsThere) {
  auto first = std::make_unique<KeyTexts>();
  const std::string_view kept = first->Keep("kept");
  KeyTexts copy = *first;
  const std::string_view of_copy = copy.Keep("its own");
  const std::string_view later = first->Keep("another");
  EXPECT_EQ(of_copy, "its own");
  EXPECT_EQ(later, "another");
  first.reset();
  EXPECT_EQ(kept, "kept");
}

TEST(KeyTexts, ALargeOneFirstLeavesRoomForNoOther) {
  KeyTexts texts;
  const std::string large(KeyTexts::kBlockBytesMax, 'x');
  const std::string_view first = texts.Keep(large);
  const std::string_view second = texts.Keep("yy");
  EXPECT_EQ(first, large);
  EXPECT_EQ(second, "yy");
  EXPECT_EQ(texts.bytes(), large.size() + KeyTexts::kBlockBytesMax);
}

TEST(KeyTexts, OfNumbersTakeLittleMoreThanTheirLetters) {
  KeyTexts texts;
  size_t letters = 0;
  constexpr uint64_t kNumbers = 65'536;
  for (uint64_t i = 0; i < kNumbers; ++i) letters += texts.Keep(layout::NumberKey(i)).size();
  EXPECT_GE(texts.bytes(), letters);
  EXPECT_LE(texts.bytes(), letters + letters / 100 + KeyTexts::kBlockBytesMax);
}

}  // namespace
}  // namespace maru::wire::compat
