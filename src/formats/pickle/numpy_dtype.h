// numpy's dtypes, as dtype.str spells them ("<f4"), and torch's dtypes.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: nullopt for unknown dtypes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/dtype.h"

namespace holdfast::pickle {

// The type of one element of a numpy array.
struct NumpyDType {
  std::string name;            // dtype.str, little endian: "<f4", "|S3", "<U5"
  std::optional<DType> dtype;  // if holdfast supports it
  int64_t element_bytes = 0;
  // If not 0, each group of this many bytes is stored in reversed order.
  int64_t swap_bytes = 0;
};

// `kind` is the kind and size as numpy pickles a dtype ("f4", "U5",
// "bfloat16"). `byte_order` comes from the dtype's state ('<', '>', '|', '=').
// For strings and raw bytes the size is in the state too, and `element_bytes`
// >= 0 is that size. Returns nullopt for objects, structures and dates.
std::optional<NumpyDType> ParseNumpyDType(std::string_view kind,
                                          char byte_order,
                                          int64_t element_bytes = -1);

// Returns "<f4", or "bfloat16" and similar names for dtypes that numpy lacks.
std::string NumpyDTypeName(DType dtype);

// Returns the dtype for "float32" (torch.float32), "float", "BFloat16Storage"
// and so on.
std::optional<DType> DTypeOfTorchName(std::string_view name);
std::optional<DType> DTypeOfTorchStorage(std::string_view storage);
// Returns the element size of "QInt8Storage" and similar storages, whose dtypes
// holdfast lacks.
std::optional<int64_t> BytesOfOtherStorage(std::string_view storage);
// Returns true for every torch dtype, including those that holdfast lacks.
bool IsTorchDTypeName(std::string_view name);
// Returns "FloatStorage" or a similar name, or "" if torch has no storage class
// for the dtype and pickles it with UntypedStorage, or nullopt if torch has no
// such dtype.
std::optional<std::string_view> TorchStorageOf(DType dtype);

}  // namespace holdfast::pickle
