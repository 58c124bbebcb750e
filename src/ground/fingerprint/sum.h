// FingerprintSum: one number of 128 bits for the elements of a tensor, however
// it is cut. Sums of boxes that cover the tensor once, in any order and with
// any strides, add up to that of the tensor.
//
// The elements in C order are bytes, and four of these a little-endian word x.
// 1024 words are a block. Each of the two halves of a sum is
//
//   sum over blocks b: c(b) * sum over words j of b: w(j) * x      (mod 2^64)
//
// with odd w(j) of 32 bits and odd c(b) of 64 bits, of its own (sum.cc). A part
// of a word is the word with zeros elsewhere. Where one word changes, whatever
// its bits, both halves change: the difference is c * w * d with odd c and w
// and 0 < |d| < 2^32. So do they when two bits flip in one block, as the w of
// a half are all different. Anything else is missed with a chance of about
// 2^-62 or less. It does not protect against somebody who wants a difference to
// be missed.
//
// Unused bits of sub-byte elements count as zeros, and bools as 0 or 1; floats
// are their bits, so that -0.0 is not 0.0.
// Thread-safety: pure functions. Ownership: borrows views for the call.
// Units: elements. Errors: none; boxes outside are the caller's bug.
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

// The name by which files say that they hold these sums.
inline constexpr std::string_view kFingerprintAlgorithm = "holdfast-linear-1";

// The sum of `view`, the elements at `origin` (empty: zeros) of an array of
// `array_shape`.
FingerprintSum SumOfBox(const ConstArrayView& view, const Shape& origin,
                        const Shape& array_shape);

// The part of a fingerprint besides the sum of the elements, so that equal bits
// of another dtype or shape differ.
FingerprintSum TagOf(DType dtype, const Shape& shape);

// 32 lower-case hex digits, `high` first.
std::string FingerprintHex(const FingerprintSum& sum);
std::optional<FingerprintSum> ParseFingerprintHex(std::string_view text);

}  // namespace holdfast
