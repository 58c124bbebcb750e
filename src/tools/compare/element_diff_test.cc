#include "tools/compare/element_diff.h"

#include <gtest/gtest.h>

#include "tools/compare/compare_test_util.h"

namespace holdfast {
namespace {

using Wide = std::complex<long double>;

bool SamePart(long double a, long double b, bool equal_nan) {
  return a == b || (equal_nan && std::isnan(a) && std::isnan(b));
}

// Compares one element after the other, exactly as diff.h describes.
ElementDiff SlowDiff(DType dtype_a, const char* a, DType dtype_b, const char* b,
                     size_t count, const Closeness& closeness) {
  ElementDiff diff;
  diff.element_count = count;
  for (size_t i = 0; i < count; ++i) {
    const char* at_a = a + i * DTypeBytes(dtype_a);
    const char* at_b = b + i * DTypeBytes(dtype_b);
    const Wide x = SlowNumber(dtype_a, at_a), y = SlowNumber(dtype_b, at_b);
    const bool same_real = SamePart(x.real(), y.real(), closeness.equal_nan);
    const bool same_imag = SamePart(x.imag(), y.imag(), closeness.equal_nan);
    const auto keep = [&](FoundElement& found) {
      if (found.exists()) return;
      found.position = static_cast<int64_t>(i);
      std::memcpy(found.a.data(), at_a, DTypeBytes(dtype_a));
      std::memcpy(found.b.data(), at_b, DTypeBytes(dtype_b));
    };
    if (same_real && same_imag) {
      if (dtype_a == dtype_b &&
          std::memcmp(at_a, at_b, DTypeBytes(dtype_a)) != 0) {
        ++diff.bits_only_count;
        keep(diff.first_bits);
      }
      continue;
    }
    ++diff.different_count;
    keep(diff.first_different);
    const auto has_nan = [](long double p, long double q) {
      return std::isnan(p) || std::isnan(q);
    };
    if ((!same_real && has_nan(x.real(), y.real())) ||
        (!same_imag && has_nan(x.imag(), y.imag()))) {
      ++diff.nan_mismatch_count;
      ++diff.beyond_count;
      continue;
    }
    const long double error = std::hypot(same_real ? 0 : x.real() - y.real(),
                                         same_imag ? 0 : x.imag() - y.imag());
    const long double size = std::max(std::hypot(x.real(), x.imag()),
                                      std::hypot(y.real(), y.imag()));
    const bool finite = std::isfinite(size);
    if (!finite || error > closeness.atol + closeness.rtol * size) {
      ++diff.beyond_count;
    }
    diff.max_abs_error =
        std::max(diff.max_abs_error, static_cast<double>(error));
    const long double relative =
        finite ? error / size : (std::isnan(size) ? 0 : INFINITY);
    diff.max_rel_error =
        std::max(diff.max_rel_error, static_cast<double>(relative));
    if (DTypeKindOf(dtype_a) < DTypeKind::kFloat && dtype_a == dtype_b) {
      diff.max_abs_error_exact =
          std::max(diff.max_abs_error_exact, static_cast<uint64_t>(error));
    }
  }
  return diff;
}

// Expects nearly equal numbers: sums and quotients in float64 may be off in the
// last digit, or overflow.
void ExpectNear(double got, double want) {
  if (std::isinf(got) && want > 1e308) return;
  EXPECT_TRUE(got == want || std::abs(got - want) <= 1e-13 * std::abs(want))
      << got << " " << want;
}

void ExpectSame(const ElementDiff& got, const ElementDiff& want) {
  EXPECT_EQ(got.element_count, want.element_count);
  EXPECT_EQ(got.different_count, want.different_count);
  EXPECT_EQ(got.beyond_count, want.beyond_count);
  EXPECT_EQ(got.nan_mismatch_count, want.nan_mismatch_count);
  EXPECT_EQ(got.bits_only_count, want.bits_only_count);
  EXPECT_EQ(got.max_abs_error_exact, want.max_abs_error_exact);
  EXPECT_EQ(got.first_different.position, want.first_different.position);
  EXPECT_EQ(got.first_different.a, want.first_different.a);
  EXPECT_EQ(got.first_different.b, want.first_different.b);
  EXPECT_EQ(got.first_bits.position, want.first_bits.position);
  ExpectNear(got.max_abs_error, want.max_abs_error);
  ExpectNear(got.max_rel_error, want.max_rel_error);
}

// Returns the elements with some of them replaced by random ones.
std::string Changed(std::mt19937_64& random, DType dtype,
                    const std::string& elements) {
  const std::string others =
      RandomElements(random, dtype, elements.size() / DTypeBytes(dtype));
  std::string changed = elements;
  const size_t bytes = DTypeBytes(dtype);
  const uint64_t odds = 1 + random() % 50;
  for (size_t i = 0; i < elements.size(); i += bytes) {
    if (random() % odds == 0) changed.replace(i, bytes, others, i, bytes);
  }
  return changed;
}

TEST(CompareElements, IsTheSlowWayForEveryPairOfDTypes) {
  std::mt19937_64 random(5);
  for (const DType a : EveryDType()) {
    for (const DType b : EveryDType()) {
      SCOPED_TRACE(std::string(DTypeName(a)) + " " + std::string(DTypeName(b)));
      for (int round = 0; round < (a == b ? 12 : 1); ++round) {
        const size_t count = a == b ? 1 + random() % 3000 : 1 + random() % 40;
        const std::string x = RandomElements(random, a, count);
        const std::string y =
            a == b ? Changed(random, a, x) : RandomElements(random, b, count);
        const Closeness closeness{round % 3 == 0 ? 0.0 : 0.5,
                                  round % 3 == 2 ? 0.25 : 0.0, round % 4 != 3};
        ExpectSame(CompareElements(a, x.data(), b, y.data(), count, closeness),
                   SlowDiff(a, x.data(), b, y.data(), count, closeness));
      }
    }
  }
}

TEST(CompareElements, FindsEverySingleBit) {
  std::mt19937_64 random(6);
  constexpr size_t kCount = 1500;
  for (const DType dtype : EveryDType()) {
    SCOPED_TRACE(DTypeName(dtype));
    const size_t bytes = DTypeBytes(dtype);
    const std::string x = RandomElements(random, dtype, kCount);
    const int bits = dtype == DType::kBool ? 1 : DTypeBits(dtype);
    for (int bit = 0; bit < bits; ++bit) {
      std::string y = x;
      const size_t where = random() % kCount;
      y[where * bytes + bit / 8] ^= static_cast<char>(1 << (bit % 8));
      const ElementDiff diff =
          CompareElements(dtype, x.data(), dtype, y.data(), kCount, {});
      EXPECT_EQ(diff.different_count + diff.bits_only_count, 1u) << bit;
      const FoundElement& found =
          diff.different_count > 0 ? diff.first_different : diff.first_bits;
      EXPECT_EQ(found.position, static_cast<int64_t>(where));
    }
  }
}

TEST(CompareElements, DoesNotLoseWholeNumbersOf64Bits) {
  const int64_t a[] = {INT64_MAX, INT64_MIN, 9007199254740993};
  const int64_t b[] = {INT64_MAX - 1, INT64_MAX, 9007199254740992};
  const auto diff =
      CompareElements(DType::kInt64, reinterpret_cast<const char*>(a),
                      DType::kInt64, reinterpret_cast<const char*>(b), 3, {});
  EXPECT_EQ(diff.different_count, 3u);
  EXPECT_EQ(diff.max_abs_error_exact, UINT64_MAX);
  const double as_double[] = {9007199254740992.0};
  const auto mixed = CompareElements(
      DType::kInt64, reinterpret_cast<const char*>(a + 2), DType::kFloat64,
      reinterpret_cast<const char*>(as_double), 1, {});
  EXPECT_EQ(mixed.max_abs_error, 1);
}

TEST(CompareElements, IgnoresUnusedBits) {
  const char a[] = {0x03, static_cast<char>(0xfd)}, b[] = {0x73, 0x0d};
  const auto diff = CompareElements(DType::kInt4, a, DType::kInt4, b, 2, {});
  EXPECT_EQ(diff.different_count + diff.bits_only_count, 0u);
}

TEST(CompareElements, JoinsInAnyOrder) {
  std::mt19937_64 random(7);
  const std::string x = RandomElements(random, DType::kFloat32, 4000);
  const std::string y = Changed(random, DType::kFloat32, x);
  const auto part = [&](size_t first, size_t count) {
    ElementDiff diff =
        CompareElements(DType::kFloat32, x.data() + 4 * first, DType::kFloat32,
                        y.data() + 4 * first, count, {});
    for (FoundElement* found : {&diff.first_different, &diff.first_bits}) {
      if (found->exists()) found->position += static_cast<int64_t>(first);
    }
    return diff;
  };
  ElementDiff joined = part(2500, 1500);
  joined.Merge(part(0, 2500));
  ExpectSame(joined, part(0, 4000));
}

}  // namespace
}  // namespace holdfast
