#include "tools/compare/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/compare/load_numbers.h"

namespace holdfast {
namespace {

// Elements that are processed together.
constexpr size_t kRunLength = 64;

void Count(double value, MagnitudeHistogram& histogram) {
  if (!std::isfinite(value)) return;
  ++histogram.sample_count;
  if (value == 0) {
    ++histogram.counts[MagnitudeHistogram::kZeroBin];
    return;
  }
  // frexp's mantissa is in [0.5, 1).
  int exponent = 0;
  std::frexp(value, &exponent);
  const int step = std::clamp(exponent - 1, MagnitudeHistogram::kExponentMin,
                              MagnitudeHistogram::kExponentMax) -
                   MagnitudeHistogram::kExponentMin + 1;
  ++histogram.counts[static_cast<size_t>(MagnitudeHistogram::kZeroBin +
                                         (value < 0 ? -step : step))];
}

void CountRun(DType dtype, const char* elements, size_t count,
              MagnitudeHistogram& histogram) {
  std::array<long double, 2 * kRunLength> numbers;
  LoadLongDoubles(dtype, elements, count, numbers.data());
  const bool is_complex = PartsOf(dtype) == 2;
  for (size_t i = 0; i < count; ++i) {
    Count(static_cast<double>(
              is_complex ? std::hypot(numbers[2 * i], numbers[2 * i + 1])
                         : numbers[i]),
          histogram);
  }
}

}  // namespace

void SampleHistogram(DType dtype, const char* elements, size_t count,
                     uint64_t tensor_count, MagnitudeHistogram& histogram) {
  const uint64_t stride =
      kRunLength * std::max<uint64_t>(1, tensor_count / kHistogramSample);
  const auto element_bytes = static_cast<size_t>(DTypeBytes(dtype));
  for (uint64_t first = 0; first < count; first += stride) {
    const size_t run = std::min<uint64_t>(kRunLength, count - first);
    CountRun(dtype, elements + first * element_bytes, run, histogram);
  }
}

}  // namespace holdfast
