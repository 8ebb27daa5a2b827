// The small ones: ids, units, hashes, clock, random, log.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/hash_stream.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/random.h"
#include "base/test_log.h"
#include "base/units.h"

namespace maru {
namespace {

static_assert(!std::is_convertible_v<RegionId, RegionSlot>);
static_assert(!std::is_constructible_v<RegionId, RegionSlot>);
static_assert(!std::is_convertible_v<RegionId, std::uint32_t>);
static_assert(!std::is_convertible_v<std::uint32_t, RegionId>);
static_assert(sizeof(Generation) == sizeof(std::uint32_t));
static_assert(std::is_trivially_copyable_v<RecordNumber>);

TEST(Ids, CompareAndHashByValue) {
  EXPECT_EQ(RegionId(3), RegionId(3));
  EXPECT_LT(RegionId(3), RegionId(4));
  EXPECT_EQ(RegionId().value(), 0u);
  const std::unordered_set<ClientId> set = {ClientId(1), ClientId(2), ClientId(1)};
  EXPECT_EQ(set.size(), 2u);
}

TEST(Units, ParsesSizes) {
  using namespace literals;
  const std::vector<std::pair<std::string_view, std::uint64_t>> good = {
      {"0", 0},           {"4096", 4096},   {"4GiB", 4_GiB},
      {"512M", 512_MiB},  {"64k", 64_KiB},  {"64KB", 64_KiB},
      {"1.5G", 1536_MiB}, {"2 MiB", 2_MiB}, {"7B", 7},
      {"0.5k", 512},      {"1tib", kTiB},   {"18446744073709551615", 18446744073709551615u}};
  for (const auto& [text, bytes] : good) {
    const Result<std::uint64_t> parsed = ParseSize(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().ToString();
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const std::string_view text :
       {"", "G", "-1", "+1", "1X", "1GG", "1KiBs", "1.", ".5", "0.3", "1.1234567G", "1  M", " 1",
        "18446744073709551616", "16777216T", "17179869184GiB", "1e3", "0x10"}) {
    const Result<std::uint64_t> parsed = ParseSize(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("4GiB"), std::string_view::npos);
  }
}

TEST(Units, FormatsSizes) {
  EXPECT_EQ(FormatSize(0), "0 B");
  EXPECT_EQ(FormatSize(1023), "1023 B");
  EXPECT_EQ(FormatSize(64 * kKiB), "64 KiB");
  EXPECT_EQ(FormatSize(1536 * kMiB), "1.5 GiB");
  EXPECT_EQ(FormatSize(kMiB - 1), "1 MiB");
  EXPECT_EQ(FormatSize(~std::uint64_t{0}), "16777216 TiB");
  EXPECT_EQ(FormatSizeExact(1536 * kMiB), "1536MiB");
  EXPECT_EQ(FormatSizeExact(4097), "4097");
  EXPECT_EQ(FormatSizeExact(0), "0");
}

TEST(Units, ExactFormReadsBack) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t bytes = random() >> random.Below(64);
    EXPECT_EQ(*ParseSize(FormatSizeExact(bytes)), bytes);
  }
}

TEST(Hash, HasTheValuesOfTheSpecification) {
  // From XXH3's published test values: empty input, seed 0.
  EXPECT_EQ(HashBytes64({}), 0x2d06800538d394c2u);
  EXPECT_EQ(HashBytes128({}), (Hash128{0x6001c324468d497fu, 0x99aa06d3014798d8u}));
}

TEST(Hash, OfPartsIsThatOfTheWhole) {
  std::string text(5000, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 3);
  HashStream64 stream;
  EXPECT_EQ(stream.Sum(), HashBytes64({}));
  for (const size_t part : {1, 239, 240, 241, 1024, 5000}) {
    stream.Begin();
    for (size_t at = 0; at < text.size(); at += part) {
      stream.Add(AsBytes(std::string_view(text).substr(at, part)));
    }
    EXPECT_EQ(stream.Sum(), HashBytes64(AsBytes(text))) << part;
  }
}

TEST(Hash, DependsOnBytesAndSeed) {
  const auto bytes = AsBytes("prefix");
  EXPECT_EQ(HashBytes128(bytes, 1), HashBytes128(bytes, 1));
  EXPECT_NE(HashBytes128(bytes, 1), HashBytes128(bytes, 2));
  EXPECT_NE(HashBytes64(bytes, 1), HashBytes64(AsBytes("prefiy"), 1));
}

TEST(FakeClock, MovesOnlyWhenTold) {
  FakeClock clock(5);
  EXPECT_EQ(clock.Now(), 5);
  EXPECT_EQ(clock.Now(), 5);
  clock.AdvanceMillis(2);
  EXPECT_EQ(clock.Now(), 2'000'005);
}

TEST(Random, SameSeedSameNumbers) {
  Random a(42);
  Random b(42);
  Random c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t drawn = a();
    EXPECT_EQ(drawn, b());
    differs |= drawn != c();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, StaysInItsRangeAndReachesAllOfIt) {
  Random random(7);
  std::set<std::uint64_t> below;
  std::set<std::uint64_t> between;
  for (int i = 0; i < 1000; ++i) {
    below.insert(random.Below(5));
    between.insert(random.Between(10, 13));
    const double unit = random.Unit();
    EXPECT_GE(unit, 0.0);
    EXPECT_LT(unit, 1.0);
  }
  EXPECT_EQ(below, (std::set<std::uint64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(between, (std::set<std::uint64_t>{10, 11, 12, 13}));
  random.Between(0, ~std::uint64_t{0});
}

TEST(Log, ReachesTheInstalledSinkFromItsLevelOn) {
  LogError("before: dropped");
  EXPECT_FALSE(LogEnabled(LogLevel::kError));
  RecordedLog log(LogLevel::kInfo);
  EXPECT_TRUE(LogEnabled(LogLevel::kInfo));
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug));
  LogDebug("dropped");
  LogInfo("one");
  LogWarning("two");
  LogError("three");
  EXPECT_TRUE(log.in_use());
  log.Remove();
  LogError("after: dropped");
  EXPECT_EQ(log.lines(), (std::vector<std::string>{"info one", "warning two", "error three"}));
  EXPECT_FALSE(log.in_use());
}

}  // namespace
}  // namespace maru
