// Compares two runs of elements, as holdfast/tools/diff.h defines it.
//
// Thread-safety: pure functions; one ElementDiff per thread, merged afterwards.
// Units: elements; positions are counted from the first element of the run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "holdfast/dtype.h"

namespace holdfast {

struct Closeness {
  double atol = 0;
  double rtol = 0;
  bool equal_nan = true;
};

// An element that differs between the two sides.
struct FoundElement {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t position = kNone;
  std::array<char, 16> a{};
  std::array<char, 16> b{};

  bool exists() const { return position != kNone; }
};

struct ElementDiff {
  uint64_t element_count = 0;
  uint64_t different_count = 0;
  uint64_t beyond_count = 0;
  uint64_t nan_mismatch_count = 0;
  uint64_t bits_only_count = 0;
  double max_abs_error = 0;
  double max_rel_error = 0;
  uint64_t max_abs_error_exact = 0;  // for integers of one dtype
  FoundElement first_different;
  FoundElement first_bits;

  // Adds the counts and errors of `other`. The order of merging does not
  // matter.
  void Merge(const ElementDiff& other);
};

// Compares `count` elements of `a` and `b`, both in C order. Ignores the unused
// upper bits of dtypes narrower than a byte.
ElementDiff CompareElements(DType dtype_a, const char* a, DType dtype_b,
                            const char* b, size_t count,
                            const Closeness& closeness);

}  // namespace holdfast
