// Bit-level encoding and decoding of the narrow float formats.
//
// Formats: float16 and bfloat16 (IEEE 754), the OCP 8-bit formats and their
// fnuz variants (arXiv:2209.05433, arXiv:2206.02915), and the OCP MX formats
// float8_e8m0fnu and float4_e2m1fn. Where these standards leave a choice (NaN
// and overflow in formats that lack them) the results are those of ml_dtypes,
// which TensorStore shares.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "holdfast/dtype.h"

namespace holdfast {

// Patterns are magnitudes, without the sign bit.
struct FloatFormat {
  int bits;
  int mantissa_bits;
  int exponent_bias;
  uint32_t finite_max;
  uint32_t infinity;  // what overflow becomes: infinity, NaN or the maximum
  uint32_t nan;
  bool has_infinity;
  bool has_sign = true;
  // False for the fnuz formats, which use the pattern of -0 for NaN.
  bool has_negative_zero = true;
  bool has_zero = true;
};

// Fields: bits, mantissa, bias, finite_max, infinity, nan, has_infinity.
inline constexpr FloatFormat kFloat16Format = {16,     10,     15,  0x7bff,
                                               0x7c00, 0x7e00, true};
inline constexpr FloatFormat kBfloat16Format = {16,     7,      127, 0x7f7f,
                                                0x7f80, 0x7fc0, true};
inline constexpr FloatFormat kFloat8E3m4Format = {8,    4,    3,   0x6f,
                                                  0x70, 0x78, true};
inline constexpr FloatFormat kFloat8E4m3fnFormat = {8,    3,    7,    0x7e,
                                                    0x7f, 0x7f, false};
inline constexpr FloatFormat kFloat8E4m3fnuzFormat = {
    8, 3, 8, 0x7f, 0x80, 0x80, false, true, false};
inline constexpr FloatFormat kFloat8E4m3b11fnuzFormat = {
    8, 3, 11, 0x7f, 0x80, 0x80, false, true, false};
inline constexpr FloatFormat kFloat8E5m2Format = {8,    2,    15,  0x7b,
                                                  0x7c, 0x7e, true};
inline constexpr FloatFormat kFloat8E5m2fnuzFormat = {
    8, 2, 16, 0x7f, 0x80, 0x80, false, true, false};
// Only powers of two: zero and negative numbers become NaN.
inline constexpr FloatFormat kFloat8E8m0fnuFormat = {
    8, 0, 127, 0xfe, 0xff, 0xff, false, false, false, false};
// Saturates; NaN becomes -0 (and a negative NaN +0), as ml_dtypes does.
inline constexpr FloatFormat kFloat4E2m1fnFormat = {4,   1,   1,    0x7,
                                                    0x7, 0x8, false};

// The layout of the IEEE type Real.
template <typename Real>
struct WideFloat;
template <>
struct WideFloat<float> {
  using Word = uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kExponentBias = 127;
};
template <>
struct WideFloat<double> {
  using Word = uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kExponentBias = 1023;
};

// Rounds to nearest, ties to even. Branch-free apart from selects on constants
// of the format, so that loops over it vectorize.
template <typename Real>
inline uint32_t EncodeFloat(const FloatFormat& format, Real value) {
  using Wide = WideFloat<Real>;
  using Word = typename Wide::Word;
  constexpr int kWordBits = 8 * sizeof(Word);
  constexpr Word kInfinity =
      std::bit_cast<Word>(std::numeric_limits<Real>::infinity());
  const Word bits = std::bit_cast<Word>(value);
  const bool negative = (bits >> (kWordBits - 1)) != 0;
  const Word magnitude = bits & ~(Word{1} << (kWordBits - 1));

  // Rebias the exponent and round in place: a carry out of the mantissa moves
  // into the exponent, which is what rounding up to the next binade means.
  const int shift = Wide::kMantissaBits - format.mantissa_bits;
  const int rebias = Wide::kExponentBias - format.exponent_bias;
  const Word normal_min = static_cast<Word>(rebias + 1) << Wide::kMantissaBits;
  Word code = magnitude - (static_cast<Word>(rebias) << Wide::kMantissaBits);
  // Ties go to the even mantissa; without mantissa bits its last bit is the
  // implicit one, which is odd for every normal number.
  const Word odd = format.mantissa_bits > 0 ? (code >> shift) & 1
                                            : Word{magnitude >= normal_min};
  code += odd + (Word{1} << (shift - 1)) - 1;
  code >>= shift;

  // Below the smallest normal number: adding a number whose last place is the
  // step of the subnormals lets the hardware round. With equal biases the
  // subnormals of both types line up and the steps above are right.
  if (rebias != 0) {
    const Word magic_bits = static_cast<Word>(rebias + 1 + shift)
                            << Wide::kMantissaBits;
    const Real magic = std::bit_cast<Real>(magic_bits);
    const Word subnormal =
        std::bit_cast<Word>(std::bit_cast<Real>(magnitude) + magic) -
        magic_bits;
    code = magnitude < normal_min ? subnormal : code;
  }

  code = code > format.finite_max ? format.infinity : code;
  code = magnitude > kInfinity ? format.nan : code;
  if (!format.has_zero) code = magnitude == 0 ? format.nan : code;
  if (!format.has_sign) return negative ? format.nan : code;
  const Word sign = Word{1} << (format.bits - 1);
  const bool signed_code = format.has_negative_zero || (code & (sign - 1)) != 0;
  return static_cast<uint32_t>(code ^ (negative && signed_code ? sign : 0));
}

// Like EncodeFloat for float16, but a NaN keeps its sign and the upper bits of
// its payload, and becomes quiet, as in TensorStore.
template <typename Real>
inline uint16_t EncodeFloat16(Real value) {
  using Wide = WideFloat<Real>;
  using Word = typename Wide::Word;
  constexpr Word kInfinity =
      std::bit_cast<Word>(std::numeric_limits<Real>::infinity());
  const Word bits = std::bit_cast<Word>(value);
  const Word sign = (bits >> (8 * sizeof(Word) - 16)) & 0x8000;
  const Word payload = (bits >> (Wide::kMantissaBits - 10)) & 0x3ff;
  const Word nan = sign | 0x7e00 | payload;
  const bool is_nan = (bits & (~Word{0} >> 1)) > kInfinity;
  const Word code = EncodeFloat(kFloat16Format, value);
  return static_cast<uint16_t>(is_nan ? nan : code);
}

// Returns the exact float32 pattern of the value; NaNs become quiet, without
// payload. REQUIRES: a format of at most 8 bits.
constexpr uint32_t DecodeFloat(const FloatFormat& format, uint32_t bits) {
  const uint32_t sign_bit = format.has_sign ? 1u << (format.bits - 1) : 0;
  const uint32_t sign = (bits & sign_bit) != 0 ? 0x80000000u : 0;
  const uint32_t code = bits & ((1u << format.bits) - 1) & ~sign_bit;
  const bool fnuz_nan =
      format.has_sign && !format.has_negative_zero && bits == sign_bit;
  if (fnuz_nan) return sign | 0x7fc00000u;
  if (format.has_infinity && code == format.infinity) return sign | 0x7f800000u;
  if (code > format.finite_max) return sign | 0x7fc00000u;
  uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
  int exponent = static_cast<int>(code >> format.mantissa_bits);
  if (!format.has_zero) {
    // 2^-127 is the one value that float32 holds as a subnormal.
    return exponent == 0 ? 0x00400000u : static_cast<uint32_t>(exponent) << 23;
  }
  if (exponent == 0) {
    if (mantissa == 0) return sign;
    exponent = 1;
    while ((mantissa >> format.mantissa_bits) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    mantissa &= (1u << format.mantissa_bits) - 1;
  }
  return sign |
         static_cast<uint32_t>(exponent + 127 - format.exponent_bias) << 23 |
         mantissa << (23 - format.mantissa_bits);
}

// Returns the float32 value of every pattern of an 8-bit format.
constexpr std::array<float, 256> DecodeTable(const FloatFormat& format) {
  std::array<float, 256> table{};
  for (uint32_t bits = 0; bits < table.size(); ++bits) {
    table[bits] = std::bit_cast<float>(DecodeFloat(format, bits));
  }
  return table;
}

// Decodes float16 to float32 bit by bit: signaling NaNs stay signaling, as in
// numpy.
inline float DecodeFloat16(uint16_t half) {
  constexpr uint32_t kRebias = uint32_t{127 - 15} << 23;
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half & 0x7c00u;
  const uint32_t shifted = uint32_t{half & 0x7fffu} << 13;
  const uint32_t normal = shifted + kRebias;
  const uint32_t special = normal + kRebias;
  // A subnormal gets an implicit bit that the subtraction removes again.
  constexpr uint32_t kMagicBits = uint32_t{127 - 14} << 23;
  const float subnormal = std::bit_cast<float>(shifted + kMagicBits) -
                          std::bit_cast<float>(kMagicBits);
  uint32_t bits = exponent == 0x7c00u ? special : normal;
  bits = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : bits;
  return std::bit_cast<float>(bits | sign);
}

// Decodes float16 to float64. A hardware widening would make signaling NaNs
// quiet.
inline double DecodeFloat16ToDouble(uint16_t half) {
  if ((half & 0x7fffu) <= 0x7c00u) return DecodeFloat16(half);
  return std::bit_cast<double>(uint64_t{half & 0x8000u} << 48 |
                               uint64_t{0x7ff} << 52 |
                               uint64_t{half & 0x3ffu} << 42);
}

}  // namespace holdfast
