#include "tools/compare/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace holdfast {
namespace {

using H = MagnitudeHistogram;

H Of(const std::vector<float>& values) {
  H histogram;
  SampleHistogram(DType::kFloat32, reinterpret_cast<const char*>(values.data()),
                  values.size(), values.size(), histogram);
  return histogram;
}

// Returns the bin of numbers with a magnitude in [2^exponent, 2^(exponent+1)).
size_t Bin(int exponent, bool is_negative = false) {
  const int step = exponent - H::kExponentMin + 1;
  return static_cast<size_t>(H::kZeroBin + (is_negative ? -step : step));
}

TEST(Histogram, CountsBySignAndPowerOfTwo) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const H found = Of({0, -0.0f, 1, 1.5f, 2, -0.25f, -0.49f, nan, INFINITY,
                      1e-30f, 1e30f, -1e30f});
  EXPECT_EQ(found.sample_count, 10u);
  EXPECT_EQ(found.counts[H::kZeroBin], 2u);
  EXPECT_EQ(found.counts[Bin(0)], 2u);
  EXPECT_EQ(found.counts[Bin(1)], 1u);
  EXPECT_EQ(found.counts[Bin(-2, true)], 2u);
  // Numbers that are too small or too large are counted at the ends.
  EXPECT_EQ(found.counts[Bin(H::kExponentMin)], 1u);
  EXPECT_EQ(found.counts.back(), 1u);
  EXPECT_EQ(found.counts.front(), 1u);
}

TEST(Histogram, OfALargeTensorASampleFromAllOfIt) {
  const size_t count = 64 * kHistogramSample;
  std::vector<float> values(count, 1.0f);
  std::fill(values.begin() + count / 2, values.end(), -4.0f);
  H found;
  // Pass the tensor in two slabs, as a reader would.
  for (const size_t first : {size_t{0}, count / 2}) {
    SampleHistogram(DType::kFloat32,
                    reinterpret_cast<const char*>(values.data() + first),
                    count / 2, count, found);
  }
  EXPECT_EQ(found.sample_count, kHistogramSample);
  EXPECT_EQ(found.counts[Bin(0)], kHistogramSample / 2);
  EXPECT_EQ(found.counts[Bin(2, true)], kHistogramSample / 2);
}

TEST(Histogram, KnowsIntegersAndComplexNumbers) {
  const std::vector<int64_t> integers = {0, 1, -8, INT64_MIN};
  H found;
  SampleHistogram(DType::kInt64, reinterpret_cast<const char*>(integers.data()),
                  4, 4, found);
  EXPECT_EQ(found.counts[H::kZeroBin], 1u);
  EXPECT_EQ(found.counts[Bin(0)], 1u);
  EXPECT_EQ(found.counts[Bin(3, true)], 1u);
  EXPECT_EQ(found.counts.front(), 1u);
  const std::vector<float> complex = {3, 4, 0, 0};
  found = {};
  SampleHistogram(DType::kComplex64,
                  reinterpret_cast<const char*>(complex.data()), 2, 2, found);
  EXPECT_EQ(found.counts[Bin(2)], 1u);
  EXPECT_EQ(found.counts[H::kZeroBin], 1u);
}

}  // namespace
}  // namespace holdfast
