// FingerprintSum: a 128-bit number computed from the elements of a tensor, no
// matter how it is split. Sums of boxes that cover the tensor exactly once, in
// any order and with any strides, add up to the tensor's sum.
//
// The elements in C order are taken as bytes, each four bytes as a
// little-endian word x, and each 1024 words as a block. Each of the two halves
// of a sum is
//
//   sum over blocks b: c(b) * sum over words j of b: w(j) * x      (mod 2^64)
//
// with odd w(j) of 32 bits and odd c(b) of 64 bits, different for each half
// (sum.cc). If only a part of a word is summed, its other bytes count as zeros.
// When one word changes, whatever its bits, both halves change: the difference
// is c * w * d with odd c and w and 0 < |d| < 2^32. Both halves also change
// when two bits flip in one block, because all w(j) of a half are different.
// Any other change is missed with a probability of about 2^-62 or less. The sum
// does not protect against an attacker who wants a difference to be missed.
//
// Unused bits of sub-byte elements count as zeros, and bools as 0 or 1; floats
// count as their bits, so -0.0 is not 0.0.
// Thread-safety: pure functions. Ownership: borrows views for the call.
// Units: elements. Errors: none; boxes outside the array are the caller's bug.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/tensor.h"

namespace holdfast {

struct FingerprintSum {
  uint64_t low = 0;
  uint64_t high = 0;

  FingerprintSum& operator+=(const FingerprintSum& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  bool operator==(const FingerprintSum&) const = default;
};

// The algorithm name that files record with these sums.
inline constexpr std::string_view kFingerprintAlgorithm = "holdfast-linear-1";

// Returns the sum of `view`, which holds the elements at `origin` (empty:
// zeros) of an array of `array_shape`.
FingerprintSum SumOfBox(const ConstArrayView& view, const Shape& origin,
                        const Shape& array_shape);

// Returns the dtype's and the shape's contribution to a fingerprint, so that
// equal bits in different dtypes or shapes have different fingerprints.
FingerprintSum TagOf(DType dtype, const Shape& shape);

// Returns 32 lower-case hex digits, `high` first.
std::string FingerprintHex(const FingerprintSum& sum);
std::optional<FingerprintSum> ParseFingerprintHex(std::string_view text);

}  // namespace holdfast
