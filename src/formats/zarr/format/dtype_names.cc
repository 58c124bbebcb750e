#include "formats/zarr/format/dtype_names.h"

#include <array>

namespace holdfast::zarr {
namespace {

struct NumpyCode {
  DType dtype;
  std::string_view code;  // kind and byte count
};

constexpr std::array<NumpyCode, 14> kNumpyCodes = {{
    {DType::kBool, "b1"},
    {DType::kInt8, "i1"},
    {DType::kInt16, "i2"},
    {DType::kInt32, "i4"},
    {DType::kInt64, "i8"},
    {DType::kUint8, "u1"},
    {DType::kUint16, "u2"},
    {DType::kUint32, "u4"},
    {DType::kUint64, "u8"},
    {DType::kFloat16, "f2"},
    {DType::kFloat32, "f4"},
    {DType::kFloat64, "f8"},
    {DType::kComplex64, "c8"},
    {DType::kComplex128, "c16"},
}};

const NumpyCode* FindCode(DType dtype) {
  for (const NumpyCode& entry : kNumpyCodes) {
    if (entry.dtype == dtype) return &entry;
  }
  return nullptr;
}

bool HasName(DType dtype) {
  return dtype != DType::kUint2 && dtype != DType::kUint4;
}

}  // namespace

std::optional<StoredDType> DTypeFromV2(std::string_view text) {
  const std::optional<DType> named = DTypeFromName(text);
  if (named && HasName(*named) && FindCode(*named) == nullptr) {
    return StoredDType{*named, Endian::kLittle};
  }
  if (text.size() < 3) return std::nullopt;
  const char order = text[0];
  if (order != '<' && order != '>' && order != '|') return std::nullopt;
  for (const NumpyCode& entry : kNumpyCodes) {
    if (entry.code != text.substr(1)) continue;
    const bool one_byte = DTypeBytes(entry.dtype) == 1;
    if (order == '|' && !one_byte) return std::nullopt;
    const bool big = order == '>' && !one_byte;
    return StoredDType{entry.dtype, big ? Endian::kBig : Endian::kLittle};
  }
  return std::nullopt;
}

std::optional<std::string> DTypeToV2(const StoredDType& stored) {
  if (!HasName(stored.dtype)) return std::nullopt;
  const NumpyCode* entry = FindCode(stored.dtype);
  if (entry == nullptr) return std::string(DTypeName(stored.dtype));
  std::string text(entry->code);
  if (DTypeBytes(stored.dtype) == 1) return "|" + text;
  return (stored.endian == Endian::kBig ? ">" : "<") + text;
}

std::optional<DType> DTypeFromV3(std::string_view text) {
  const std::optional<DType> dtype = DTypeFromName(text);
  if (!dtype || !HasName(*dtype)) return std::nullopt;
  return dtype;
}

std::optional<std::string> DTypeToV3(DType dtype) {
  if (!HasName(dtype)) return std::nullopt;
  return std::string(DTypeName(dtype));
}

}  // namespace holdfast::zarr
