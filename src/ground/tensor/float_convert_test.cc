#include "ground/tensor/float_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

constexpr DType kNarrow[] = {DType::kFloat4E2m1fn,      DType::kFloat8E3m4,
                             DType::kFloat8E4m3fn,      DType::kFloat8E4m3fnuz,
                             DType::kFloat8E4m3b11fnuz, DType::kFloat8E5m2,
                             DType::kFloat8E5m2fnuz,    DType::kFloat8E8m0fnu,
                             DType::kFloat16,           DType::kBfloat16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string Name(DType dtype) { return std::string(DTypeName(dtype)); }

// Returns every finite value with its pattern, in both signs.
std::vector<std::pair<double, uint64_t>> FiniteValues(DType dtype) {
  std::vector<std::pair<double, uint64_t>> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << DTypeBits(dtype); ++bits) {
    const double value = FloatBitsToDouble(dtype, bits);
    if (std::isfinite(value)) values.emplace_back(value, bits);
  }
  return values;
}

TEST(FloatConvertTest, EveryFinitePatternComesBack) {
  for (const DType dtype : kNarrow) {
    for (const auto& [value, bits] : FiniteValues(dtype)) {
      ASSERT_EQ(DoubleToFloatBits(dtype, value), bits)
          << Name(dtype) << " " << value;
    }
  }
}

// A value between two neighbors becomes the nearer one, and the middle between
// them becomes the even one. The nearest double on each side of the middle
// detects double rounding.
TEST(FloatConvertTest, RoundsToNearestEven) {
  for (const DType dtype : kNarrow) {
    if (dtype == DType::kFloat8E8m0fnu) continue;
    const auto values = FiniteValues(dtype);
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      const auto& [low, low_bits] = values[i];
      const auto& [high, high_bits] = values[i + 1];
      if (high_bits != low_bits + 1 || std::abs(high) <= std::abs(low)) {
        continue;  // the two signs meet here
      }
      const double middle = (low + high) / 2;
      const uint64_t even = low_bits % 2 == 0 ? low_bits : high_bits;
      ASSERT_EQ(DoubleToFloatBits(dtype, middle), even) << Name(dtype);
      ASSERT_EQ(DoubleToFloatBits(dtype, std::nextafter(middle, low)), low_bits)
          << Name(dtype) << " " << low;
      ASSERT_EQ(DoubleToFloatBits(dtype, std::nextafter(middle, high)),
                high_bits)
          << Name(dtype) << " " << low;
    }
  }
}

struct Special {
  DType dtype;
  double value;
  uint64_t bits;
};

TEST(FloatConvertTest, SpecialValues) {
  const Special specials[] = {
      {DType::kFloat16, kInfinity, 0x7c00},
      {DType::kFloat16, -65520.0, 0xfc00},
      {DType::kFloat16, 65519.0, 0x7bff},
      {DType::kFloat16, kNan, 0x7e00},
      {DType::kBfloat16, -kInfinity, 0xff80},
      {DType::kBfloat16, 1e39, 0x7f80},
      {DType::kBfloat16, kNan, 0x7fc0},
      {DType::kFloat8E3m4, 16.0, 0x70},
      {DType::kFloat8E4m3fn, 448.0, 0x7e},
      {DType::kFloat8E4m3fn, 465.0, 0x7f},  // no infinity: NaN
      {DType::kFloat8E4m3fn, -kInfinity, 0xff},
      {DType::kFloat8E4m3fnuz, -0.0, 0x00},  // 0x80 is the NaN
      {DType::kFloat8E4m3fnuz, 1e9, 0x80},
      {DType::kFloat8E4m3b11fnuz, -1e-9, 0x00},
      {DType::kFloat8E4m3b11fnuz, kNan, 0x80},
      {DType::kFloat8E5m2, 61440.0, 0x7c},
      {DType::kFloat8E5m2, -0.0, 0x80},
      {DType::kFloat8E5m2fnuz, kInfinity, 0x80},
      {DType::kFloat8E8m0fnu, 1.0, 127},
      {DType::kFloat8E8m0fnu, 0.0, 0xff},
      {DType::kFloat8E8m0fnu, -1.0, 0xff},
      {DType::kFloat8E8m0fnu, 1e39, 0xff},
      {DType::kFloat8E8m0fnu, 3.0, 129},
      {DType::kFloat8E8m0fnu, 2.9, 128},
      {DType::kFloat4E2m1fn, 100.0, 0x7},
      {DType::kFloat4E2m1fn, -kInfinity, 0xf},
      {DType::kFloat4E2m1fn, kNan, 0x8},
      {DType::kFloat32, 1.0, 0x3f800000},
      {DType::kFloat32, 1e300, 0x7f800000},
      {DType::kFloat64, 1.0, 0x3ff0000000000000},
  };
  for (const Special& special : specials) {
    EXPECT_EQ(DoubleToFloatBits(special.dtype, special.value), special.bits)
        << Name(special.dtype) << " " << special.value;
  }
}

TEST(FloatConvertTest, NansAndInfinitiesAreRead) {
  EXPECT_EQ(FloatBitsToDouble(DType::kFloat16, 0xfc00), -kInfinity);
  EXPECT_EQ(FloatBitsToDouble(DType::kFloat8E5m2, 0x7c), kInfinity);
  EXPECT_TRUE(std::isnan(FloatBitsToDouble(DType::kFloat8E5m2, 0xff)));
  EXPECT_TRUE(std::isnan(FloatBitsToDouble(DType::kFloat8E4m3fn, 0xff)));
  EXPECT_TRUE(std::isnan(FloatBitsToDouble(DType::kFloat8E4m3fnuz, 0x80)));
  EXPECT_TRUE(std::isnan(FloatBitsToDouble(DType::kFloat8E8m0fnu, 0xff)));
  EXPECT_TRUE(std::isnan(FloatBitsToDouble(DType::kBfloat16, 0x7fc1)));
  EXPECT_TRUE(std::isnan(FloatBitsToDouble(DType::kFloat32, 0x7fc00001)));
  EXPECT_EQ(FloatBitsToDouble(DType::kFloat8E8m0fnu, 0), std::ldexp(1, -127));
}

TEST(FloatConvertTest, UpperBitsOfTheArgumentAreIgnored) {
  for (const DType dtype : kNarrow) {
    const uint64_t one = DoubleToFloatBits(dtype, 1.0);
    const uint64_t dirty = one | ~uint64_t{0} << DTypeBits(dtype);
    EXPECT_EQ(FloatBitsToDouble(dtype, dirty), 1.0) << Name(dtype);
  }
}

}  // namespace
}  // namespace holdfast
