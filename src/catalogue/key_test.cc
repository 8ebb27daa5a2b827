#include "catalogue/key.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "layout/geometry.h"

namespace maru::catalogue {
namespace {

TEST(KeyTest, HashIsXxh3SeededByTheNamespaceText) {
  const Namespace plain;
  EXPECT_EQ(plain.seed(), 0u);
  EXPECT_EQ(MakeKeyRef(plain, "chunk").hash, HashBytes128(AsBytes("chunk"), 0));

  const Namespace team("team-a");
  EXPECT_EQ(team.seed(), HashBytes64(AsBytes("team-a")));
  EXPECT_EQ(MakeKeyRef(team, "chunk").hash, HashBytes128(AsBytes("chunk"), team.seed()));
  EXPECT_NE(MakeKeyRef(team, "chunk").hash, MakeKeyRef(plain, "chunk").hash);
}

// The values are in pools: they may never change.
TEST(KeyTest, HashOfKnownKeysStaysAsItIs) {
  const KeyRef plain = MakeKeyRef(Namespace(), "");
  EXPECT_EQ(plain.hash.low, 0x6001c324468d497fu);
  EXPECT_EQ(plain.hash.high, 0x99aa06d3014798d8u);

  const Namespace team("team-a");
  const KeyRef named = MakeKeyRef(team, "chunk");
  EXPECT_EQ(team.seed(), 0x828a5f41ad4304c3u);
  EXPECT_EQ(named.hash.low, 0x2275adb20e0bad64u);
  EXPECT_EQ(named.hash.high, 0x172bf7923cbbb1e3u);
}

TEST(KeyTest, RefersToTheCallersTexts) {
  const Namespace team("team-a");
  const std::string key(100, 'k');
  const KeyRef ref = MakeKeyRef(team, key);
  EXPECT_EQ(ref.key.data(), key.data());
  EXPECT_EQ(ref.key.size(), key.size());
  EXPECT_EQ(ref.name_space.data(), team.text().data());
}

TEST(KeyTest, KeysHoldAnyBytesUpToTheLimit) {
  EXPECT_TRUE(CheckKey("").ok());
  EXPECT_TRUE(CheckKey(std::string("\0\xff\n", 3)).ok());
  EXPECT_TRUE(CheckKey(std::string(layout::kKeyBytesMax, 'k')).ok());
  const Status status = CheckKey(std::string(layout::kKeyBytesMax + 1, 'k'));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the key has 65537 bytes, the limit is 65536");
}

TEST(KeyTest, NamespacesHoldAnyBytesUpToTheLimit) {
  EXPECT_TRUE(CheckNamespace("").ok());
  EXPECT_TRUE(CheckNamespace(std::string(layout::kNamespaceBytesMax, 'n')).ok());
  const Status status = CheckNamespace(std::string(256, 'n'));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the namespace has 256 bytes, the limit is 255");
}

}  // namespace
}  // namespace maru::catalogue
