#include "holdfast/dtype.h"

#include <array>
#include <cassert>

namespace holdfast {
namespace {

struct DTypeInfo {
  std::string_view name;
  uint8_t bytes;
  uint8_t bits;
  DTypeKind kind;
};

// In the order of the enum.
constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{
    {"bool", 1, 8, DTypeKind::kBool},
    {"int2", 1, 2, DTypeKind::kSigned},
    {"int4", 1, 4, DTypeKind::kSigned},
    {"int8", 1, 8, DTypeKind::kSigned},
    {"int16", 2, 16, DTypeKind::kSigned},
    {"int32", 4, 32, DTypeKind::kSigned},
    {"int64", 8, 64, DTypeKind::kSigned},
    {"uint2", 1, 2, DTypeKind::kUnsigned},
    {"uint4", 1, 4, DTypeKind::kUnsigned},
    {"uint8", 1, 8, DTypeKind::kUnsigned},
    {"uint16", 2, 16, DTypeKind::kUnsigned},
    {"uint32", 4, 32, DTypeKind::kUnsigned},
    {"uint64", 8, 64, DTypeKind::kUnsigned},
    {"float4_e2m1fn", 1, 4, DTypeKind::kFloat},
    {"float8_e3m4", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3fn", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3fnuz", 1, 8, DTypeKind::kFloat},
    {"float8_e4m3b11fnuz", 1, 8, DTypeKind::kFloat},
    {"float8_e5m2", 1, 8, DTypeKind::kFloat},
    {"float8_e5m2fnuz", 1, 8, DTypeKind::kFloat},
    {"float8_e8m0fnu", 1, 8, DTypeKind::kFloat},
    {"float16", 2, 16, DTypeKind::kFloat},
    {"bfloat16", 2, 16, DTypeKind::kFloat},
    {"float32", 4, 32, DTypeKind::kFloat},
    {"float64", 8, 64, DTypeKind::kFloat},
    {"complex64", 8, 64, DTypeKind::kComplex},
    {"complex128", 16, 128, DTypeKind::kComplex},
}};

const DTypeInfo& InfoOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  assert(index < kInfo.size());
  return kInfo[index];
}

}  // namespace

std::string_view DTypeName(DType dtype) { return InfoOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

size_t DTypeBytes(DType dtype) { return InfoOf(dtype).bytes; }

int DTypeBits(DType dtype) { return InfoOf(dtype).bits; }

DTypeKind DTypeKindOf(DType dtype) { return InfoOf(dtype).kind; }

}  // namespace holdfast
