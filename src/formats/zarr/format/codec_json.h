// Codec specifications between JSON and parameters: v2's compressor object and
// v3's codec lists (doc/zarr.md).
//
// Private to this folder. Thread-safety: pure functions.
// Errors: FailedPrecondition with TensorStore's text; Unimplemented for codecs
// that are unknown or not supported here, naming them.
#pragma once

#include <optional>
#include <vector>

#include "formats/zarr/format/json_read.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast::zarr {

// At most one codec: none for null. `value` is null when the member is missing.
Result<std::vector<BytesCodecParams>> ParseCompressor(const Json* value);
// REQUIRES: at most one codec, not crc32c.
Json CompressorToJson(const std::vector<BytesCodecParams>& codecs);

// A v3 codec list taken apart.
struct CodecList {
  std::vector<std::vector<int>> transposes;
  Endian endian = Endian::kLittle;         // of `bytes`
  std::optional<ShardingParams> sharding;  // instead of `bytes`
  std::vector<BytesCodecParams> bytes_codecs;
};

// `rank` is that of the chunks; whether shapes fit is CheckMetadata's business.
Result<CodecList> ParseCodecs(const Json* value, DType dtype, size_t rank);
Json CodecsToJson(const CodecList& codecs, DType dtype);

}  // namespace holdfast::zarr
