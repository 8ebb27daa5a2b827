#include "layout/superblock.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/hash.h"
#include "layout/golden_test.h"
#include "layout/text.h"

namespace maru::layout {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPoolBytes = 64 << 20;

Superblock Sample() { return MakeSuperblock(Uuid{1, 2, 3}, kPoolBytes, 0, 5 << 20, 1); }

// With a checksum that fits, as a writer that means it would leave it.
Superblock Changed(const std::function<void(Superblock&)>& change) {
  Superblock block = Sample();
  change(block);
  block.checksum = HashBytes64(BytesOf(block).first(offsetof(Superblock, checksum)));
  return block;
}

Status Validate(const Superblock& block, uint64_t file_bytes = kPoolBytes) {
  Superblock out;
  return ValidateSuperblock(BytesOf(block), file_bytes, &out);
}

void ExpectRefused(const Superblock& block, std::initializer_list<const char*> parts,
                   StatusCode code = StatusCode::kDataLoss) {
  const Status status = Validate(block);
  EXPECT_EQ(status.code(), code);
  for (const char* part : parts) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(Superblock, WhatIsMadeIsValidAndReadBack) {
  const Superblock block = MakeSuperblock(Uuid{1, 2, 3}, kPoolBytes, kFlagChecksums, 5 << 20, 7);
  Superblock out;
  ASSERT_TRUE(ValidateSuperblock(BytesOf(block), kPoolBytes, &out).ok());
  EXPECT_EQ(std::memcmp(&out, &block, sizeof(out)), 0);
}

TEST(Superblock, ShortForeignAndEmptyBytesAreToldApart) {
  const Bytes zeros(512);
  const Bytes text(512, std::byte{'x'});
  Superblock out;
  EXPECT_THAT(std::string(ValidateSuperblock(std::span(zeros).first(511), 1, &out).message()),
              HasSubstr("511 bytes"));
  EXPECT_THAT(std::string(ValidateSuperblock(zeros, 1, &out).message()), HasSubstr("are zero"));
  EXPECT_THAT(std::string(ValidateSuperblock(text, 1, &out).message()),
              HasSubstr("foreign bytes, magic is \"xxxxxxxx\""));
  Superblock device_only{};
  device_only.device = Sample().device;
  ExpectRefused(device_only, {"a device header, but no superblock"});
}

TEST(Superblock, EveryFlippedBitIsRefusedAndLeavesOutAlone) {
  const Superblock good = Sample();
  for (size_t bit = 0; bit < 8 * sizeof(Superblock); ++bit) {
    Bytes bytes(BytesOf(good).begin(), BytesOf(good).end());
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    Superblock out{};
    out.pool_bytes = 99;
    EXPECT_EQ(ValidateSuperblock(bytes, kPoolBytes, &out).code(), StatusCode::kDataLoss) << bit;
    EXPECT_EQ(out.pool_bytes, 99u);
  }
}

TEST(Superblock, TornBytesAreCalledTornAlsoInTheVersion) {
  Superblock block = Sample();
  block.created_unix_ns ^= 1;
  ExpectRefused(block, {"torn superblock", "checksum"});
  block = Sample();
  block.layout_version = 77;
  ExpectRefused(block, {"torn superblock", "checksum"});
  block = Changed([](Superblock& b) { b.superblock_bytes = 8; });
  ExpectRefused(block, {"torn superblock", "superblock_bytes is 8"});
  block = Changed([](Superblock& b) { b.device.version = 9; });
  ExpectRefused(block, {"torn superblock", "version 9"});
}

TEST(Superblock, OtherVersionsNameBothAndTheSideToUpgrade) {
  ExpectRefused(Changed([](Superblock& b) { b.layout_version = 2; }),
                {"layout version 2", "reads version 1", "upgrade this maru"},
                StatusCode::kFailedPrecondition);
  ExpectRefused(Changed([](Superblock& b) { b.layout_version = 0; }),
                {"layout version 0", "reads version 1", "the pool is the older side"},
                StatusCode::kFailedPrecondition);
  // A later version may have a longer superblock, whose checksum lies beyond the bytes read.
  ExpectRefused(Changed([](Superblock& b) { b.layout_version = 2, b.superblock_bytes = 1024; }),
                {"layout version 2", "upgrade this maru"}, StatusCode::kFailedPrecondition);
}

TEST(Superblock, AResizedFileNamesBothSizes) {
  const Status status = Validate(Sample(), kPoolBytes / 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("resized: a pool of 64 MiB (67108864 bytes) "
                                                       "in a file of 32 MiB (33554432 bytes)"));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
}

TEST(Superblock, ValuesThatThisVersionDoesNotHaveAreNamed) {
  ExpectRefused(Changed([](Superblock& b) { b.pool_bytes = kPoolBytes + 4096; }), {"pool_bytes"});
  ExpectRefused(Changed([](Superblock& b) { b.pool_bytes = 0; }), {"pool_bytes is 0"});
  ExpectRefused(Changed([](Superblock& b) { b.pool_bytes = 2 * kPoolBytesMax; }), {"pool_bytes"});
  ExpectRefused(Changed([](Superblock& b) { b.unit_bytes = 4096; }), {"unit_bytes is 4096"});
  ExpectRefused(Changed([](Superblock& b) { b.client_slots = 512; }), {"client_slots is 512"});
  ExpectRefused(Changed([](Superblock& b) { b.flags = 0x80000001; }), {"flags has 0x80000000"});
  ExpectRefused(Changed([](Superblock& b) { b.region_id_base = 5; }), {"region_id_base is 5"});
  ExpectRefused(Changed([](Superblock& b) { b.region_id_base = 1u << 31; }), {"region_id_base"});
  ExpectRefused(Changed([](Superblock& b) { b.reserved[415] = 1; }), {"reserved"});
}

TEST(TableDescriptor, LiesInThePoolBehindTheHead) {
  EXPECT_TRUE(TableDescriptor::Make(kUnitBytes, 18).Valid(kPoolBytes));
  EXPECT_TRUE(TableDescriptor::Make(kPoolBytes - kUnitBytes, 18).Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor().Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor::Make(0, 18).Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor::Make(kUnitBytes + 256, 18).Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor::Make(kPoolBytes, 18).Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor::Make(kPoolBytes - kUnitBytes, 19).Valid(kPoolBytes));
  EXPECT_TRUE(TableDescriptor::Make(kUnitBytes, 4).Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor::Make(kUnitBytes, 3).Valid(kPoolBytes));
  EXPECT_FALSE(TableDescriptor::Make(kUnitBytes, 34).Valid(~uint64_t{0}));
  EXPECT_FALSE(TableDescriptor(~uint64_t{0}).Valid(~uint64_t{0}));
}

}  // namespace
}  // namespace maru::layout
