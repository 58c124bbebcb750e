#include "tools/compare/element_stats.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/compare/compare_test_util.h"

namespace holdfast {
namespace {

struct SlowStats {
  uint64_t finite = 0, zero = 0, nan = 0, infinite = 0;
  std::complex<long double> mean = 0;
  long double squares = 0, m2 = 0;
  long double min = INFINITY, max = -INFINITY, absmax = 0;
};

SlowStats SlowStatsOf(DType dtype, const std::string& elements) {
  SlowStats stats;
  std::vector<std::complex<long double>> finite;
  for (size_t i = 0; i < elements.size(); i += DTypeBytes(dtype)) {
    const auto x = SlowNumber(dtype, elements.data() + i);
    stats.zero += x == std::complex<long double>(0);
    if (std::isnan(x.real()) || std::isnan(x.imag())) {
      ++stats.nan;
    } else if (std::isinf(x.real()) || std::isinf(x.imag())) {
      ++stats.infinite;
    } else {
      finite.push_back(x);
      stats.mean += x;
      stats.squares += x.real() * x.real() + x.imag() * x.imag();
      stats.min = std::min(stats.min, x.real());
      stats.max = std::max(stats.max, x.real());
      stats.absmax = std::max(stats.absmax, std::abs(x));
    }
  }
  stats.finite = finite.size();
  if (finite.empty()) return stats;
  stats.mean /= static_cast<long double>(finite.size());
  for (const auto& x : finite) stats.m2 += std::norm(x - stats.mean);
  return stats;
}

void ExpectClose(long double got, long double want, long double size) {
  EXPECT_TRUE(got == want || std::abs(got - want) <= 1e-14L * std::abs(size))
      << static_cast<double>(got) << " " << static_cast<double>(want);
}

void ExpectLike(DType dtype, const ElementStats& got, const SlowStats& want) {
  EXPECT_EQ(got.spread.count, want.finite);
  EXPECT_EQ(got.zero_count, want.zero);
  EXPECT_EQ(got.nan_count, want.nan);
  EXPECT_EQ(got.positive_infinity_count + got.negative_infinity_count +
                got.complex_infinity_count,
            want.infinite);
  if (want.finite == 0) return;
  ExpectClose(got.spread.mean, want.mean.real(), want.absmax);
  ExpectClose(got.imaginary.mean, want.mean.imag(), want.absmax);
  ExpectClose(got.spread.m2 + got.imaginary.m2, want.m2, want.m2);
  ExpectClose(got.sum_of_squares, want.squares, want.squares);
  const DTypeKind kind = DTypeKindOf(dtype);
  if (kind == DTypeKind::kFloat) {
    EXPECT_EQ(got.min, static_cast<double>(want.min));
    EXPECT_EQ(got.max, static_cast<double>(want.max));
    EXPECT_EQ(got.absmax, static_cast<double>(want.absmax));
  } else if (kind == DTypeKind::kUnsigned) {
    EXPECT_EQ(got.unsigned_min, static_cast<uint64_t>(want.min));
    EXPECT_EQ(got.unsigned_max, static_cast<uint64_t>(want.max));
  } else if (kind != DTypeKind::kComplex) {
    EXPECT_EQ(got.signed_min, static_cast<int64_t>(want.min));
    EXPECT_EQ(got.signed_max, static_cast<int64_t>(want.max));
  }
}

TEST(StatsOfElements, IsTheSlowWayForEveryDType) {
  std::mt19937_64 random(8);
  for (const DType dtype : EveryDType()) {
    SCOPED_TRACE(DTypeName(dtype));
    for (const size_t count : {0u, 1u, 2u, 3u, 7u, 1023u, 1024u, 5001u}) {
      const std::string elements = RandomElements(random, dtype, count);
      ExpectLike(dtype, StatsOfElements(dtype, elements.data(), count),
                 SlowStatsOf(dtype, elements));
    }
  }
}

TEST(StatsOfElements, KeepsASmallSpreadAroundALargeMean) {
  std::vector<double> values;
  for (int i = 0; i < 100000; ++i) values.push_back(1e9 + i % 2);
  const auto stats = StatsOfElements(
      DType::kFloat64, reinterpret_cast<const char*>(values.data()), 100000);
  EXPECT_DOUBLE_EQ(static_cast<double>(stats.spread.m2 / 100000), 0.25);
}

TEST(StatsOfElements, DoesNotOverflow) {
  const std::vector<double> values(3000, 1e300), tiny(3000, 1e-300);
  const auto stats = StatsOfElements(
      DType::kFloat64, reinterpret_cast<const char*>(values.data()), 3000);
  EXPECT_DOUBLE_EQ(static_cast<double>(std::sqrt(stats.sum_of_squares)),
                   1e300 * std::sqrt(3000.0));
  EXPECT_EQ(stats.spread.m2, 0);
  const auto small = StatsOfElements(
      DType::kFloat64, reinterpret_cast<const char*>(tiny.data()), 3000);
  EXPECT_DOUBLE_EQ(static_cast<double>(std::sqrt(small.sum_of_squares)),
                   1e-300 * std::sqrt(3000.0));
}

TEST(StatsOfElements, SumsIntegersExactly) {
  const std::vector<int64_t> values(5000, INT64_MAX);
  const auto stats = StatsOfElements(
      DType::kInt64, reinterpret_cast<const char*>(values.data()), 5000);
  EXPECT_TRUE(stats.sum == Int128{INT64_MAX} * 5000);
  EXPECT_EQ(stats.spread.m2, 0);
}

}  // namespace
}  // namespace holdfast
