// The header of a safetensors file, as bytes and as a struct; no I/O.
//
//   8 bytes   N, the length of the header, little endian
//   N bytes   JSON: {"__metadata__": {text: text}, name: {"dtype": "F32",
//             "shape": [2, 3], "data_offsets": [begin, end]}, ...}, padded with
//             spaces
//   the rest  the elements, C order, little endian, without gaps; offsets count
//             from here
//
// Every rule of the format is checked, also those that the reference reader
// leaves alone: a name given twice, a header that does not begin with '{'.
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss, naming tensor and offset.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

// The reference reader refuses larger headers, so that none is written; the
// reference writer knows no bound, so that some are there to be read.
inline constexpr uint64_t kSafetensorsWrittenHeaderBytesMax = 100'000'000;
inline constexpr uint64_t kSafetensorsHeaderBytesMax = uint64_t{1} << 32;
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsDType {
  std::string_view name;  // "F32", "BF16", ...
  int bits = 0;           // of an element; 4 and 6 are packed
  // Nullopt: there is no such dtype in holdfast.
  std::optional<DType> dtype;
};

// Null for an unknown name.
const SafetensorsDType* FindSafetensorsDType(std::string_view name);
// REQUIRES: StorableDType("safetensors", dtype) is the dtype itself.
const SafetensorsDType& SafetensorsDTypeOf(DType dtype);
// Place in the order that the reference writer sorts tensors by, descending.
int SafetensorsDTypeRank(DType dtype);

struct SafetensorsEntry {
  std::string name;
  const SafetensorsDType* dtype = nullptr;
  Shape shape;
  uint64_t begin = 0;  // in the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// The length of the header from the first 8 bytes of a file of `file_bytes`.
Result<uint64_t> SafetensorsHeaderLength(std::string_view first_bytes,
                                         uint64_t file_bytes);

// `json` is the header without its length; `data_bytes` is the size of the data
// that follow it.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                 uint64_t data_bytes);

// Length, JSON and padding. The bytes are those of the reference writer, which
// has at most one entry of metadata in an order that can be foretold.
// ResourceExhausted when it would be larger than any reader takes.
Result<std::string> SafetensorsHeaderBytes(const SafetensorsHeader& header);

}  // namespace holdfast
