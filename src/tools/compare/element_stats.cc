// Blocks of elements are converted to float64. Two passes read a block, which
// fits in the first-level cache: one computes the sums, the other the squared
// distances from the block's own mean. 64-bit integers, and numbers whose
// squares float64 cannot represent, are summed as long double.
#include "tools/compare/element_stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tools/compare/lanes.h"
#include "tools/compare/load_numbers.h"

namespace holdfast {
namespace {

constexpr size_t kStatsBlockElements = 1024;
constexpr double kPlusInfinity = std::numeric_limits<double>::infinity();
// Squares of numbers between these magnitudes, and the sums of a block of such
// squares, neither overflow nor lose digits.
constexpr double kSquareMax = 0x1p+500;
constexpr double kSquareMin = 0x1p-450;

// The finite numbers of a block, and counts of the others.
struct BlockSums {
  uint64_t finite_count = 0;
  uint64_t zero_count = 0;
  uint64_t nan_count = 0;
  double sum = 0;
  double sum_of_squares = 0;
  double min = kPlusInfinity;
  double max = -kPlusInfinity;
  double absmax() const { return std::max(-min, max); }
};

// Uses two pairs of lanes, so that additions do not wait for each other.
class BlockSummer {
 public:
  void Add(size_t lane, DoublePair x) {
    const MaskPair is_finite = (x - x) == DoublePair{0, 0};
    const DoublePair value = Masked(is_finite, x);
    Lane& to = lanes_[lane];
    to.sum += value;
    to.squares += value * value;
    const DoublePair above{kPlusInfinity, kPlusInfinity};
    const DoublePair low = is_finite ? x : above;
    const DoublePair high = is_finite ? x : -above;
    to.min = MinOf(low, to.min);
    to.max = MaxOf(high, to.max);
    to.finite -= is_finite;
    to.zero -= x == DoublePair{0, 0};
    to.nan -= x != x;
  }

  BlockSums Sums() const {
    BlockSums sums;
    for (const Lane& lane : lanes_) {
      for (int i = 0; i < 2; ++i) {
        sums.finite_count += static_cast<uint64_t>(lane.finite[i]);
        sums.zero_count += static_cast<uint64_t>(lane.zero[i]);
        sums.nan_count += static_cast<uint64_t>(lane.nan[i]);
        sums.min = std::min(sums.min, lane.min[i]);
        sums.max = std::max(sums.max, lane.max[i]);
      }
    }
    sums.sum = (lanes_[0].sum[0] + lanes_[0].sum[1]) +
               (lanes_[1].sum[0] + lanes_[1].sum[1]);
    sums.sum_of_squares = (lanes_[0].squares[0] + lanes_[0].squares[1]) +
                          (lanes_[1].squares[0] + lanes_[1].squares[1]);
    return sums;
  }

 private:
  struct Lane {
    DoublePair sum{};
    DoublePair squares{};
    DoublePair min{kPlusInfinity, kPlusInfinity};
    DoublePair max{-kPlusInfinity, -kPlusInfinity};
    MaskPair finite{};
    MaskPair zero{};
    MaskPair nan{};
  };
  Lane lanes_[2];
};

// Sums finite numbers. Returns nullopt if some are not finite, or if squares
// are too large. REQUIRES: `count` is a multiple of 4.
std::optional<BlockSums> SumFinite(const double* numbers, size_t count) {
  DoublePair sum[2]{}, squares[2]{};
  DoublePair min = BothOf(kPlusInfinity), max = BothOf(-kPlusInfinity);
  MaskPair zero{};
  for (size_t i = 0; i < count; i += 4) {
    for (size_t lane = 0; lane < 2; ++lane) {
      const DoublePair x = LoadPair(numbers + i + 2 * lane);
      sum[lane] += x;
      squares[lane] += x * x;
      min = MinOf(x, min);
      max = MaxOf(x, max);
      zero -= x == DoublePair{0, 0};
    }
  }
  BlockSums sums;
  sums.sum = (sum[0][0] + sum[0][1]) + (sum[1][0] + sum[1][1]);
  sums.sum_of_squares =
      (squares[0][0] + squares[0][1]) + (squares[1][0] + squares[1][1]);
  if (!std::isfinite(sums.sum_of_squares)) return std::nullopt;
  sums.finite_count = count;
  sums.zero_count = static_cast<uint64_t>(zero[0] + zero[1]);
  sums.min = std::min(min[0], min[1]);
  sums.max = std::max(max[0], max[1]);
  return sums;
}

// REQUIRES: `count` is a multiple of 4, padded with NaN.
BlockSums SumBlock(const double* numbers, size_t count) {
  if (const auto finite = SumFinite(numbers, count)) return *finite;
  BlockSummer summer;
  for (size_t i = 0; i < count; i += 4) {
    summer.Add(0, LoadPair(numbers + i));
    summer.Add(1, LoadPair(numbers + i + 2));
  }
  return summer.Sums();
}

// Returns the sum of squared distances from `mean`, corrected for the rounding
// error of the mean.
template <bool kAllFinite>
double SquaredDistances(const double* numbers, size_t count, double mean,
                        uint64_t finite_count) {
  DoublePair squares[2]{}, distances[2]{};
  const DoublePair center{mean, mean};
  for (size_t i = 0; i < count; i += 4) {
    for (size_t lane = 0; lane < 2; ++lane) {
      const DoublePair x = LoadPair(numbers + i + 2 * lane);
      DoublePair distance = x - center;
      if constexpr (!kAllFinite) {
        distance = Masked((x - x) == DoublePair{0, 0}, distance);
      }
      squares[lane] += distance * distance;
      distances[lane] += distance;
    }
  }
  const double sum =
      (squares[0][0] + squares[0][1]) + (squares[1][0] + squares[1][1]);
  const double rest =
      (distances[0][0] + distances[0][1]) + (distances[1][0] + distances[1][1]);
  return std::max(0.0, sum - rest * rest / static_cast<double>(finite_count));
}

// Adds numbers of any size, one after the other.
void AddWide(const double* numbers, size_t count, Spread& spread,
             long double& sum_of_squares) {
  long double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(numbers[i])) continue;
    sum += numbers[i];
    sum_of_squares += static_cast<long double>(numbers[i]) * numbers[i];
    ++spread.count;
  }
  spread.mean = sum / static_cast<long double>(spread.count);
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(numbers[i])) continue;
    const long double distance = numbers[i] - spread.mean;
    spread.m2 += distance * distance;
  }
}

uint64_t CountEqual(const double* numbers, size_t count, double value) {
  return static_cast<uint64_t>(std::count(numbers, numbers + count, value));
}

// Computes the statistics of real numbers. `numbers` must have room for three
// more.
ElementStats StatsOfNumbers(double* numbers, size_t count) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const size_t padded = (count + 3) / 4 * 4;
  std::fill(numbers + count, numbers + padded, kNaN);
  const BlockSums sums = SumBlock(numbers, padded);
  ElementStats stats;
  stats.element_count = count;
  stats.zero_count = sums.zero_count;
  stats.nan_count = sums.nan_count - (padded - count);
  if (sums.finite_count + stats.nan_count < count) {
    stats.positive_infinity_count = CountEqual(numbers, count, kPlusInfinity);
    stats.negative_infinity_count = CountEqual(numbers, count, -kPlusInfinity);
  }
  if (sums.finite_count == 0) return stats;
  stats.min = sums.min;
  stats.max = sums.max;
  stats.absmax = sums.absmax();
  const bool squares_fit = stats.absmax == 0 || (stats.absmax < kSquareMax &&
                                                 stats.absmax > kSquareMin);
  if (!squares_fit) {
    AddWide(numbers, count, stats.spread, stats.sum_of_squares);
    return stats;
  }
  const double mean = sums.sum / static_cast<double>(sums.finite_count);
  const auto squared = sums.finite_count == padded ? SquaredDistances<true>
                                                   : SquaredDistances<false>;
  stats.spread = {sums.finite_count, mean,
                  squared(numbers, padded, mean, sums.finite_count)};
  stats.sum_of_squares = sums.sum_of_squares;
  return stats;
}

// Handles integers that float64 represents exactly. Their sum over a block is
// exact too.
ElementStats StatsOfSmallIntegers(DType dtype, double* numbers, size_t count) {
  ElementStats stats = StatsOfNumbers(numbers, count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += numbers[i];
  stats.sum = static_cast<Int128>(sum);
  if (DTypeKindOf(dtype) == DTypeKind::kUnsigned) {
    stats.unsigned_min = static_cast<uint64_t>(stats.min);
    stats.unsigned_max = static_cast<uint64_t>(stats.max);
  } else {
    stats.signed_min = static_cast<int64_t>(stats.min);
    stats.signed_max = static_cast<int64_t>(stats.max);
  }
  return stats;
}

template <typename Int>
ElementStats StatsOfLongIntegers(const char* elements, size_t count) {
  ElementStats stats;
  stats.element_count = count;
  Int integers[kStatsBlockElements];
  std::memcpy(integers, elements, count * sizeof(Int));
  Int min = integers[0], max = integers[0];
  for (size_t i = 0; i < count; ++i) {
    min = std::min(min, integers[i]);
    max = std::max(max, integers[i]);
    stats.sum += integers[i];
    stats.zero_count += integers[i] == 0;
  }
  stats.spread.count = count;
  stats.spread.mean =
      static_cast<long double>(stats.sum) / static_cast<long double>(count);
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<long double>(integers[i]);
    const long double distance = value - stats.spread.mean;
    stats.spread.m2 += distance * distance;
    stats.sum_of_squares += value * value;
  }
  if constexpr (std::numeric_limits<Int>::is_signed) {
    stats.signed_min = min;
    stats.signed_max = max;
  } else {
    stats.unsigned_min = min;
    stats.unsigned_max = max;
  }
  return stats;
}

// Computes the statistics of complex numbers. `parts` alternates real and
// imaginary parts.
ElementStats StatsOfComplex(const double* parts, size_t count) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  double real[kStatsBlockElements + 4], imaginary[kStatsBlockElements + 4];
  ElementStats stats;
  uint64_t zero_count = 0, nan_count = 0, infinity_count = 0;
  for (size_t i = 0; i < count; ++i) {
    const double re = parts[2 * i], im = parts[2 * i + 1];
    const bool is_nan = re != re || im != im;
    const bool is_infinite = !is_nan && (std::isinf(re) || std::isinf(im));
    const bool is_finite = !is_nan && !is_infinite;
    zero_count += re == 0 && im == 0;
    nan_count += is_nan;
    infinity_count += is_infinite;
    real[i] = is_finite ? re : kNaN;
    imaginary[i] = is_finite ? im : kNaN;
    if (is_finite) stats.absmax = std::max(stats.absmax, std::hypot(re, im));
  }
  const ElementStats of_real = StatsOfNumbers(real, count);
  const ElementStats of_imaginary = StatsOfNumbers(imaginary, count);
  stats.element_count = count;
  stats.zero_count = zero_count;
  stats.nan_count = nan_count;
  stats.complex_infinity_count = infinity_count;
  stats.spread = of_real.spread;
  stats.imaginary = of_imaginary.spread;
  stats.sum_of_squares = of_real.sum_of_squares + of_imaginary.sum_of_squares;
  return stats;
}

ElementStats StatsOfBlock(DType dtype, const char* elements, size_t count) {
  if (dtype == DType::kInt64) {
    return StatsOfLongIntegers<int64_t>(elements, count);
  }
  if (dtype == DType::kUint64) {
    return StatsOfLongIntegers<uint64_t>(elements, count);
  }
  double numbers[2 * kStatsBlockElements + 4];
  LoadDoubles(dtype, elements, count, numbers);
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kFloat:
      return StatsOfNumbers(numbers, count);
    case DTypeKind::kComplex:
      return StatsOfComplex(numbers, count);
    default:
      return StatsOfSmallIntegers(dtype, numbers, count);
  }
}

}  // namespace

void Spread::Join(const Spread& other) {
  if (other.count == 0) return;
  const auto mine = static_cast<long double>(count);
  const auto theirs = static_cast<long double>(other.count);
  const long double distance = other.mean - mean;
  count += other.count;
  const auto all = static_cast<long double>(count);
  mean += distance * (theirs / all);
  m2 += other.m2 + distance * distance * (mine * theirs / all);
}

void ElementStats::Join(const ElementStats& next) {
  element_count += next.element_count;
  zero_count += next.zero_count;
  nan_count += next.nan_count;
  positive_infinity_count += next.positive_infinity_count;
  negative_infinity_count += next.negative_infinity_count;
  complex_infinity_count += next.complex_infinity_count;
  spread.Join(next.spread);
  imaginary.Join(next.imaginary);
  sum_of_squares += next.sum_of_squares;
  min = std::min(min, next.min);
  max = std::max(max, next.max);
  absmax = std::max(absmax, next.absmax);
  signed_min = std::min(signed_min, next.signed_min);
  signed_max = std::max(signed_max, next.signed_max);
  unsigned_min = std::min(unsigned_min, next.unsigned_min);
  unsigned_max = std::max(unsigned_max, next.unsigned_max);
  sum += next.sum;
}

ElementStats StatsOfElements(DType dtype, const char* elements, size_t count) {
  const size_t bytes = DTypeBytes(dtype);
  ElementStats stats;
  for (size_t first = 0; first < count; first += kStatsBlockElements) {
    stats.Join(StatsOfBlock(dtype, elements + first * bytes,
                            std::min(kStatsBlockElements, count - first)));
  }
  return stats;
}

}  // namespace holdfast
