// The dtypes of numpy, as dtype.str spells them ("<f4"), and those of torch.
//
// Thread-safety: pure functions. Units: bytes.
// Errors: nullopt for what is unknown.
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
  std::optional<DType> dtype;  // when holdfast has it
  int64_t element_bytes = 0;
  // Stored with the bytes of each part of swap_bytes reversed; 0: as they are.
  int64_t swap_bytes = 0;
};

// Kind and size as numpy's dtype pickles them ("f4", "U5", "bfloat16") with the
// byte order of its state ('<', '>', '|', '='). For strings and raw bytes the
// state has the size: `element_bytes` >= 0 there. Objects, structures and dates
// are nullopt.
std::optional<NumpyDType> ParseNumpyDType(std::string_view kind,
                                          char byte_order,
                                          int64_t element_bytes = -1);

// "<f4"; "bfloat16" and its like for those that numpy itself lacks.
std::string NumpyDTypeName(DType dtype);

// "float32" of torch.float32, torch.float, "BFloat16Storage" and so on.
std::optional<DType> DTypeOfTorchName(std::string_view name);
std::optional<DType> DTypeOfTorchStorage(std::string_view storage);
// Bytes of an element of "QInt8Storage" and its like, whose dtypes holdfast
// lacks.
std::optional<int64_t> BytesOfOtherStorage(std::string_view storage);
// True for every dtype that torch has, also those that holdfast lacks.
bool IsTorchDTypeName(std::string_view name);
// "FloatStorage"; empty: torch has no class of storage for it, and pickles it
// with UntypedStorage. Nullopt: torch has no such dtype.
std::optional<std::string_view> TorchStorageOf(DType dtype);

}  // namespace holdfast::pickle
