// The dtypes of numpy, as dtype.str spells them ("<f4"), and those of torch.
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
  // The bytes of each group of swap_bytes are stored reversed; 0 if they are
  // not.
  int64_t swap_bytes = 0;
};

// `kind` is kind and size as numpy pickles a dtype ("f4", "U5", "bfloat16");
// `byte_order` comes from its state ('<', '>', '|', '='). For strings and raw
// bytes the size is in the state too: `element_bytes` >= 0. Objects, structures
// and dates are nullopt.
std::optional<NumpyDType> ParseNumpyDType(std::string_view kind,
                                          char byte_order,
                                          int64_t element_bytes = -1);

// "<f4"; "bfloat16" and similar names for dtypes that numpy itself lacks.
std::string NumpyDTypeName(DType dtype);

// Returns the dtype for "float32" (torch.float32), "float", "BFloat16Storage"
// and so on.
std::optional<DType> DTypeOfTorchName(std::string_view name);
std::optional<DType> DTypeOfTorchStorage(std::string_view storage);
// The element size of "QInt8Storage" and similar storages, whose dtypes
// holdfast lacks.
std::optional<int64_t> BytesOfOtherStorage(std::string_view storage);
// True for every dtype of torch, including those that holdfast lacks.
bool IsTorchDTypeName(std::string_view name);
// "FloatStorage"; empty if torch has no storage class for the dtype and pickles
// it with UntypedStorage; nullopt if torch has no such dtype.
std::optional<std::string_view> TorchStorageOf(DType dtype);

}  // namespace holdfast::pickle
