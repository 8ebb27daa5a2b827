#include "layout/state_word.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "layout/page_record.h"

namespace maru::layout {
namespace {

TEST(StateWord, ValidInEachState) {
  for (uint8_t state = 0; state <= kPageStateLast; ++state) {
    EXPECT_TRUE(StateWord::Make(static_cast<PageState>(state), Generation(1)).Valid());
    EXPECT_TRUE(StateWord::Make(static_cast<PageState>(state), Generation(kGenerationMax)).Valid());
  }
  EXPECT_TRUE(StateWord().Valid());  // absent, never cut
}

TEST(StateWord, RefusesUnknownStatesAndGenerationsOutOfRange) {
  for (uint8_t state = kPageStateLast + 1; state < 16; ++state) {
    EXPECT_FALSE(StateWord::Make(static_cast<PageState>(state), Generation(1)).Valid());
  }
  EXPECT_FALSE(StateWord::Make(PageState::kFree, Generation(0)).Valid());
  EXPECT_FALSE(StateWord::Make(PageState::kLive, Generation(kGenerationMax + 1)).Valid());
  EXPECT_FALSE(StateWord::Make(PageState::kAbsent, Generation(kGenerationMax + 1)).Valid());
}

TEST(StateWord, AClientOnlyWhileGrantedAndOnlyOneThatExists) {
  const auto granted = [](uint16_t slot) {
    return StateWord::Make(PageState::kGranted, Generation(1), ClientSlot(slot));
  };
  EXPECT_TRUE(granted(0).Valid());
  EXPECT_TRUE(granted(kClientSlots - 1).Valid());
  EXPECT_FALSE(granted(kClientSlots).Valid());
  EXPECT_FALSE(StateWord::Make(PageState::kLive, Generation(1), ClientSlot(1)).Valid());
  EXPECT_FALSE(StateWord::Make(PageState::kAbsent, Generation(1), ClientSlot(1)).Valid());
  EXPECT_EQ(granted(7).With(PageState::kLive), StateWord::Make(PageState::kLive, Generation(1)));
}

TEST(StateWord, RefusesReservedBits) {
  const uint64_t good = StateWord::Make(PageState::kGranted, Generation(5)).bits();
  for (int bit = 16; bit < 28; ++bit) EXPECT_FALSE(StateWord(good | 1ull << bit).Valid()) << bit;
}

TEST(StateWord, FieldsReadBack) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto state = static_cast<PageState>(random.Below(kPageStateLast + 1));
    const Generation generation(static_cast<uint32_t>(random()));
    const ClientSlot client(static_cast<uint16_t>(random()));
    const StateWord word = StateWord::Make(state, generation, client);
    EXPECT_EQ(word.state(), state);
    EXPECT_EQ(word.generation(), generation);
    EXPECT_EQ(word.client(), client);
  }
}

TEST(SlotWord, FieldsReadBack) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const RecordNumber record(static_cast<uint32_t>(random()));
    const Generation generation(static_cast<uint32_t>(random.Below(kGenerationMax) + 1));
    const auto kind = random.OneIn(2) ? SlotWord::Kind::kPin : SlotWord::Kind::kLease;
    const SlotWord word = SlotWord::Make(record, generation, kind);
    EXPECT_EQ(word.record(), record);
    EXPECT_EQ(word.generation(), generation);
    EXPECT_EQ(word.pinned(), kind == SlotWord::Kind::kPin);
    EXPECT_FALSE(word.empty());
  }
}

TEST(KeySizes, KeepToTheirLimitsAndBits) {
  EXPECT_TRUE(KeySizes::Valid(0));
  EXPECT_TRUE(KeySizes::Valid(KeySizes{kKeyBytesMax, kNamespaceBytesMax}.Pack()));
  EXPECT_FALSE(KeySizes::Valid(KeySizes{kKeyBytesMax + 1, 0}.Pack()));
  EXPECT_FALSE(KeySizes::Valid(KeySizes{0, kNamespaceBytesMax + 1}.Pack()));
  for (int bit = 48; bit < 64; ++bit) EXPECT_FALSE(KeySizes::Valid(1ull << bit)) << bit;
  const KeySizes sizes = KeySizes::Unpack(KeySizes{70, 8}.Pack());
  EXPECT_EQ(sizes.key_bytes, 70u);
  EXPECT_EQ(sizes.namespace_bytes, 8u);
  EXPECT_EQ(sizes.text_bytes(), 78u);
}

}  // namespace
}  // namespace maru::layout
