#include "ground/base/coding.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

using VarintResult = Cursor::VarintResult;

TEST(Coding, VarintRoundTripsAtEveryWidth) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t delta : {uint64_t{0}, uint64_t{1}}) {
      const uint64_t value = (uint64_t{1} << bit) - delta;
      std::string text;
      PutVarint(text, value);
      Cursor cursor(text);
      uint64_t read = 0;
      ASSERT_EQ(cursor.ReadVarint(UINT64_MAX, read), VarintResult::kOk);
      EXPECT_EQ(read, value);
      EXPECT_EQ(cursor.remaining(), 0u);
    }
  }
}

TEST(Coding, VarintWidthLimits) {
  uint64_t value = 0;
  // A tenth byte above 1 overflows 64 bits, and a fifth byte above 15 overflows
  // 32.
  const std::string nines(9, '\xff');
  EXPECT_EQ(Cursor(nines + "\x01").ReadVarint(UINT64_MAX, value),
            VarintResult::kOk);
  EXPECT_EQ(value, UINT64_MAX);
  EXPECT_EQ(Cursor(nines + "\x02").ReadVarint(UINT64_MAX, value),
            VarintResult::kTooLarge);
  EXPECT_EQ(Cursor("\xff\xff\xff\xff\x0f").ReadVarint(UINT32_MAX, value),
            VarintResult::kOk);
  EXPECT_EQ(Cursor("\xff\xff\xff\xff\x10").ReadVarint(UINT32_MAX, value),
            VarintResult::kTooLarge);
  EXPECT_EQ(Cursor("\x80\x80\x04").ReadVarint(UINT16_MAX, value),
            VarintResult::kTooLarge);
}

TEST(Coding, OverlongVarintIsAccepted) {
  uint64_t value = 1;
  const std::string overlong("\x80\x00", 2);
  EXPECT_EQ(Cursor(overlong).ReadVarint(UINT64_MAX, value), VarintResult::kOk);
  EXPECT_EQ(value, 0u);
}

TEST(Coding, TruncatedReadsLeaveTheCursor) {
  Cursor cursor("\x80");
  uint64_t value = 0;
  EXPECT_EQ(cursor.ReadVarint(UINT64_MAX, value), VarintResult::kTruncated);
  EXPECT_EQ(cursor.offset(), 0u);
  uint32_t word = 0;
  EXPECT_FALSE(cursor.ReadU32Little(word));
  std::string_view bytes;
  EXPECT_FALSE(cursor.ReadBytes(2, bytes));
  EXPECT_EQ(cursor.offset(), 0u);
}

TEST(Coding, FixedIntegersAreLittleEndian) {
  std::string text;
  PutU32Little(text, 0x04030201);
  PutU64Little(text, 0x0c0b0a0908070605);
  EXPECT_EQ(text, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c");
}

TEST(Coding, HexIsLowerCase) {
  EXPECT_EQ(ToHex(std::string_view("\x00\xff\x1a", 3)), "00ff1a");
  EXPECT_EQ(ToHex(""), "");
}

}  // namespace
}  // namespace holdfast
