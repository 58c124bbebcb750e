// Vectors of two float64 numbers, which every x86-64 and aarch64 processor
// supports.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace holdfast {

using DoublePair = double __attribute__((vector_size(16)));
// The result of comparing two pairs: all bits of a number are 1 where the
// comparison holds, else 0.
using MaskPair = int64_t __attribute__((vector_size(16)));

inline DoublePair LoadPair(const double* numbers) {
  DoublePair pair;
  std::memcpy(&pair, numbers, sizeof pair);
  return pair;
}

inline DoublePair BothOf(double number) { return DoublePair{number, number}; }

// Returns `value`, with 0 where the mask is 0.
inline DoublePair Masked(MaskPair mask, DoublePair value) {
  return reinterpret_cast<DoublePair>(mask & reinterpret_cast<MaskPair>(value));
}

inline DoublePair AbsOf(DoublePair value) {
  constexpr int64_t kMagnitude = std::numeric_limits<int64_t>::max();
  return Masked(MaskPair{kMagnitude, kMagnitude}, value);
}

// Returns a > b ? a : b for each number, so `b` if either is NaN.
inline DoublePair MaxOf(DoublePair a, DoublePair b) {
#if defined(__SSE2__)
  return reinterpret_cast<DoublePair>(_mm_max_pd(a, b));
#else
  return a > b ? a : b;
#endif
}

// Returns a < b ? a : b for each number.
inline DoublePair MinOf(DoublePair a, DoublePair b) {
#if defined(__SSE2__)
  return reinterpret_cast<DoublePair>(_mm_min_pd(a, b));
#else
  return a < b ? a : b;
#endif
}

}  // namespace holdfast
