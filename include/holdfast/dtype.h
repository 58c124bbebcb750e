// DType: the element types of a checkpoint, named as numpy, ml_dtypes and
// TensorStore name them.
//
// In memory every element occupies whole bytes, little endian. An int2, int4,
// uint2, uint4 or float4_e2m1fn occupies one byte, with the value in the low
// bits and zeros above (the layout of ml_dtypes arrays).
// Thread-safety: pure functions.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

enum class DType : uint8_t {
  kBool,
  kInt2,
  kInt4,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint2,
  kUint4,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat4E2m1fn,
  kFloat8E3m4,
  kFloat8E4m3fn,
  kFloat8E4m3fnuz,
  kFloat8E4m3b11fnuz,
  kFloat8E5m2,
  kFloat8E5m2fnuz,
  kFloat8E8m0fnu,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};
inline constexpr int kDTypeCount = 27;

enum class DTypeKind : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

// Returns the dtype's name: "bfloat16", "float8_e4m3fn", "int4", ...
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// Returns the bytes per element in memory: 1 for the sub-byte types.
size_t DTypeBytes(DType dtype);
// Returns the number of bits that hold the value: 2, 4, 8, ...; 8 for bool.
int DTypeBits(DType dtype);
DTypeKind DTypeKindOf(DType dtype);

// DTypeOf<T>::value is the dtype whose elements are values of the C++ type T.
// C++20 has no types for the other dtypes (float16, bfloat16, ...). A program
// that has such a type can specialize DTypeOf for it; the type must be trivial
// and have the layout of the dtype's elements.
template <typename T>
struct DTypeOf;
template <DType dtype>
using DTypeConstant = std::integral_constant<DType, dtype>;
template <>
struct DTypeOf<bool> : DTypeConstant<DType::kBool> {};
template <>
struct DTypeOf<int8_t> : DTypeConstant<DType::kInt8> {};
template <>
struct DTypeOf<int16_t> : DTypeConstant<DType::kInt16> {};
template <>
struct DTypeOf<int32_t> : DTypeConstant<DType::kInt32> {};
template <>
struct DTypeOf<int64_t> : DTypeConstant<DType::kInt64> {};
template <>
struct DTypeOf<uint8_t> : DTypeConstant<DType::kUint8> {};
template <>
struct DTypeOf<uint16_t> : DTypeConstant<DType::kUint16> {};
template <>
struct DTypeOf<uint32_t> : DTypeConstant<DType::kUint32> {};
template <>
struct DTypeOf<uint64_t> : DTypeConstant<DType::kUint64> {};
template <>
struct DTypeOf<float> : DTypeConstant<DType::kFloat32> {};
template <>
struct DTypeOf<double> : DTypeConstant<DType::kFloat64> {};
template <>
struct DTypeOf<std::complex<float>> : DTypeConstant<DType::kComplex64> {};
template <>
struct DTypeOf<std::complex<double>> : DTypeConstant<DType::kComplex128> {};

}  // namespace holdfast
