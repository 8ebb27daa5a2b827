#include "catalogue/text_places.h"

#include <gtest/gtest.h>

#include <memory>

namespace maru::catalogue {
namespace {

constexpr uint64_t kTextBytes = 100;
constexpr uint64_t kBlockBytes = 104;  // of the class that holds such a text
constexpr uint64_t kFirst = 2 << 20;
constexpr uint32_t kGroup = 1u << TextPlaces::kGroupRecordsLog2;

uint64_t Offset(uint32_t record) { return kFirst + record * kBlockBytes; }

TEST(TextPlacesTest, OneTextTellsWhereThoseOfItsGroupLie) {
  const auto places = std::make_unique<TextPlaces>();
  places->Learn(RecordNumber(kGroup + 5), kTextBytes, Offset(kGroup + 5), 0);
  for (uint32_t record = kGroup; record < 2 * kGroup; ++record) {
    EXPECT_EQ(places->Guess(RecordNumber(record), kTextBytes), Offset(record));
  }
  EXPECT_NE(places->Guess(RecordNumber(kGroup - 1), kTextBytes), Offset(kGroup - 1));
  EXPECT_NE(places->Guess(RecordNumber(2 * kGroup), kTextBytes), Offset(2 * kGroup));
}

TEST(TextPlacesTest, OneWrongGuessOfAFewIsLearntFrom) {
  const auto places = std::make_unique<TextPlaces>();
  const RecordNumber record(7);
  for (uint64_t chance = 1; chance < TextPlaces::kLearnOneOf; ++chance) {
    places->Learn(record, kTextBytes, Offset(7), chance);
    EXPECT_NE(places->Guess(record, kTextBytes), Offset(7)) << chance;
  }
  places->Learn(record, kTextBytes, Offset(7), TextPlaces::kLearnOneOf);
  EXPECT_EQ(places->Guess(record, kTextBytes), Offset(7));
}

TEST(TextPlacesTest, AnyRecordAndAnyLengthHaveAGuess) {
  const auto places = std::make_unique<TextPlaces>();
  for (const uint32_t record : {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{kTextBytesMax}, ~uint64_t{0}}) {
      places->Learn(RecordNumber(record), bytes, kFirst, 0);
      EXPECT_EQ(places->Guess(RecordNumber(record), bytes), kFirst);
    }
  }
}

}  // namespace
}  // namespace maru::catalogue
