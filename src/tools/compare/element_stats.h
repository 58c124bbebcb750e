// The statistics of a run of elements, and how to join those of two runs.
//
// Thread-safety: pure functions and values.
// Units: elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "holdfast/dtype.h"

namespace holdfast {

// Holds exact sums of integers: 2^63 elements of 64 bits do not overflow it.
__extension__ typedef __int128
    Int128;  // NOLINT: an extension has no other name

// A mean, and the sum of the squared distances from it.
struct Spread {
  uint64_t count = 0;
  long double mean = 0;
  long double m2 = 0;  // sum of squares of distances from the mean

  void Join(const Spread& other);
};

struct ElementStats {
  uint64_t element_count = 0;
  uint64_t zero_count = 0;
  uint64_t nan_count = 0;
  uint64_t positive_infinity_count = 0;
  uint64_t negative_infinity_count = 0;
  uint64_t complex_infinity_count = 0;
  // The fields from here on cover only the finite elements. For complex dtypes
  // `spread` is that of the real parts, and min and max are unused.
  Spread spread;
  Spread imaginary;
  long double sum_of_squares = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double absmax = 0;
  // Integers use these instead of min, max and the mean.
  int64_t signed_min = std::numeric_limits<int64_t>::max();
  int64_t signed_max = std::numeric_limits<int64_t>::min();
  uint64_t unsigned_min = std::numeric_limits<uint64_t>::max();
  uint64_t unsigned_max = 0;
  Int128 sum = 0;

  // Adds the statistics of the elements that follow these. The order of joining
  // affects the last digit.
  void Join(const ElementStats& next);
};

ElementStats StatsOfElements(DType dtype, const char* elements, size_t count);

}  // namespace holdfast
