// Blocks of equal bytes are skipped. In other blocks the numbers are converted
// to float64 and compared two at a time. The conversion is exact except for
// 64-bit integers, which have a separate loop. Pairs of different dtypes are
// compared as long double, which represents both exactly.
#include "tools/compare/element_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tools/compare/lanes.h"
#include "tools/compare/load_numbers.h"

namespace holdfast {
namespace {

constexpr size_t kBlockElements = 1024;

struct BlockCounts {
  uint64_t different = 0;
  uint64_t beyond = 0;
  uint64_t nan_mismatch = 0;
  double max_abs_error = 0;
  double max_rel_error = 0;
};

class PairComparer {
 public:
  explicit PairComparer(const Closeness& closeness)
      : atol_{closeness.atol, closeness.atol},
        rtol_{closeness.rtol, closeness.rtol},
        equal_nan_{closeness.equal_nan ? -1 : 0, closeness.equal_nan ? -1 : 0} {
  }

  void Add(DoublePair a, DoublePair b) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const MaskPair nan_a = a != a, nan_b = b != b;
    const MaskPair equal = (a == b) | (nan_a & nan_b & equal_nan_);
    const MaskPair is_number = ~equal & ~(nan_a | nan_b);
    const DoublePair magnitude_a = AbsOf(a), magnitude_b = AbsOf(b);
    const DoublePair larger =
        magnitude_a > magnitude_b ? magnitude_a : magnitude_b;
    const DoublePair error = Masked(is_number, AbsOf(a - b));
    const DoublePair infinity{kInfinity, kInfinity};
    const MaskPair is_infinite = error == infinity;
    const DoublePair ratio = Masked(is_number, error / larger);
    const DoublePair relative = is_infinite ? infinity : ratio;
    const MaskPair close =
        is_number & ~is_infinite & (error <= atol_ + rtol_ * larger);
    max_abs_ = error > max_abs_ ? error : max_abs_;
    max_rel_ = relative > max_rel_ ? relative : max_rel_;
    equal_ -= equal;
    close_ -= close;
    number_ -= is_number;
  }

  // Returns the counts after adding `count` elements.
  BlockCounts Counts(uint64_t count) const {
    BlockCounts counts;
    const auto sum = [](MaskPair lanes) {
      return static_cast<uint64_t>(lanes[0] + lanes[1]);
    };
    counts.different = count - sum(equal_);
    counts.beyond = counts.different - sum(close_);
    counts.nan_mismatch = counts.different - sum(number_);
    counts.max_abs_error = std::max(max_abs_[0], max_abs_[1]);
    counts.max_rel_error = std::max(max_rel_[0], max_rel_[1]);
    return counts;
  }

 private:
  const DoublePair atol_;
  const DoublePair rtol_;
  const MaskPair equal_nan_;
  DoublePair max_abs_{};
  DoublePair max_rel_{};
  MaskPair equal_{};
  MaskPair close_{};
  MaskPair number_{};
};

// Compares any numbers, including NaN and infinities.
BlockCounts CompareAnyDoubles(const double* a, const double* b, size_t count,
                              const Closeness& closeness) {
  PairComparer comparer(closeness);
  const size_t even = count / 2 * 2;
  for (size_t i = 0; i < even; i += 2) {
    comparer.Add(LoadPair(a + i), LoadPair(b + i));
  }
  // The last element is paired with two equal numbers.
  if (even < count) {
    comparer.Add(DoublePair{a[even], 0}, DoublePair{b[even], 0});
  }
  return comparer.Counts(even + (even < count ? 2 : 0));
}

// The result for the most common blocks: finite numbers, compared without a
// tolerance.
struct FiniteBlock {
  uint64_t different = 0;
  double max_abs_error = 0;
  bool is_finite = false;
  // True if a relative error exceeds the given maximum.
  bool has_larger_ratio = false;
};

// REQUIRES: `count` is even.
FiniteBlock CompareFinite(const double* a, const double* b, size_t count,
                          double max_rel_error) {
  const DoublePair ratio = BothOf(max_rel_error);
  DoublePair max_abs{}, size{};
  MaskPair equal{}, above{};
  for (size_t i = 0; i < count; i += 2) {
    const DoublePair x = LoadPair(a + i), y = LoadPair(b + i);
    const DoublePair error = AbsOf(x - y);
    const DoublePair larger = MaxOf(AbsOf(x), AbsOf(y));
    max_abs = MaxOf(error, max_abs);
    // A NaN or an infinity remains visible in a sum of magnitudes.
    size += error + larger;
    above |= error > ratio * larger;
    equal -= x == y;
  }
  FiniteBlock block;
  block.different = count - static_cast<uint64_t>(equal[0] + equal[1]);
  block.max_abs_error = std::max(max_abs[0], max_abs[1]);
  block.is_finite = std::isfinite(size[0]) && std::isfinite(size[1]);
  block.has_larger_ratio = (above[0] | above[1]) != 0;
  return block;
}

// Compares numbers. `max_rel_error` is the largest relative error of earlier
// blocks.
BlockCounts CompareDoubles(const double* a, const double* b, size_t count,
                           const Closeness& closeness, double max_rel_error) {
  const bool is_plain =
      closeness.atol == 0 && closeness.rtol == 0 && count % 2 == 0;
  if (!is_plain) return CompareAnyDoubles(a, b, count, closeness);
  const FiniteBlock block = CompareFinite(a, b, count, max_rel_error);
  if (!block.is_finite || block.has_larger_ratio) {
    return CompareAnyDoubles(a, b, count, closeness);
  }
  BlockCounts counts;
  counts.different = counts.beyond = block.different;
  counts.max_abs_error = block.max_abs_error;
  return counts;
}

// Compares two real parts or two imaginary parts.
template <typename Real>
bool ArePartsEqual(Real a, Real b, bool equal_nan) {
  return a == b || (equal_nan && a != a && b != b);
}

// Compares numbers that have one part each (real) or two (complex). A missing
// second part counts as 0.
template <typename Real>
BlockCounts CompareNumbers(const Real* a, int parts_a, const Real* b,
                           int parts_b, size_t count,
                           const Closeness& closeness) {
  BlockCounts counts;
  const auto part = [](const Real* numbers, int parts, size_t i, int which) {
    return which < parts ? numbers[i * parts + which] : Real{0};
  };
  for (size_t i = 0; i < count; ++i) {
    Real difference[2];
    bool is_equal = true, is_nan = false;
    for (int p = 0; p < 2; ++p) {
      const Real x = part(a, parts_a, i, p), y = part(b, parts_b, i, p);
      const bool same = ArePartsEqual(x, y, closeness.equal_nan);
      difference[p] = same ? 0 : x - y;
      is_equal = is_equal && same;
      is_nan = is_nan || (!same && (x != x || y != y));
    }
    if (is_equal) continue;
    ++counts.different;
    if (is_nan) {
      ++counts.nan_mismatch;
      ++counts.beyond;
      continue;
    }
    const Real error = std::hypot(difference[0], difference[1]);
    const Real larger =
        std::max(std::hypot(part(a, parts_a, i, 0), part(a, parts_a, i, 1)),
                 std::hypot(part(b, parts_b, i, 0), part(b, parts_b, i, 1)));
    // A number with a NaN part may be equal on both sides, and still has no
    // error.
    const bool is_finite = std::isfinite(error) && std::isfinite(larger);
    const bool has_size = larger == larger;
    const Real relative =
        is_finite
            ? error / larger
            : (has_size ? std::numeric_limits<Real>::infinity() : Real{0});
    if (!is_finite || error > closeness.atol + closeness.rtol * larger) {
      ++counts.beyond;
    }
    counts.max_abs_error =
        std::max(counts.max_abs_error, static_cast<double>(error));
    counts.max_rel_error =
        std::max(counts.max_rel_error, static_cast<double>(relative));
  }
  return counts;
}

template <typename Int>
BlockCounts CompareIntegers(const char* a, const char* b, size_t count,
                            const Closeness& closeness, uint64_t* exact) {
  BlockCounts counts;
  const auto magnitude = [](Int value) {
    return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value)
                     : static_cast<uint64_t>(value);
  };
  for (size_t i = 0; i < count; ++i) {
    Int x, y;
    std::memcpy(&x, a + i * sizeof x, sizeof x);
    std::memcpy(&y, b + i * sizeof y, sizeof y);
    if (x == y) continue;
    ++counts.different;
    const uint64_t error =
        x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
              : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
    const uint64_t larger = std::max(magnitude(x), magnitude(y));
    *exact = std::max(*exact, error);
    const auto wide = static_cast<long double>(error);
    const auto size = static_cast<long double>(larger);
    counts.max_rel_error =
        std::max(counts.max_rel_error, static_cast<double>(wide / size));
    if (wide > closeness.atol + closeness.rtol * size) ++counts.beyond;
  }
  counts.max_abs_error = static_cast<double>(*exact);
  return counts;
}

// Returns true if two elements differ in the bits that the dtype uses.
bool BitsDiffer(DType dtype, const char* a, const char* b) {
  const size_t bytes = DTypeBytes(dtype);
  if (DTypeBits(dtype) >= 8) return std::memcmp(a, b, bytes) != 0;
  const int mask = (1 << DTypeBits(dtype)) - 1;
  return ((*a ^ *b) & mask) != 0;
}

template <size_t kBytes>
uint64_t CountUnequal(const char* a, const char* b, size_t count) {
  uint64_t unequal = 0;
  for (size_t i = 0; i < count * kBytes; i += kBytes) {
    unequal += std::memcmp(a + i, b + i, kBytes) != 0;
  }
  return unequal;
}

uint64_t CountBitsDiffer(DType dtype, const char* a, const char* b,
                         size_t count) {
  if (DTypeBits(dtype) < 8) {
    uint64_t unequal = 0;
    for (size_t i = 0; i < count; ++i) {
      unequal += BitsDiffer(dtype, a + i, b + i);
    }
    return unequal;
  }
  switch (DTypeBytes(dtype)) {
    case 1:
      return CountUnequal<1>(a, b, count);
    case 2:
      return CountUnequal<2>(a, b, count);
    case 4:
      return CountUnequal<4>(a, b, count);
    case 8:
      return CountUnequal<8>(a, b, count);
    default:
      return CountUnequal<16>(a, b, count);
  }
}

class RunComparer {
 public:
  RunComparer(DType dtype_a, DType dtype_b, const Closeness& closeness)
      : dtype_a_(dtype_a),
        dtype_b_(dtype_b),
        bytes_a_(DTypeBytes(dtype_a)),
        bytes_b_(DTypeBytes(dtype_b)),
        closeness_(closeness) {}

  ElementDiff Compare(const char* a, const char* b, size_t count) {
    result_.element_count = count;
    for (size_t first = 0; first < count; first += kBlockElements) {
      CompareBlock(a + first * bytes_a_, b + first * bytes_b_,
                   std::min(kBlockElements, count - first),
                   static_cast<int64_t>(first));
    }
    return result_;
  }

 private:
  bool is_one_dtype() const { return dtype_a_ == dtype_b_; }

  void CompareBlock(const char* a, const char* b, size_t count,
                    int64_t position) {
    // Elements with equal bytes are unequal only if they are NaN and NaN does
    // not equal itself.
    const bool may_pass =
        closeness_.equal_nan || DTypeKindOf(dtype_a_) < DTypeKind::kFloat;
    if (is_one_dtype() && may_pass &&
        std::memcmp(a, b, count * bytes_a_) == 0) {
      return;
    }
    const BlockCounts counts = CountsOf(a, b, count);
    result_.different_count += counts.different;
    result_.beyond_count += counts.beyond;
    result_.nan_mismatch_count += counts.nan_mismatch;
    result_.max_abs_error =
        std::max(result_.max_abs_error, counts.max_abs_error);
    result_.max_rel_error =
        std::max(result_.max_rel_error, counts.max_rel_error);
    if (is_one_dtype() && counts.different < count) {
      CountBits(a, b, count, counts.different);
    }
    Locate(a, b, count, position, counts.different > 0);
  }

  BlockCounts CountsOf(const char* a, const char* b, size_t count) {
    if (!is_one_dtype()) {
      LoadLongDoubles(dtype_a_, a, count, wide_a_);
      LoadLongDoubles(dtype_b_, b, count, wide_b_);
      return CompareNumbers(wide_a_, PartsOf(dtype_a_), wide_b_,
                            PartsOf(dtype_b_), count, closeness_);
    }
    uint64_t* exact = &result_.max_abs_error_exact;
    if (dtype_a_ == DType::kInt64) {
      return CompareIntegers<int64_t>(a, b, count, closeness_, exact);
    }
    if (dtype_a_ == DType::kUint64) {
      return CompareIntegers<uint64_t>(a, b, count, closeness_, exact);
    }
    LoadDoubles(dtype_a_, a, count, numbers_a_);
    LoadDoubles(dtype_b_, b, count, numbers_b_);
    if (PartsOf(dtype_a_) == 2) {
      return CompareNumbers(numbers_a_, 2, numbers_b_, 2, count, closeness_);
    }
    const BlockCounts counts = CompareDoubles(
        numbers_a_, numbers_b_, count, closeness_, result_.max_rel_error);
    if (DTypeKindOf(dtype_a_) < DTypeKind::kFloat) {
      *exact = std::max(*exact, static_cast<uint64_t>(counts.max_abs_error));
    }
    return counts;
  }

  void CountBits(const char* a, const char* b, size_t count,
                 uint64_t different_count) {
    if (closeness_.equal_nan || different_count == 0) {
      // Elements whose values differ have different bits, too.
      result_.bits_only_count +=
          CountBitsDiffer(dtype_a_, a, b, count) - different_count;
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      const char* x = a + i * bytes_a_;
      const char* y = b + i * bytes_b_;
      result_.bits_only_count +=
          BitsDiffer(dtype_a_, x, y) && !IsDifferent(x, y);
    }
  }

  bool IsDifferent(const char* a, const char* b) {
    uint64_t exact = 0;
    std::swap(exact, result_.max_abs_error_exact);
    const bool is_different = CountsOf(a, b, 1).different > 0;
    result_.max_abs_error_exact = exact;
    return is_different;
  }

  void Locate(const char* a, const char* b, size_t count, int64_t position,
              bool has_different) {
    const bool wants_different =
        has_different && !result_.first_different.exists();
    const bool wants_bits = is_one_dtype() && !result_.first_bits.exists() &&
                            result_.bits_only_count > 0;
    if (!wants_different && !wants_bits) return;
    for (size_t i = 0; i < count; ++i) {
      const char* x = a + i * bytes_a_;
      const char* y = b + i * bytes_b_;
      const bool is_different = has_different && IsDifferent(x, y);
      if (is_different && !result_.first_different.exists()) {
        Keep(x, y, position + static_cast<int64_t>(i), result_.first_different);
      }
      if (wants_bits && !is_different && !result_.first_bits.exists() &&
          BitsDiffer(dtype_a_, x, y)) {
        Keep(x, y, position + static_cast<int64_t>(i), result_.first_bits);
      }
    }
  }

  void Keep(const char* a, const char* b, int64_t position,
            FoundElement& found) const {
    found.position = position;
    std::memcpy(found.a.data(), a, bytes_a_);
    std::memcpy(found.b.data(), b, bytes_b_);
  }

  const DType dtype_a_;
  const DType dtype_b_;
  const size_t bytes_a_;
  const size_t bytes_b_;
  const Closeness& closeness_;
  ElementDiff result_;
  double numbers_a_[2 * kBlockElements];
  double numbers_b_[2 * kBlockElements];
  long double wide_a_[2 * kBlockElements];
  long double wide_b_[2 * kBlockElements];
};

void KeepFirst(const FoundElement& other, FoundElement& found) {
  if (other.position < found.position) found = other;
}

}  // namespace

void ElementDiff::Merge(const ElementDiff& other) {
  element_count += other.element_count;
  different_count += other.different_count;
  beyond_count += other.beyond_count;
  nan_mismatch_count += other.nan_mismatch_count;
  bits_only_count += other.bits_only_count;
  max_abs_error = std::max(max_abs_error, other.max_abs_error);
  max_rel_error = std::max(max_rel_error, other.max_rel_error);
  max_abs_error_exact =
      std::max(max_abs_error_exact, other.max_abs_error_exact);
  KeepFirst(other.first_different, first_different);
  KeepFirst(other.first_bits, first_bits);
}

ElementDiff CompareElements(DType dtype_a, const char* a, DType dtype_b,
                            const char* b, size_t count,
                            const Closeness& closeness) {
  return RunComparer(dtype_a, dtype_b, closeness).Compare(a, b, count);
}

}  // namespace holdfast
