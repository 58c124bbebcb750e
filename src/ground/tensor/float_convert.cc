#include "ground/tensor/float_convert.h"

#include <bit>
#include <cassert>

#include "ground/tensor/float_format.h"

namespace holdfast {
namespace {

// Returns null for the types that are converted without a format description.
const FloatFormat* FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat4E2m1fn:
      return &kFloat4E2m1fnFormat;
    case DType::kFloat8E3m4:
      return &kFloat8E3m4Format;
    case DType::kFloat8E4m3fn:
      return &kFloat8E4m3fnFormat;
    case DType::kFloat8E4m3fnuz:
      return &kFloat8E4m3fnuzFormat;
    case DType::kFloat8E4m3b11fnuz:
      return &kFloat8E4m3b11fnuzFormat;
    case DType::kFloat8E5m2:
      return &kFloat8E5m2Format;
    case DType::kFloat8E5m2fnuz:
      return &kFloat8E5m2fnuzFormat;
    case DType::kFloat8E8m0fnu:
      return &kFloat8E8m0fnuFormat;
    case DType::kFloat16:
      return &kFloat16Format;
    case DType::kBfloat16:
      return &kBfloat16Format;
    default:
      return nullptr;
  }
}

}  // namespace

double FloatBitsToDouble(DType dtype, uint64_t bits) {
  assert(DTypeKindOf(dtype) == DTypeKind::kFloat);
  if (dtype == DType::kFloat64) return std::bit_cast<double>(bits);
  const auto low = static_cast<uint32_t>(bits);
  if (dtype == DType::kFloat32) return std::bit_cast<float>(low);
  if (dtype == DType::kFloat16) {
    return DecodeFloat16ToDouble(static_cast<uint16_t>(low));
  }
  if (dtype == DType::kBfloat16) return std::bit_cast<float>(low << 16);
  const FloatFormat& format = *FormatOf(dtype);
  const uint32_t mask = (1u << format.bits) - 1;
  return std::bit_cast<float>(DecodeFloat(format, low & mask));
}

uint64_t DoubleToFloatBits(DType dtype, double value) {
  assert(DTypeKindOf(dtype) == DTypeKind::kFloat);
  if (dtype == DType::kFloat64) return std::bit_cast<uint64_t>(value);
  if (dtype == DType::kFloat32) {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
  if (dtype == DType::kFloat16) return EncodeFloat16(value);
  return EncodeFloat(*FormatOf(dtype), value);
}

}  // namespace holdfast
