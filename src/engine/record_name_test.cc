#include "engine/record_name.h"

#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"

namespace maru::engine {
namespace {

TEST(RecordNameTest, LongNamesAreCutAndStayApart) {
  EXPECT_EQ(RecordName("prefill-0"), "prefill-0");
  EXPECT_EQ(RecordName(std::string(63, 'x')), std::string(63, 'x'));
  const std::string pod(200, 'p');
  EXPECT_EQ(RecordName(pod + "0").size(), kRecordNameBytesMax);
  EXPECT_EQ(RecordName(pod + "0"), RecordName(pod + "0"));
  EXPECT_NE(RecordName(pod + "0"), RecordName(pod + "1"));
  EXPECT_TRUE(RecordName(pod).starts_with(pod.substr(0, 46) + "~"));
}

TEST(RecordNameTest, NoCharacterIsCutInTwo) {
  for (int ahead = 0; ahead < 4; ++ahead) {
    std::string name(static_cast<size_t>(ahead), 'x');
    while (name.size() < 100) name += "\xF0\x9F\x98\x80";
    EXPECT_TRUE(IsUtf8(RecordName(name))) << ahead;
    EXPECT_LE(RecordName(name).size(), kRecordNameBytesMax);
  }
}

}  // namespace
}  // namespace maru::engine
