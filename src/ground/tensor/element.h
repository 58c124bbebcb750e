// How the elements of each real dtype are converted to and from the three wide
// types that conversions go through: int64_t, float and double.
//
// An element struct E of a dtype has:
//   Storage             the bytes of one element
//   kInteger            converts through int64_t exactly (modulo 2^64)
//   kDouble             converts from and to double in one step
//   Load<Wide>(Storage) its value, rounded once to Wide
//   Store(Wide)         the element nearest to a value of type Wide
// The rules are those of TensorStore's casts on x86-64 (ground/tensor/copy.h).
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ground/tensor/float_format.h"

namespace holdfast {

// Returns the value truncated to an integer, or the least Int if that does not
// fit (NaN included), like cvttss2si and cvttsd2si.
template <typename Int, typename Real>
inline Int TruncateOrMin(Real value) {
  constexpr Int kMin = std::numeric_limits<Int>::min();
  constexpr Real kLow = static_cast<Real>(kMin);
  return value >= kLow && value < -kLow ? static_cast<Int>(value) : kMin;
}

// Converts a float to an integer as compiled C does on x86-64: through int32
// for types of up to 16 bits and int32 itself, through int64 for uint32. These
// are the results of the scalar loops of TensorStore and numpy. Their vector
// loops give other results for uint32 out of range, depending on the position
// in the array.
template <typename Int, typename Real>
inline Int FloatToInteger(Real value) {
  if constexpr (std::is_same_v<Int, uint64_t>) {
    constexpr Real kTwoTo63 = static_cast<Real>(uint64_t{1} << 63);
    const bool high = value >= kTwoTo63;
    const int64_t low = TruncateOrMin<int64_t>(high ? value - kTwoTo63 : value);
    return static_cast<uint64_t>(low) ^ (high ? uint64_t{1} << 63 : 0);
  } else if constexpr (std::is_same_v<Int, uint32_t> ||
                       std::is_same_v<Int, int64_t>) {
    return static_cast<Int>(TruncateOrMin<int64_t>(value));
  } else {
    return static_cast<Int>(TruncateOrMin<int32_t>(value));
  }
}

template <typename Int>
struct IntegerElement {
  using Storage = Int;
  static constexpr Int kHighest = std::numeric_limits<Int>::max();
  static constexpr Int kLowest = std::numeric_limits<Int>::min();
  static constexpr bool kInteger = true;
  static constexpr bool kDouble = true;

  template <typename Wide>
  static Wide Load(Int stored) {
    return static_cast<Wide>(stored);
  }
  template <typename Wide>
  static Int Store(Wide value) {
    if constexpr (std::is_same_v<Wide, int64_t>) {
      return static_cast<Int>(value);
    } else {
      return FloatToInteger<Int>(value);
    }
  }
};

// int2, int4, uint2, uint4: the low bits of a byte. The bits above are copies
// of the sign, as TensorStore leaves them; zero for the unsigned types.
template <int kBits, bool kSigned>
struct SubByteElement {
  using Storage = uint8_t;
  static constexpr bool kInteger = true;
  static constexpr bool kDouble = true;
  static constexpr uint8_t kMask = (1 << kBits) - 1;
  // The low bits of 127 or 255, and of -128 or 0.
  static constexpr uint8_t kHighest = kMask;
  static constexpr uint8_t kLowest = 0;

  template <typename Wide>
  static Wide Load(uint8_t stored) {
    constexpr int kSignBit = kSigned ? 1 << (kBits - 1) : 0;
    return static_cast<Wide>(((stored & kMask) ^ kSignBit) - kSignBit);
  }
  // Wraps integers; floats outside the range of int32 become 0.
  template <typename Wide>
  static uint8_t Store(Wide value) {
    return IntegerElement<uint8_t>::Store(value) & kMask;
  }
};

// An integer type as the target of 8-bit floats: infinities become its limits
// (those of a full byte for sub-byte types) and NaN becomes 0. TensorStore
// happens to be compiled this way for these formats, and only for them.
template <typename Element>
struct FromFloat8Element {
  using Storage = typename Element::Storage;

  static Storage Store(float value) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (value == kInfinity) return Element::kHighest;
    if (value == -kInfinity) return Element::kLowest;
    return value == value ? Element::Store(value) : Storage{0};
  }
};

struct BoolElement {
  using Storage = uint8_t;
  static constexpr bool kInteger = true;
  static constexpr bool kDouble = true;

  template <typename Wide>
  static Wide Load(uint8_t stored) {
    return static_cast<Wide>(stored != 0);
  }
  template <typename Wide>
  static uint8_t Store(Wide value) {
    return value != 0;
  }
};

// The truth value of a complex number; all other casts drop the imaginary part.
template <typename Part>
struct ComplexTruth {
  struct Storage {
    Part real;
    Part imaginary;
  };

  template <typename Wide>
  static Wide Load(const Storage& stored) {
    return static_cast<Wide>(stored.real != 0 || stored.imaginary != 0);
  }
};

// Formats of at most 8 bits, to which float64 is rounded in one step.
template <const FloatFormat& kFormat>
struct SmallFloatElement {
  using Storage = uint8_t;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = true;
  static constexpr std::array<float, 256> kTable = DecodeTable(kFormat);

  template <typename Wide>
  static Wide Load(uint8_t stored) {
    return kTable[stored];
  }
  template <typename Real>
  static uint8_t Store(Real value) {
    return static_cast<uint8_t>(EncodeFloat(kFormat, value));
  }
};

// Every bit above the low three makes the number negative.
struct Float4Element : SmallFloatElement<kFloat4E2m1fnFormat> {
  template <typename Wide>
  static Wide Load(uint8_t stored) {
    return kTable[(stored & 7) | (stored > 7 ? 8 : 0)];
  }
};

// float8_e5m2 is a truncated float16, so a NaN from float16 is truncated as
// well.
struct E5m2FromFloat16Element : SmallFloatElement<kFloat8E5m2Format> {
  static uint8_t Store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const auto nan =
        static_cast<uint8_t>((bits >> 24 & 0x80) | 0x7e | (bits >> 21 & 3));
    return value == value ? SmallFloatElement::Store(value) : nan;
  }
};

// The opposite cast keeps every pattern. It goes through int64_t, because no
// float type keeps all NaNs.
struct Float16FromE5m2Element {
  using Storage = uint16_t;
  static uint16_t Store(int64_t stored) {
    return static_cast<uint16_t>(stored << 8);
  }
};

// TensorStore treats float8_e8m0fnu as a type with bias 63, a zero (pattern 0)
// and a sign (its top bit, which also counts in the exponent). Casts to and
// from it therefore do not preserve values. Elements that are not cast keep
// their bits.
enum class E8m0Decoding : uint8_t { kExact, kWrapped, kToInteger, kToFloat4 };

// Returns +-2^(pattern - 63), infinite if Real is too small.
template <typename Real>
constexpr Real ExactE8m0(uint32_t bits) {
  if (bits == 0) return 0;
  if (bits == 0xff) {
    return std::bit_cast<Real>(std::bit_cast<typename WideFloat<Real>::Word>(
                                   std::numeric_limits<Real>::quiet_NaN()) |
                               typename WideFloat<Real>::Word{1}
                                   << (8 * sizeof(Real) - 1));
  }
  Real value = 1;
  for (uint32_t i = 63; i < bits; ++i) value *= 2;
  for (uint32_t i = bits; i < 63; ++i) value /= 2;
  return bits < 0x80 ? value : -value;
}

// Decodes to float32, where the exponent overflows into the sign.
constexpr uint32_t WrappedE8m0(uint32_t bits) {
  if (bits == 0) return 0;
  if (bits == 0xff) return 0xffc00000u;
  return ((bits + 64) << 23) + (bits < 0x80 ? 0 : 0x80000000u);
}

template <typename Real, E8m0Decoding kDecoding>
constexpr std::array<Real, 256> E8m0Table() {
  std::array<Real, 256> table{};
  for (uint32_t bits = 0; bits < table.size(); ++bits) {
    if constexpr (kDecoding == E8m0Decoding::kWrapped ||
                  kDecoding == E8m0Decoding::kToInteger) {
      table[bits] = std::bit_cast<Real>(WrappedE8m0(bits));
    } else if (bits < 191 || sizeof(Real) > 4 || bits == 0xff) {
      table[bits] = ExactE8m0<Real>(bits);
    } else {
      table[bits] = -std::numeric_limits<Real>::infinity();
    }
  }
  if constexpr (kDecoding == E8m0Decoding::kToInteger) {
    table[0xbf] = -std::numeric_limits<Real>::max();  // no infinity here
  }
  if constexpr (kDecoding == E8m0Decoding::kToFloat4) {
    // Here the exponent of the narrow type overflows.
    table[0xbe] = -Real{0};
    table[0xbf] = -1;
    table[0xc0] = -2;
    table[0xc1] = -4;
  }
  return table;
}

template <E8m0Decoding kDecoding = E8m0Decoding::kExact>
struct E8m0Element {
  using Storage = uint8_t;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = true;
  template <typename Real>
  static constexpr std::array<Real, 256> kTable = E8m0Table<Real, kDecoding>();

  template <typename Wide>
  static Wide Load(uint8_t stored) {
    return kTable<Wide>[stored];
  }
  // Stores the magnitude's exponent, rounding halves up. Too large a value
  // becomes NaN; too small a value becomes NaN from float32, and 0 or the least
  // number from float64.
  template <typename Real>
  static uint8_t Store(Real value) {
    using Wide = WideFloat<Real>;
    using Word = typename Wide::Word;
    const Word magnitude = std::bit_cast<Word>(value) & (~Word{0} >> 1);
    constexpr Word kHalf = Word{1} << (Wide::kMantissaBits - 1);
    const auto exponent =
        static_cast<int>((magnitude + kHalf) >> Wide::kMantissaBits);
    const int code = exponent - (Wide::kExponentBias - 63);
    const bool is_finite =
        magnitude < std::bit_cast<Word>(std::numeric_limits<Real>::infinity());
    if (magnitude == 0) return 0;
    if (!is_finite || code > 0xff) return 0xff;
    if (sizeof(Real) > 4 && code <= 0) {
      constexpr Word kHalfOfLeast = Word{Wide::kExponentBias - 63}
                                    << Wide::kMantissaBits;
      return magnitude > kHalfOfLeast;
    }
    return static_cast<uint8_t>(code >= 0 ? code : 0xff);
  }
};

struct Bfloat16Element {
  using Storage = uint16_t;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = false;

  template <typename Wide>
  static Wide Load(uint16_t stored) {
    return std::bit_cast<float>(uint32_t{stored} << 16);
  }
  // Like EncodeFloat for bfloat16, but with half the operations, because
  // bfloat16 is a truncated float32. A NaN is truncated as well, with a bit set
  // that keeps it a NaN.
  static uint16_t Store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const uint32_t nan = bits | 0x00200000u;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>((is_nan ? nan : rounded) >> 16);
  }
};

// NaNs of 8-bit floats have no payload to keep.
struct Bfloat16FromFloat8Element : Bfloat16Element {
  static uint16_t Store(float value) {
    return static_cast<uint16_t>(EncodeFloat(kBfloat16Format, value));
  }
};

struct Float16Element {
  using Storage = uint16_t;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = false;

  template <typename Wide>
  static Wide Load(uint16_t stored) {
    return DecodeFloat16(stored);
  }
  static uint16_t Store(float value) { return EncodeFloat16(value); }
};

// NaNs from 8-bit floats have every bit set.
struct Float16FromFloat8Element : Float16Element {
  static uint16_t Store(float value) {
    const auto nan =
        static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 | 0x7fff);
    return value == value ? EncodeFloat16(value) : nan;
  }
};

template <typename Real>
struct WideFloatElement {
  using Storage = Real;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = std::is_same_v<Real, double>;

  template <typename Wide>
  static Wide Load(Real stored) {
    return static_cast<Wide>(stored);
  }
  template <typename Wide>
  static Real Store(Wide value) {
    return static_cast<Real>(value);
  }
};

// Calls fn with an element struct. REQUIRES: dtype is not complex.
template <typename Fn>
auto VisitElement(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kBool:
      return fn(BoolElement{});
    case DType::kInt2:
      return fn(SubByteElement<2, true>{});
    case DType::kInt4:
      return fn(SubByteElement<4, true>{});
    case DType::kInt8:
      return fn(IntegerElement<int8_t>{});
    case DType::kInt16:
      return fn(IntegerElement<int16_t>{});
    case DType::kInt32:
      return fn(IntegerElement<int32_t>{});
    case DType::kInt64:
      return fn(IntegerElement<int64_t>{});
    case DType::kUint2:
      return fn(SubByteElement<2, false>{});
    case DType::kUint4:
      return fn(SubByteElement<4, false>{});
    case DType::kUint8:
      return fn(IntegerElement<uint8_t>{});
    case DType::kUint16:
      return fn(IntegerElement<uint16_t>{});
    case DType::kUint32:
      return fn(IntegerElement<uint32_t>{});
    case DType::kUint64:
      return fn(IntegerElement<uint64_t>{});
    case DType::kFloat4E2m1fn:
      return fn(Float4Element{});
    case DType::kFloat8E3m4:
      return fn(SmallFloatElement<kFloat8E3m4Format>{});
    case DType::kFloat8E4m3fn:
      return fn(SmallFloatElement<kFloat8E4m3fnFormat>{});
    case DType::kFloat8E4m3fnuz:
      return fn(SmallFloatElement<kFloat8E4m3fnuzFormat>{});
    case DType::kFloat8E4m3b11fnuz:
      return fn(SmallFloatElement<kFloat8E4m3b11fnuzFormat>{});
    case DType::kFloat8E5m2:
      return fn(SmallFloatElement<kFloat8E5m2Format>{});
    case DType::kFloat8E5m2fnuz:
      return fn(SmallFloatElement<kFloat8E5m2fnuzFormat>{});
    case DType::kFloat8E8m0fnu:
      return fn(E8m0Element<>{});
    case DType::kFloat16:
      return fn(Float16Element{});
    case DType::kBfloat16:
      return fn(Bfloat16Element{});
    case DType::kFloat32:
      return fn(WideFloatElement<float>{});
    default:
      return fn(WideFloatElement<double>{});
  }
}

}  // namespace holdfast
