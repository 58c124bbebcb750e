// How the elements of each real dtype are read as, and made from, the three
// wide types that conversions go through: int64_t, float and double.
//
// An element struct E of a dtype has:
//   Storage             the bytes of one element
//   kInteger            converts through int64_t exactly (modulo 2^64)
//   kDouble             converts from and to double in one step
//   Load<Wide>(Storage) its value, rounded once to Wide
//   Store(Wide)         the element nearest to a value of type Wide
// The rules are those of numpy on x86-64 and of ml_dtypes.
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/float_format.h"

namespace holdfast {

// The value cut to an integer, or the least Int when that does not fit (NaN
// included): what cvttss2si and cvttsd2si do.
template <typename Int, typename Real>
inline Int TruncateOrMin(Real value) {
  constexpr Int kMin = std::numeric_limits<Int>::min();
  constexpr Real kLow = static_cast<Real>(kMin);
  return value >= kLow && value < -kLow ? static_cast<Int>(value) : kMin;
}

// Float to integer as compiled C on x86-64 does it: through int32 for types
// of up to 16 bits and int32 itself, through int64 for uint32. (numpy's vector
// loops give other results for uint32 out of range, depending on the position
// in the array; these are the results of its scalar loops.)
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

// int2, int4, uint2, uint4: the low bits of a byte.
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
  // Wraps; out of the range of int32, floats become 0.
  template <typename Wide>
  static uint8_t Store(Wide value) {
    return IntegerElement<uint8_t>::Store(value) & kMask;
  }
};

// An integer type as the target of 8-bit floats: infinities give its limits (of
// a whole byte for sub-byte types) and NaN gives 0. ml_dtypes happens to be
// compiled so for these formats, and only for them.
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

// The truth of a complex number; numpy drops the imaginary part everywhere
// else.
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

// The formats of at most 8 bits; ml_dtypes converts them through float32.
template <const FloatFormat& kFormat>
struct SmallFloatElement {
  using Storage = uint8_t;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = false;
  static constexpr uint8_t kMask = (1 << kFormat.bits) - 1;
  static constexpr std::array<float, 256> kTable = DecodeTable(kFormat);

  template <typename Wide>
  static Wide Load(uint8_t stored) {
    return kTable[stored & kMask];
  }
  static uint8_t Store(float value) {
    return static_cast<uint8_t>(EncodeFloat(kFormat, value));
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
  // EncodeFloat for the format that is a cut float32; half the operations.
  static uint16_t Store(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const uint32_t nan = (bits & 0x80000000u) | 0x7fc00000u;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<uint16_t>((is_nan ? nan : rounded) >> 16);
  }
};

struct Float16Element {
  using Storage = uint16_t;
  static constexpr bool kInteger = false;
  static constexpr bool kDouble = true;

  template <typename Wide>
  static Wide Load(uint16_t stored) {
    if constexpr (std::is_same_v<Wide, double>) {
      return DecodeFloat16ToDouble(stored);
    } else {
      return DecodeFloat16(stored);
    }
  }
  template <typename Wide>
  static uint16_t Store(Wide value) {
    return EncodeFloat16(value);
  }
};

// float16 as ml_dtypes makes it: NaNs lose their payload.
struct QuietFloat16Element : Float16Element {
  static uint16_t Store(float value) {
    return static_cast<uint16_t>(EncodeFloat(kFloat16Format, value));
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
      return fn(SmallFloatElement<kFloat4E2m1fnFormat>{});
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
      return fn(SmallFloatElement<kFloat8E8m0fnuFormat>{});
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
