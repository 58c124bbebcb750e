// The header of a safetensors file, as bytes and as a struct; no I/O.
//
//   8 bytes   N, the length of the header, little endian
//   N bytes   JSON: {"__metadata__": {text: text}, name: {"dtype": "F32",
//             "shape": [2, 3], "data_offsets": [begin, end]}, ...}, padded with
//             spaces
//   the rest  the elements, C order, little endian, without gaps; offsets count
//             from here
//
// All rules of the format are checked, including two that the reference reader
// ignores: a duplicate name, and a header that does not begin with '{'.
// Thread-safety: pure functions. Units: bytes.
// Errors: DataLoss, with tensor and offset.
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

// The reference reader refuses larger headers, so none are written. The
// reference writer has no limit, so larger headers exist and must be read.
inline constexpr uint64_t kSafetensorsWrittenHeaderBytesMax = 100'000'000;
inline constexpr uint64_t kSafetensorsHeaderBytesMax = uint64_t{1} << 32;
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
inline constexpr std::string_view kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsDType {
  std::string_view name;  // "F32", "BF16", ...
  int bits = 0;           // of an element; 4 and 6 are packed
  // Nullopt if holdfast has no such dtype.
  std::optional<DType> dtype;
};

// Returns the dtype with this name, or null if the name is unknown.
const SafetensorsDType* FindSafetensorsDType(std::string_view name);
// Returns the description of the dtype.
// REQUIRES: StorableDType("safetensors", dtype) is the dtype itself.
const SafetensorsDType& SafetensorsDTypeOf(DType dtype);
// Returns the rank by which the reference writer sorts tensors, in descending
// order.
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

// Returns the size of the header, given the first 8 bytes of a file with
// `file_bytes` bytes.
Result<uint64_t> SafetensorsHeaderLength(std::string_view first_bytes,
                                         uint64_t file_bytes);

// Parses a header. `json` is the header without its length; `data_bytes` is the
// size of the data after it.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json,
                                                 uint64_t data_bytes);

// Returns the length, the JSON and the padding. The bytes equal those of the
// reference writer, except that the reference writer's order of several
// metadata entries is unpredictable. ResourceExhausted if the header would be
// larger than readers accept.
Result<std::string> SafetensorsHeaderBytes(const SafetensorsHeader& header);

}  // namespace holdfast
