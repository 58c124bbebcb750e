#include "engine/together/wanted_box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace holdfast {
namespace {

const std::vector<WantedBox> kSome = {
    {0, {{}, {}}, DType::kBool},
    {300, {{0, 5, 1 << 20}, {7, 1, 9}}, DType::kFloat32},
    {1, {{0}, {std::numeric_limits<int64_t>::max()}}, DType::kComplex128}};

TEST(WantedBox, ComesBack) {
  EXPECT_EQ(*DecodeWanted(EncodeWanted(kSome)), kSome);
  EXPECT_TRUE(DecodeWanted(EncodeWanted({}))->empty());
}

TEST(WantedBox, OfEveryCutIsRefused) {
  const std::string bytes = EncodeWanted(kSome);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeWanted(bytes.substr(0, size)).status().code(),
              StatusCode::kDataLoss);
  }
  EXPECT_FALSE(DecodeWanted(bytes + "x").ok());
}

// A count that exceeds the number of bytes must not cause an allocation.
TEST(WantedBox, CountsAreBounded) {
  EXPECT_FALSE(DecodeWanted("\xff\xff\xff\xff\xff\xff\xff\x7f").ok());
  // A box of rank 33, and one of an unknown dtype.
  EXPECT_FALSE(DecodeWanted(std::string("\1\0\0\x21", 4)).ok());
  EXPECT_FALSE(DecodeWanted(std::string("\1\0\x7f\0", 4)).ok());
}

TEST(WantedBox, ChangedBytesNeverGiveNegativeNumbers) {
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = EncodeWanted(kSome);
    for (int n = random() % 3 + 1; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto list = DecodeWanted(bytes);
    if (!list.ok()) continue;
    for (const WantedBox& wanted : *list) {
      ASSERT_EQ(wanted.box.origin.size(), wanted.box.shape.size());
      for (const int64_t start : wanted.box.origin) ASSERT_GE(start, 0);
      for (const int64_t extent : wanted.box.shape) ASSERT_GE(extent, 0);
    }
  }
}

TEST(WantedBox, MemoryBytesSaturate) {
  EXPECT_EQ(MemoryBytesOf(kSome[0]), 1u);
  EXPECT_EQ(MemoryBytesOf(kSome[1]), 7u * 9 * 4);
  EXPECT_EQ(MemoryBytesOf(kSome[2]), std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace holdfast
