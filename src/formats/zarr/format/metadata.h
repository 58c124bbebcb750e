// ArrayMetadata: the metadata of one array, from `.zarray` (zarr v2) or
// `zarr.json` (zarr v3), in one struct for both. Reads and writes each of the
// two formats.
//
// Formats: doc/zarr.md. Stored texts equal those of TensorStore 0.1.86: compact
// JSON, members sorted by name, no newline at the end.
// Thread-safety: values and pure functions.
// Units: shapes in elements, outermost dimension first.
// Errors: FailedPrecondition for malformed metadata, Unimplemented for a dtype,
// codec or nesting that exists but is not supported here (named in the
// message), DataLoss for a `zarr.json` that is not JSON at all.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/codec.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::zarr {

// Larger extents cannot be indexed safely (nor does TensorStore support them).
inline constexpr int64_t kExtentMax = (int64_t{1} << 62) - 1;

struct ChunkKeyEncoding {
  enum class Kind : uint8_t { kDefault, kV2 };
  Kind kind = Kind::kV2;
  char separator = '.';  // '.' or '/'

  bool operator==(const ChunkKeyEncoding&) const = default;
};

enum class IndexLocation : uint8_t { kEnd, kStart };

// The codec sharding_indexed: each chunk of the grid (a shard) holds smaller
// inner chunks and an index of their places.
struct ShardingParams {
  // The shape of the inner chunks, after the outer transposes; it divides the
  // shard's shape in every dimension.
  Shape chunk_shape;
  // The codec chain of the inner chunks.
  std::vector<std::vector<int>> transposes;
  Endian endian = Endian::kLittle;
  std::vector<BytesCodecParams> bytes_codecs;
  // index_codecs: `bytes`, then any number of crc32c (no other codec has a
  // fixed encoded size).
  Endian index_endian = Endian::kLittle;
  int index_crc32c_count = 1;
  IndexLocation index_location = IndexLocation::kEnd;

  bool operator==(const ShardingParams&) const = default;
};

struct ArrayMetadata {
  int zarr_format = 2;
  Shape shape;
  DType dtype = DType::kUint8;
  // Byte order of the stored elements; kLittle for one-byte types. Not used if
  // sharded.
  Endian endian = Endian::kLittle;
  Shape chunk_shape;  // of the grid: if sharded, the shape of the shards
  std::optional<ShardingParams> sharding;
  // v3: array->array codecs, first to last (if sharded, those before
  // sharding_indexed). Encoded dimension i is decoded dimension order[i].
  std::vector<std::vector<int>> transposes;
  // Not used if sharded. v2: at most one codec, the compressor.
  // ZstdParams::checksum is the member of a v3 codec object; v2 has no such
  // member.
  std::vector<BytesCodecParams> bytes_codecs;
  // DTypeBytes(dtype) bytes as in memory.
  std::string fill_element;
  bool fill_is_null = false;  // v2 null: fill_element is zero
  char order = 'C';           // v2: 'C' or 'F'
  ChunkKeyEncoding chunk_key_encoding;
  std::string attributes;  // v3: text of a JSON object; empty for none
  // v3: empty, or one entry per dimension.
  std::vector<std::optional<std::string>> dimension_names;
  // Members that need not be understood, as text of a JSON object; empty
  // without such members. They are kept so that rewriting metadata loses
  // nothing.
  std::string unknown_members;

  bool operator==(const ArrayMetadata&) const = default;
};

Result<ArrayMetadata> ParseV2(std::string_view json);
Result<ArrayMetadata> ParseV3(std::string_view json);
// Reads the version that "zarr_format" in the text names.
Result<ArrayMetadata> ParseMetadata(std::string_view json);

// Returns `code` for metadata that breaks a rule of the format; Unimplemented
// for a dtype without a name in that format.
Status CheckMetadata(const ArrayMetadata& metadata,
                     StatusCode code = StatusCode::kInvalidArgument);

// Returns the text to be stored, or the errors of CheckMetadata.
Result<std::string> SerializeV2(const ArrayMetadata& metadata);
Result<std::string> SerializeV3(const ArrayMetadata& metadata);
// Writes the format that metadata.zarr_format names.
Result<std::string> SerializeMetadata(const ArrayMetadata& metadata);

// Returns ".zarray" or "zarr.json". REQUIRES: zarr_format is 2 or 3.
std::string_view MetadataKey(int zarr_format);
// Returns whether the last part of a key is ".zarray" or "zarr.json".
bool IsMetadataKey(std::string_view key);

// Returns all array->array steps of the grid's chunks as one permutation, for
// v2's order 'F' and v3's transposes alike. Returns the identity if there are
// no steps.
std::vector<int> ChunkPermutation(const ArrayMetadata& metadata);
bool IsIdentity(const std::vector<int>& permutation);
// Returns the shape with result[i] = shape[permutation[i]].
Shape Permute(const Shape& shape, const std::vector<int>& permutation);

// The compression of a new checkpoint's arrays.
enum class Compression : uint8_t {
  kZstd,    // what Orbax writes: level 1 (v2), level 3 (v3)
  kNone,    // Orbax with use_compression=False
  kFast,    // blosc lz4 with bit shuffle
  kPlanes,  // blosc zstd with byte shuffle, as blosc_planes.h writes it
};
// The default level of blosc, used by kFast.
inline constexpr int kFastLevel = 5;

// Returns the metadata that Orbax 0.12.8 writes for such an array. `fast_level`
// is blosc's clevel, 0 to 9. CheckMetadata and Serialize* report errors in the
// arguments.
ArrayMetadata OrbaxV2(const Shape& shape, DType dtype, const Shape& chunk_shape,
                      Compression compression, int fast_level = kFastLevel);
// Does the same as OrbaxV2 for zarr v3; each shard has one inner chunk.
ArrayMetadata OrbaxV3(const Shape& shape, DType dtype, const Shape& chunk_shape,
                      Compression compression, int fast_level = kFastLevel);
// Returns metadata for chunks that store only their elements, little endian in
// C order, with neither codecs nor shards.
ArrayMetadata RawMetadata(int zarr_format, const Shape& shape, DType dtype,
                          const Shape& chunk_shape);

}  // namespace holdfast::zarr
