// Random elements for the tests of this folder, and a slow reference decoder.
// Thread-safety: one generator per thread. Tests only.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ground/tensor/float_convert.h"
#include "holdfast/dtype.h"

namespace holdfast {

inline std::vector<DType> EveryDType() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

inline DType PartDType(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat32;
  if (dtype == DType::kComplex128) return DType::kFloat64;
  return dtype;
}

// Returns the value of one real element, without rounding.
inline long double SlowPart(DType dtype, const char* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, DTypeBytes(dtype));
  const int width = DTypeBits(dtype);
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kBool:
      return bits != 0;
    case DTypeKind::kFloat:
      return FloatBitsToDouble(dtype, bits);
    case DTypeKind::kUnsigned:
      return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
    default: {
      const uint64_t high = bits << (64 - width);
      return static_cast<int64_t>(high) >> (64 - width);
    }
  }
}

inline std::complex<long double> SlowNumber(DType dtype, const char* element) {
  const DType part = PartDType(dtype);
  const long double real = SlowPart(part, element);
  if (part == dtype) return {real, 0};
  return {real, SlowPart(part, element + DTypeBytes(part))};
}

// Returns `count` elements of random bits. Many of them are 0, 1 or special
// values such as NaN and denormals.
inline std::string RandomElements(std::mt19937_64& random, DType dtype,
                                  size_t count) {
  const DType part = PartDType(dtype);
  const size_t bytes = DTypeBytes(part);
  const size_t part_count = count * DTypeBytes(dtype) / bytes;
  constexpr double kSpecials[] = {0.0,    -0.0, 1.0, -1.0,  INFINITY, -INFINITY,
                                  1e-310, 3.5,  NAN, 1e300, 1e-320,   448};
  std::string elements(part_count * bytes, '\0');
  for (size_t i = 0; i < part_count; ++i) {
    uint64_t bits = random();
    if (DTypeKindOf(part) == DTypeKind::kFloat && random() % 3 == 0) {
      bits = DoubleToFloatBits(part, kSpecials[random() % 12]);
    }
    if (DTypeKindOf(part) == DTypeKind::kBool) bits &= 1;
    if (DTypeBits(part) < 8) bits &= (1u << DTypeBits(part)) - 1;
    if (random() % 8 == 0) bits = 0;
    std::memcpy(elements.data() + i * bytes, &bits, bytes);
  }
  return elements;
}

}  // namespace holdfast
