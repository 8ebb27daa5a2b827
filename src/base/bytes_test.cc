#include "base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace maru {
namespace {

TEST(Bytes, WritesLittleEndianAndReadsItBack) {
  std::array<std::byte, 18> room{};
  ByteWriter writer(room);
  writer.U8(0x01);
  writer.U16(0x0203);
  writer.U32(0x04050607);
  writer.U64(0x08090a0b0c0d0e0f);
  writer.WriteBytes(AsBytes("xy"));
  writer.WriteZeros(1);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer.size(), 18u);
  EXPECT_EQ(room[1], std::byte{0x03});
  EXPECT_EQ(room[2], std::byte{0x02});
  EXPECT_EQ(room[7], std::byte{0x0f});

  ByteReader reader(writer.written());
  EXPECT_EQ(reader.U8(), 0x01);
  EXPECT_EQ(reader.U16(), 0x0203);
  EXPECT_EQ(reader.U32(), 0x04050607u);
  EXPECT_EQ(reader.U64(), 0x08090a0b0c0d0e0fu);
  EXPECT_EQ(AsText(reader.ReadBytes(2)), "xy");
  EXPECT_FALSE(reader.AtEnd());
  reader.Skip(1);
  EXPECT_TRUE(reader.AtEnd());
}

TEST(Bytes, ReaderFailsForGoodAtTheFirstMissingByte) {
  const std::array<std::byte, 3> bytes{};
  ByteReader reader(bytes);
  reader.U16();
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.U16(), 0);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
  reader.U8();  // one byte was left, but the reader has failed
  EXPECT_FALSE(reader.AtEnd());
  EXPECT_TRUE(ByteReader(bytes).ReadBytes(~std::size_t{0}).empty());
}

TEST(Bytes, WriterFailsForGoodWithoutWritingPastItsRoom) {
  std::array<std::byte, 4> room{};
  ByteWriter writer(std::span<std::byte>(room).first(3));
  writer.U16(0xffff);
  writer.U16(0xffff);
  EXPECT_FALSE(writer.ok());
  writer.U8(0xff);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(writer.size(), 2u);
  EXPECT_EQ(room[2], std::byte{0});
  EXPECT_EQ(room[3], std::byte{0});
}

TEST(Bytes, EmptySpansAreFine) {
  ByteWriter writer({});
  writer.WriteBytes({});
  writer.WriteZeros(0);
  EXPECT_TRUE(writer.ok());
  EXPECT_TRUE(ByteReader({}).AtEnd());
}

TEST(Bytes, AlignsAndBoundsWithoutOverflow) {
  EXPECT_EQ(AlignUp(1, 4096), 4096u);
  EXPECT_EQ(AlignUp(4096, 4096), 4096u);
  EXPECT_EQ(AlignDown(4097, 4096), 4096u);
  EXPECT_TRUE(IsAligned(0, 8));
  EXPECT_FALSE(IsAligned(12, 8));
  EXPECT_TRUE(AlignUpFits(~std::uint64_t{0} - 4095, 4096));
  EXPECT_FALSE(AlignUpFits(~std::uint64_t{0}, 4096));
  EXPECT_TRUE(RangeFits(4, 6, 10));
  EXPECT_TRUE(RangeFits(10, 0, 10));
  EXPECT_FALSE(RangeFits(5, 6, 10));
  EXPECT_FALSE(RangeFits(11, 0, 10));
  EXPECT_FALSE(RangeFits(8, ~std::uint64_t{0}, 10));
}

}  // namespace
}  // namespace maru
