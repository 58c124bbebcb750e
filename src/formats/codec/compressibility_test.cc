#include "formats/codec/compressibility.h"

#include <gtest/gtest.h>

#include "formats/codec/codec_test_util.h"

namespace holdfast {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

TEST(CompressibilityTest, LiteralSavingIsCloseToTheTruth) {
  // The true savings are those of libzstd's Huffman coder.
  EXPECT_NEAR(EstimateLiteralSaving(NormalBfloat16s(kChunkBytes, 1)), 0.220,
              0.01);
  EXPECT_NEAR(EstimateLiteralSaving(NormalFloats(kChunkBytes, 1)), 0.077, 0.01);
  EXPECT_NEAR(EstimateLiteralSaving(RandomBytes(kChunkBytes, 1)), 0, 0.003);
  EXPECT_NEAR(EstimateLiteralSaving(std::string(kChunkBytes, 'x')), 1, 0.003);
}

TEST(CompressibilityTest, AnySizeWillDo) {
  for (size_t size : {64, 100, 4095, 4096, 4097, 40000, 300001}) {
    EXPECT_LE(EstimateLiteralSaving(RandomBytes(size, 1)), 0.01) << size;
    EXPECT_GE(EstimateLiteralSaving(std::string(size, 'x')), 0.99) << size;
  }
}

TEST(CompressibilityTest, TinyInputsAreWithinRange) {
  for (size_t size = 1; size < 64; ++size) {
    const double saving = EstimateLiteralSaving(RandomBytes(size, 1));
    EXPECT_GE(saving, 0) << size;
    EXPECT_LE(saving, 1) << size;
  }
}

TEST(CompressibilityTest, MatchSavingSeesRepeatsOnly) {
  CodecContext context;
  EXPECT_LT(EstimateMatchSaving(NormalBfloat16s(kChunkBytes, 1), context),
            0.005);
  EXPECT_EQ(EstimateMatchSaving(RandomBytes(kChunkBytes, 1), context), 0);
  EXPECT_GT(EstimateMatchSaving(std::string(kChunkBytes, 'x'), context), 0.99);
}

TEST(CompressibilityTest, WindowsAreSpreadOverTheChunk) {
  // One eighth of the chunk is constant, at any position.
  CodecContext context;
  for (size_t eighth = 0; eighth < 8; ++eighth) {
    std::string data = RandomBytes(kChunkBytes, 2);
    data.replace(eighth * kChunkBytes / 8, kChunkBytes / 8,
                 std::string(kChunkBytes / 8, 'x'));
    EXPECT_GT(EstimateMatchSaving(data, context), 0.1) << eighth;
    EXPECT_GT(EstimateLiteralSaving(data), 0.1) << eighth;
  }
}

TEST(CompressibilityTest, DistantRepeatsAreSeen) {
  const std::string row = RandomBytes(40000, 3);
  std::string rows;
  for (int i = 0; i < 10; ++i) rows += row;
  EXPECT_TRUE(HasDistantRepeat(rows));
  EXPECT_FALSE(HasDistantRepeat(RandomBytes(400000, 3)));
  EXPECT_FALSE(HasDistantRepeat(NormalBfloat16s(kChunkBytes, 3)));
  for (size_t size : {0, 1, 8, 16, 17, 30}) {
    EXPECT_FALSE(HasDistantRepeat(RandomBytes(size, 3))) << size;
  }
}

}  // namespace
}  // namespace holdfast
