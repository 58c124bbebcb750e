#include "formats/zarr/format/metadata.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

#include "formats/zarr/format/dtype_names.h"
#include "formats/zarr/format/json_read.h"
#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

// Returns nullopt if the product of extents and bytes does not fit an int64.
std::optional<int64_t> CheckedBytes(const Shape& shape, int64_t byte_count) {
  for (int64_t extent : shape) {
    if (extent > kInt64Max / byte_count) return std::nullopt;
    byte_count *= extent;
  }
  return byte_count;
}

bool IsPermutation(const std::vector<int>& order, size_t rank) {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  return order.size() == rank && IsIdentity(sorted);
}

// The rules of the formats. A violation is reported with `code_`.
class Checker {
 public:
  Checker(const ArrayMetadata& metadata, StatusCode code)
      : metadata_(metadata), code_(code) {}

  Status Check() const {
    HF_RETURN_IF_ERROR(CheckShapes());
    HF_RETURN_IF_ERROR(CheckDType());
    HF_RETURN_IF_ERROR(CheckChunkBytes());
    HF_RETURN_IF_ERROR(CheckTransposes(metadata_.transposes));
    if (metadata_.zarr_format == 2) return CheckV2();
    return CheckV3();
  }

 private:
  Status Error(std::string message) const {
    return Status(code_, std::move(message));
  }

  Status CheckShapes() const {
    const Shape& shape = metadata_.shape;
    if (metadata_.zarr_format != 2 && metadata_.zarr_format != 3) {
      return Error("zarr_format: got " + std::to_string(metadata_.zarr_format) +
                   ", want 2 or 3");
    }
    if (shape.size() > kRankMax) {
      return Error("Rank " + std::to_string(shape.size()) +
                   " is outside valid range [0, 32]");
    }
    if (metadata_.chunk_shape.size() != shape.size()) {
      return Error("chunk shape " + Braced(metadata_.chunk_shape) +
                   " does not have the rank of the array's shape " +
                   Braced(shape));
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      HF_RETURN_IF_ERROR(CheckExtents(i));
    }
    return Status();
  }

  Status CheckExtents(size_t i) const {
    const int64_t extent = metadata_.shape[i];
    if (extent < 0 || extent > kExtentMax) {
      return Error("shape " + Braced(metadata_.shape) + ": got extent " +
                   std::to_string(extent) + ", want 0 to " +
                   std::to_string(kExtentMax));
    }
    if (metadata_.chunk_shape[i] < 1) {
      return Error("chunk shape " + Braced(metadata_.chunk_shape) +
                   ": every extent must be at least 1");
    }
    return Status();
  }

  Status CheckDType() const {
    const DType dtype = metadata_.dtype;
    if (!DTypeToV3(dtype)) {
      return UnimplementedError("zarr has no name for data type " +
                                std::string(DTypeName(dtype)));
    }
    if (metadata_.fill_element.size() != DTypeBytes(dtype)) {
      return Error("fill value of " +
                   std::to_string(metadata_.fill_element.size()) +
                   " bytes for data type " + std::string(DTypeName(dtype)));
    }
    return Status();
  }

  Status CheckChunkBytes() const {
    const int64_t item_bytes =
        static_cast<int64_t>(DTypeBytes(metadata_.dtype));
    if (CheckedBytes(metadata_.chunk_shape, item_bytes)) return Status();
    const std::string shape = Braced(metadata_.chunk_shape);
    if (metadata_.zarr_format == 2) {
      return Error("Product of chunk dimensions " + shape + " is too large");
    }
    return Error("Integer overflow computing encoded size of array of shape " +
                 shape);
  }

  Status CheckTransposes(const std::vector<std::vector<int>>& orders) const {
    for (const std::vector<int>& order : orders) {
      if (IsPermutation(order, metadata_.shape.size())) continue;
      return Error(Braced(Shape(order.begin(), order.end())) +
                   " is not a valid dimension permutation for a rank " +
                   std::to_string(metadata_.shape.size()) + " array");
    }
    return Status();
  }

  Status CheckSeparator() const {
    const char separator = metadata_.chunk_key_encoding.separator;
    if (separator == '.' || separator == '/') return Status();
    return Error("Expected one of \".\", \"/\" as separator of chunk keys");
  }

  Status CheckV2() const {
    HF_RETURN_IF_ERROR(CheckSeparator());
    if (metadata_.order != 'C' && metadata_.order != 'F') {
      return Error("Expected one of \"C\", \"F\" as order");
    }
    const StoredDType stored = {metadata_.dtype, metadata_.endian};
    if (DTypeFromV2(*DTypeToV2(stored)) != stored) {
      return Error("zarr v2 has no big-endian name for data type " +
                   std::string(DTypeName(metadata_.dtype)));
    }
    const std::vector<BytesCodecParams>& codecs = metadata_.bytes_codecs;
    const bool v2_only =
        !metadata_.sharding && metadata_.transposes.empty() &&
        codecs.size() <= 1 &&
        (codecs.empty() || !std::holds_alternative<Crc32cParams>(codecs[0])) &&
        metadata_.chunk_key_encoding.kind == ChunkKeyEncoding::Kind::kV2 &&
        metadata_.attributes.empty() && metadata_.dimension_names.empty();
    if (v2_only) return Status();
    return Error(
        "zarr v2 has at most one compressor, and neither sharding, "
        "transposes, attributes nor dimension names");
  }

  Status CheckV3() const {
    HF_RETURN_IF_ERROR(CheckSeparator());
    if (metadata_.fill_is_null || metadata_.order != 'C') {
      return Error("zarr v3 has neither a null fill value nor an order");
    }
    HF_RETURN_IF_ERROR(CheckDimensionNames());
    if (!metadata_.sharding) return CheckBytesCodecs(metadata_.bytes_codecs);
    if (!metadata_.bytes_codecs.empty()) {
      return Error(
          "Sharding codec is not compatible with subsequent bytes -> bytes "
          "codecs");
    }
    return CheckSharding(*metadata_.sharding);
  }

  Status CheckDimensionNames() const {
    const auto& names = metadata_.dimension_names;
    if (names.empty()) return Status();
    if (names.size() != metadata_.shape.size()) {
      return Error("dimension_names: Array has length " +
                   std::to_string(names.size()) + " but should have length " +
                   std::to_string(metadata_.shape.size()));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i] || names[i]->empty()) continue;
      if (std::find(names.begin(), names.begin() + i, names[i]) ==
          names.begin() + i) {
        continue;
      }
      return Error("Dimension label(s) \"" + *names[i] + "\" not unique");
    }
    return Status();
  }

  // Refuses codecs that v3's JSON cannot express.
  Status CheckBytesCodecs(const std::vector<BytesCodecParams>& codecs) const {
    for (const BytesCodecParams& codec : codecs) {
      const auto* gzip = std::get_if<GzipParams>(&codec);
      if (gzip != nullptr && gzip->zlib_header) {
        return Error("zarr v3 has no zlib codec, only gzip");
      }
      const auto* blosc = std::get_if<BloscParams>(&codec);
      if (blosc == nullptr) continue;
      if (blosc->shuffle < 0 || blosc->shuffle > 2 ||
          (blosc->shuffle > 0 && blosc->typesize == 0)) {
        return Error("blosc: zarr v3 needs shuffle 0 to 2, and a typesize");
      }
    }
    return Status();
  }

  Status CheckSharding(const ShardingParams& sharding) const {
    const size_t rank = metadata_.shape.size();
    if (sharding.chunk_shape.size() != rank) {
      return Error("sharding_indexed sub-chunk shape of " +
                   Braced(sharding.chunk_shape) +
                   " is not compatible with array of rank " +
                   std::to_string(rank));
    }
    const Shape shard =
        Permute(metadata_.chunk_shape, ChunkPermutation(metadata_));
    Shape grid(rank);
    for (size_t i = 0; i < rank; ++i) {
      if (sharding.chunk_shape[i] < 1 || shard[i] % sharding.chunk_shape[i]) {
        return Error("sharding_indexed sub-chunk shape of " +
                     Braced(sharding.chunk_shape) +
                     " does not evenly divide chunk shape of " + Braced(shard));
      }
      grid[i] = shard[i] / sharding.chunk_shape[i];
    }
    HF_RETURN_IF_ERROR(CheckTransposes(sharding.transposes));
    HF_RETURN_IF_ERROR(CheckBytesCodecs(sharding.bytes_codecs));
    return CheckIndex(sharding, grid);
  }

  Status CheckIndex(const ShardingParams& sharding, const Shape& grid) const {
    if (sharding.index_crc32c_count < 0) {
      return Error("negative count of crc32c codecs in index_codecs");
    }
    const std::optional<int64_t> table_bytes = CheckedBytes(grid, 16);
    if (table_bytes &&
        sharding.index_crc32c_count <= (kInt64Max - *table_bytes) / 4) {
      return Status();
    }
    return Error("Integer overflow computing encoded size of shard index of " +
                 Braced(grid) + " entries");
  }

  const ArrayMetadata& metadata_;
  const StatusCode code_;
};

ArrayMetadata NewMetadata(const Shape& shape, DType dtype,
                          const Shape& chunk_shape) {
  ArrayMetadata metadata;
  metadata.shape = shape;
  metadata.dtype = dtype;
  metadata.chunk_shape = chunk_shape;
  metadata.fill_element.assign(DTypeBytes(dtype), '\0');
  return metadata;
}

BloscParams PlanesParams() {
  return {.cname = "zstd", .clevel = 1, .shuffle = 1};
}

}  // namespace

Result<ArrayMetadata> ParseMetadata(std::string_view json) {
  HF_ASSIGN_OR_RETURN(const Json value,
                      ParseJson(json, StatusCode::kFailedPrecondition));
  HF_RETURN_IF_ERROR(ReadObject(&value).status());
  HF_ASSIGN_OR_RETURN(
      const int64_t version,
      InMember("zarr_format", ReadInt(Find(value, "zarr_format"), 2, 3)));
  return version == 2 ? ParseV2(json) : ParseV3(json);
}

Status CheckMetadata(const ArrayMetadata& metadata, StatusCode code) {
  return Checker(metadata, code).Check();
}

Result<std::string> SerializeMetadata(const ArrayMetadata& metadata) {
  if (metadata.zarr_format == 2) return SerializeV2(metadata);
  return SerializeV3(metadata);
}

std::string_view MetadataKey(int zarr_format) {
  assert(zarr_format == 2 || zarr_format == 3);
  return zarr_format == 2 ? ".zarray" : "zarr.json";
}

bool IsMetadataKey(std::string_view key) {
  const std::string_view name = key.substr(key.rfind('/') + 1);
  return name == MetadataKey(2) || name == MetadataKey(3);
}

std::vector<int> ChunkPermutation(const ArrayMetadata& metadata) {
  std::vector<int> permutation(metadata.shape.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  if (metadata.order == 'F') {
    std::reverse(permutation.begin(), permutation.end());
  }
  for (const std::vector<int>& order : metadata.transposes) {
    std::vector<int> next(order.size());
    for (size_t i = 0; i < order.size(); ++i) next[i] = permutation[order[i]];
    permutation = std::move(next);
  }
  return permutation;
}

bool IsIdentity(const std::vector<int>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int>(i)) return false;
  }
  return true;
}

Shape Permute(const Shape& shape, const std::vector<int>& permutation) {
  Shape result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    result[i] = shape[permutation[i]];
  }
  return result;
}

ArrayMetadata OrbaxV2(const Shape& shape, DType dtype, const Shape& chunk_shape,
                      Compression compression, int fast_level) {
  ArrayMetadata metadata = NewMetadata(shape, dtype, chunk_shape);
  metadata.fill_is_null = true;
  if (compression == Compression::kZstd) {
    metadata.bytes_codecs.emplace_back(ZstdParams{.level = 1});
  }
  if (compression == Compression::kFast) {
    metadata.bytes_codecs.push_back(
        BloscParams{.cname = "lz4", .clevel = fast_level, .shuffle = 2});
  }
  if (compression == Compression::kPlanes) {
    metadata.bytes_codecs.push_back(PlanesParams());
  }
  return metadata;
}

ArrayMetadata OrbaxV3(const Shape& shape, DType dtype, const Shape& chunk_shape,
                      Compression compression, int fast_level) {
  ArrayMetadata metadata = NewMetadata(shape, dtype, chunk_shape);
  metadata.zarr_format = 3;
  metadata.chunk_key_encoding = {ChunkKeyEncoding::Kind::kDefault, '/'};
  ShardingParams& sharding = metadata.sharding.emplace();
  sharding.chunk_shape = chunk_shape;
  if (compression == Compression::kZstd) {
    sharding.bytes_codecs.emplace_back(
        ZstdParams{.level = 3, .checksum = false});
  }
  if (compression == Compression::kFast) {
    sharding.bytes_codecs.emplace_back(
        BloscParams{.cname = "lz4",
                    .clevel = fast_level,
                    .shuffle = 2,
                    .typesize = DTypeBytes(dtype)});
  }
  if (compression == Compression::kPlanes) {
    BloscParams planes = PlanesParams();
    planes.typesize = DTypeBytes(dtype);
    sharding.bytes_codecs.emplace_back(std::move(planes));
  }
  return metadata;
}

ArrayMetadata RawMetadata(int zarr_format, const Shape& shape, DType dtype,
                          const Shape& chunk_shape) {
  ArrayMetadata metadata =
      zarr_format == 3 ? OrbaxV3(shape, dtype, chunk_shape, Compression::kNone)
                       : OrbaxV2(shape, dtype, chunk_shape, Compression::kNone);
  metadata.sharding.reset();
  metadata.bytes_codecs.clear();
  return metadata;
}

}  // namespace holdfast::zarr
