#include <array>

#include "foreign/megatron/python_text.h"
#include "holdfast/megatron/zarr.h"

namespace holdfast::megatron {
namespace {

using Pair = std::pair<DType, std::string_view>;
constexpr std::array<Pair, 12> kDTypes = {{
    {DType::kBool, "|b1"},
    {DType::kUint8, "|u1"},
    {DType::kInt8, "|i1"},
    {DType::kInt16, "<i2"},
    {DType::kInt32, "<i4"},
    {DType::kInt64, "<i8"},
    {DType::kFloat16, "<f2"},
    {DType::kFloat32, "<f4"},
    {DType::kFloat64, "<f8"},
    {DType::kComplex64, "<c8"},
    {DType::kComplex128, "<c16"},
    {DType::kBfloat16, "bfloat16"},
}};

}  // namespace

std::span<const Pair> DTypeTable() { return kDTypes; }

Result<std::string> TorchToNumpyDType(DType dtype) {
  for (const auto& [torch, numpy] : DTypeTable()) {
    if (torch == dtype) return std::string(numpy);
  }
  return MakeError(StatusCode::kInvalidArgument, "UNSUPPORTED_DTYPE",
                   "KeyError", TorchName(dtype));
}

Result<DType> NumpyToTorchDType(std::string_view numpy_dtype) {
  for (const auto& [torch, numpy] : DTypeTable()) {
    if (numpy == numpy_dtype || DTypeName(torch) == numpy_dtype) return torch;
  }
  return MakeError(StatusCode::kFailedPrecondition, "UNSUPPORTED_DTYPE",
                   "KeyError", "dtype('" + std::string(numpy_dtype) + "')");
}

}  // namespace holdfast::megatron
