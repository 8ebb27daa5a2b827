// What --pool takes and makes of it, for machines of any size.
#include "server/pool_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/testing.h"
#include "base/units.h"
#include "layout/geometry.h"

namespace maru::server {
namespace {

Machine Of(uint64_t memory_bytes, uint64_t shm_free_bytes) {
  return {.memory_bytes = memory_bytes, .shm_free_bytes = shm_free_bytes, .uid = 4'000'000'001};
}

TEST(AutoPoolBytes, IsTheLeastOfThreeLimits) {
  EXPECT_EQ(AutoPoolBytes(Of(8 * kGiB, 100 * kGiB)).value(), 2 * kGiB);  // a quarter of memory
  EXPECT_EQ(AutoPoolBytes(Of(64 * kGiB, 100 * kGiB)).value(), 4 * kGiB);
  // 90% of 64 MiB are 57.6, in whole units 56.
  EXPECT_EQ(AutoPoolBytes(Of(64 * kGiB, 64 * kMiB)).value(), 56 * kMiB);
}

TEST(AutoPoolBytes, IsAtLeastWhatAPoolNeeds) {
  EXPECT_EQ(AutoPoolBytes(Of(128 * kMiB, kGiB)).value(), layout::kPoolBytesMin);
  const Status memory = AutoPoolBytes(Of(128 * kMiB - 4, kGiB)).status();
  EXPECT_EQ(memory.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(memory.message().find("memory 128 MiB"), std::string_view::npos) << memory.message();
  // No /dev/shm at all.
  const Status shm = AutoPoolBytes(Of(64 * kGiB, 0)).status();
  EXPECT_EQ(shm.code(), StatusCode::kResourceExhausted);
  for (const char* word : {"only 0 B", "free in /dev/shm 0 B", "needs 32 MiB", "--shm-size",
                           "--pool file:PATH,size="}) {
    EXPECT_NE(shm.message().find(word), std::string_view::npos) << word << ": " << shm.message();
  }
}

TEST(ParsePoolSpec, AutoIsAFileOfTheUserAndSaysWhyItHasItsSize) {
  const auto spec = ParsePoolSpec("auto", Of(8 * kGiB, 100 * kGiB), Start::kGoOn);
  ASSERT_OK(spec);
  EXPECT_EQ(spec->path, "/dev/shm/maru-4000000001");
  EXPECT_EQ(spec->create_bytes, 2 * kGiB);
  EXPECT_NE(spec->note.find("a quarter of memory (2 GiB)"), std::string::npos) << spec->note;
  EXPECT_FALSE(spec->fresh);
  const auto fresh = ParsePoolSpec("auto", Of(8 * kGiB, 100 * kGiB), Start::kFresh);
  ASSERT_OK(fresh);
  EXPECT_TRUE(fresh->fresh);
}

TEST(ParsePoolSpec, NamesAPoolItsSizeAndItsChecksums) {
  const Machine machine = Of(8 * kGiB, 100 * kGiB);
  const auto shm = ParsePoolSpec("shm:kv,size=1GiB,checksum", machine, Start::kGoOn);
  ASSERT_OK(shm);
  EXPECT_EQ(shm->path, "/dev/shm/kv");
  EXPECT_EQ(shm->create_bytes, kGiB);
  EXPECT_TRUE(shm->checksums);
  const auto own = ParsePoolSpec("shm:size=64M", machine, Start::kGoOn);
  ASSERT_OK(own);
  EXPECT_EQ(own->path, "/dev/shm/maru-4000000001");
  EXPECT_EQ(own->create_bytes, 64 * kMiB);
  const auto file = ParsePoolSpec("file:a/b", machine, Start::kGoOn);
  ASSERT_OK(file);
  EXPECT_EQ(file->path, "a/b");
  EXPECT_EQ(file->create_bytes, 0u);
  EXPECT_FALSE(file->checksums);
}

TEST(ParsePoolSpec, WhatItDoesNotTakeIsNamed) {
  struct Row {
    std::string text, says;
    Start start = Start::kGoOn;
  };
  const std::vector<Row> rows = {
      {"shm:size=1GiB,size=2GiB", "size= is given twice"},
      {"shm:size=many", "many"},
      {"shm:size=33MiB", "the next to 33MiB is 34MiB"},
      {"file:x,size=31MiB", "the next to 31MiB is 32MiB"},
      {"file:x,size=1GiB,fast", "\"fast\" is neither size=BYTES nor checksum"},
      {"file:x,,size=1GiB", "\"\" is neither"},
      {"shm:a/b,size=1GiB", "a name in /dev/shm has no /"},
      {"file:", "file: needs a path"},
      {"file:size=1GiB", "file: needs a path"},
      {"dax:/dev/dax0.0", "not served by this version"},
      {"fsdax:/mnt,size=1GiB", "not served by this version"},
      {"numa:0,size=1GiB", "not served by this version"},
      {"memory", "wanted is auto, shm:size=BYTES or file:PATH,size=BYTES"},
      {"", "wanted is auto"},
      {"file:x", "--fresh makes the pool anew: give it a size", Start::kFresh},
  };
  for (const Row& row : rows) {
    const Status status = ParsePoolSpec(row.text, Of(8 * kGiB, 8 * kGiB), row.start).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << row.text;
    EXPECT_NE(status.message().find("--pool " + row.text), std::string_view::npos)
        << status.message();
    EXPECT_NE(status.message().find(row.says), std::string_view::npos) << status.message();
  }
}

}  // namespace
}  // namespace maru::server
