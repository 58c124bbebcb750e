#include "formats/pickle/numpy_dtype.h"

#include <algorithm>
#include <array>

#include "ground/base/text.h"

namespace holdfast::pickle {
namespace {

struct NumpyName {
  std::string_view name;  // without the byte order
  DType dtype;
};

constexpr std::array<NumpyName, 14> kNumpyNames = {{
    {"b1", DType::kBool},
    {"i1", DType::kInt8},
    {"i2", DType::kInt16},
    {"i4", DType::kInt32},
    {"i8", DType::kInt64},
    {"u1", DType::kUint8},
    {"u2", DType::kUint16},
    {"u4", DType::kUint32},
    {"u8", DType::kUint64},
    {"f2", DType::kFloat16},
    {"f4", DType::kFloat32},
    {"f8", DType::kFloat64},
    {"c8", DType::kComplex64},
    {"c16", DType::kComplex128},
}};

struct TorchName {
  DType dtype;
  std::string_view name;
  std::string_view short_name;
  std::string_view storage;
};

constexpr std::array<TorchName, 20> kTorchNames = {{
    {DType::kBool, "bool", "bool", "BoolStorage"},
    {DType::kInt8, "int8", "int8", "CharStorage"},
    {DType::kInt16, "int16", "short", "ShortStorage"},
    {DType::kInt32, "int32", "int", "IntStorage"},
    {DType::kInt64, "int64", "long", "LongStorage"},
    {DType::kUint8, "uint8", "uint8", "ByteStorage"},
    {DType::kUint16, "uint16", "uint16", ""},
    {DType::kUint32, "uint32", "uint32", ""},
    {DType::kUint64, "uint64", "uint64", ""},
    {DType::kFloat8E4m3fn, "float8_e4m3fn", "float8_e4m3fn", ""},
    {DType::kFloat8E4m3fnuz, "float8_e4m3fnuz", "float8_e4m3fnuz", ""},
    {DType::kFloat8E5m2, "float8_e5m2", "float8_e5m2", ""},
    {DType::kFloat8E5m2fnuz, "float8_e5m2fnuz", "float8_e5m2fnuz", ""},
    {DType::kFloat8E8m0fnu, "float8_e8m0fnu", "float8_e8m0fnu", ""},
    {DType::kFloat16, "float16", "half", "HalfStorage"},
    {DType::kBfloat16, "bfloat16", "bfloat16", "BFloat16Storage"},
    {DType::kFloat32, "float32", "float", "FloatStorage"},
    {DType::kFloat64, "float64", "double", "DoubleStorage"},
    {DType::kComplex64, "complex64", "cfloat", "ComplexFloatStorage"},
    {DType::kComplex128, "complex128", "cdouble", "ComplexDoubleStorage"},
}};

// Other torch dtypes, whose values holdfast does not support.
constexpr std::array<std::string_view, 31> kOtherTorchNames = {
    "complex32",
    "chalf",
    "qint8",
    "quint8",
    "qint32",
    "quint4x2",
    "quint2x4",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "bits16",
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "uint5",
    "uint6",
    "uint7",
    "int1",
    "int2",
    "int3",
    "int4",
    "int5",
    "int6",
    "int7",
    "float4_e2m1fn_x2",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float",
    "int"};

std::optional<DType> NumpyDTypeOf(std::string_view name) {
  const auto found = std::ranges::find(kNumpyNames, name, &NumpyName::name);
  if (found != kNumpyNames.end()) return found->dtype;
  return std::nullopt;
}

}  // namespace

std::optional<NumpyDType> ParseNumpyDType(std::string_view kind,
                                          char byte_order,
                                          int64_t element_bytes) {
  if (kind.size() < 2) return std::nullopt;
  const bool is_big = byte_order == '>';
  if (const auto dtype = NumpyDTypeOf(kind)) {
    NumpyDType result{NumpyDTypeName(*dtype), dtype,
                      static_cast<int64_t>(DTypeBytes(*dtype)), 0};
    const bool is_complex = DTypeKindOf(*dtype) == DTypeKind::kComplex;
    const int64_t part = result.element_bytes / (is_complex ? 2 : 1);
    if (is_big && part > 1) result.swap_bytes = part;
    return result;
  }
  if (kind[0] == 'S' || kind[0] == 'U' || kind[0] == 'V') {
    const auto number = ParseNumber<uint64_t>(kind.substr(1));
    if (!number || *number > (uint64_t{1} << 40)) return std::nullopt;
    const auto count = static_cast<int64_t>(*number);
    const int64_t unit = kind[0] == 'U' ? 4 : 1;
    const int64_t bytes = element_bytes >= 0 ? element_bytes : count * unit;
    if (bytes % unit != 0) return std::nullopt;
    const std::string name = (unit == 4 ? "<" : "|") + std::string(1, kind[0]) +
                             std::to_string(bytes / unit);
    return NumpyDType{name, std::nullopt, bytes, is_big && unit > 1 ? unit : 0};
  }
  // The types of ml_dtypes are identified by their names.
  if (const auto dtype = DTypeFromName(kind)) {
    return NumpyDType{NumpyDTypeName(*dtype), dtype,
                      static_cast<int64_t>(DTypeBytes(*dtype)), 0};
  }
  return std::nullopt;
}

std::string NumpyDTypeName(DType dtype) {
  const auto found = std::ranges::find(kNumpyNames, dtype, &NumpyName::dtype);
  if (found == kNumpyNames.end()) return std::string(DTypeName(dtype));
  return (DTypeBytes(dtype) == 1 ? "|" : "<") + std::string(found->name);
}

std::optional<DType> DTypeOfTorchName(std::string_view name) {
  for (const TorchName& torch : kTorchNames) {
    if (torch.name == name || torch.short_name == name) return torch.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfTorchStorage(std::string_view storage) {
  if (storage.empty()) return std::nullopt;
  for (const TorchName& torch : kTorchNames) {
    if (torch.storage == storage) return torch.dtype;
  }
  return std::nullopt;
}

std::optional<int64_t> BytesOfOtherStorage(std::string_view storage) {
  for (const std::string_view small : {"QInt8Storage", "QUInt8Storage",
                                       "QUInt4x2Storage", "QUInt2x4Storage"}) {
    if (storage == small) return 1;
  }
  if (storage == "QInt32Storage") return 4;
  return std::nullopt;
}

bool IsTorchDTypeName(std::string_view name) {
  return DTypeOfTorchName(name).has_value() ||
         std::ranges::find(kOtherTorchNames, name) != kOtherTorchNames.end();
}

std::optional<std::string_view> TorchStorageOf(DType dtype) {
  for (const TorchName& torch : kTorchNames) {
    if (torch.dtype == dtype) return torch.storage;
  }
  return std::nullopt;
}

}  // namespace holdfast::pickle
