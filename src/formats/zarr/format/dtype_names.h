// The names of element types in zarr v2 and v3 (doc/zarr.md). v2 has numpy's
// typestr ("<f4", ">i2", "|b1") and plain names for the ml_dtypes types; v3 has
// DTypeName. Neither has uint2 or uint4.
// Thread-safety: pure functions. Errors: nullopt for anything without a meaning
// here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/codec/codec.h"
#include "holdfast/dtype.h"

namespace holdfast::zarr {

struct StoredDType {
  DType dtype = DType::kUint8;
  Endian endian = Endian::kLittle;  // kLittle for one-byte types

  bool operator==(const StoredDType&) const = default;
};

// Also accepts "<i1", ">b1" and similar names for one-byte types.
std::optional<StoredDType> DTypeFromV2(std::string_view text);
std::optional<std::string> DTypeToV2(const StoredDType& stored);

std::optional<DType> DTypeFromV3(std::string_view text);
std::optional<std::string> DTypeToV3(DType dtype);

}  // namespace holdfast::zarr
