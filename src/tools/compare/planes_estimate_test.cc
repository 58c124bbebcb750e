#include "tools/compare/planes_estimate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace holdfast {
namespace {

constexpr int64_t kCount = 1 << 20;

std::vector<float> Normals() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(kCount);
  for (float& value : values) value = normal(random);
  return values;
}

double Fraction(DType dtype, const void* elements, int64_t count) {
  PlanesEstimate estimate;
  return static_cast<double>(estimate.Estimate(
             dtype, static_cast<const char*>(elements), count)) /
         static_cast<double>(count * DTypeBytes(dtype));
}

TEST(PlanesEstimateTest, IsWhatASaveWouldStore) {
  const std::vector<float> values = Normals();
  EXPECT_NEAR(Fraction(DType::kFloat32, values.data(), kCount), 0.835, 0.005);
  std::vector<uint16_t> upper(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    upper[i] = static_cast<uint16_t>(bits >> 16);
  }
  EXPECT_NEAR(Fraction(DType::kBfloat16, upper.data(), kCount), 0.67, 0.005);
  const std::vector<float> zeros(kCount);
  EXPECT_LT(Fraction(DType::kFloat32, zeros.data(), kCount), 0.001);
}

TEST(PlanesEstimateTest, NoiseAndSmallTensorsHardlyGrow) {
  std::mt19937 random(2);
  std::vector<uint32_t> noise(kCount);
  for (uint32_t& word : noise) word = random();
  EXPECT_NEAR(Fraction(DType::kUint32, noise.data(), kCount), 1, 0.001);
  EXPECT_NEAR(Fraction(DType::kUint8, noise.data(), kCount), 1, 0.001);
  EXPECT_LT(Fraction(DType::kUint32, noise.data(), 100), 1.1);
  PlanesEstimate estimate;
  EXPECT_EQ(estimate.Estimate(DType::kFloat32, nullptr, 0), 0u);
}

}  // namespace
}  // namespace holdfast
