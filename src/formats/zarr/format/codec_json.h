// Converts codec specifications between JSON and parameters: v2's compressor
// object and v3's codec lists (doc/zarr.md).
//
// Private to this folder. Thread-safety: pure functions.
// Errors: FailedPrecondition with TensorStore's message; Unimplemented, with
// the codec's name, for codecs that are unknown or not supported here.
#pragma once

#include <optional>
#include <vector>

#include "formats/zarr/format/json_read.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast::zarr {

// Returns one codec, or none for JSON null. `value` is nullptr if the member is
// missing.
Result<std::vector<BytesCodecParams>> ParseCompressor(const Json* value);
// REQUIRES: at most one codec, not crc32c.
Json CompressorToJson(const std::vector<BytesCodecParams>& codecs);

// The parts of a v3 codec list.
struct CodecList {
  std::vector<std::vector<int>> transposes;
  Endian endian = Endian::kLittle;         // of `bytes`
  std::optional<ShardingParams> sharding;  // instead of `bytes`
  std::vector<BytesCodecParams> bytes_codecs;
};

// `rank` is the chunks' rank; CheckMetadata checks whether the shapes fit.
Result<CodecList> ParseCodecs(const Json* value, DType dtype, size_t rank);
Json CodecsToJson(const CodecList& codecs, DType dtype);

}  // namespace holdfast::zarr
