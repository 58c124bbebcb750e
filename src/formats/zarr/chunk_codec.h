// The chunk codec of an array: the plain chain, or sharding_indexed.
//
// Thread-safety: codecs are immutable; see formats/codec/codec.h.
// Errors: InvalidArgument for metadata that breaks a rule or a codec parameter
// outside its range.
#pragma once

#include <memory>

#include "formats/codec/codec.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast::zarr {

// The meaning of a missing chunk, or of a missing inner chunk of a shard.
enum class MissingChunks : uint8_t {
  kFill,    // every element is the fill value
  kRefuse,  // NotFound: Orbax writes every chunk, so it was lost
};

struct ChunkCodecOptions {
  // Orbax sets this. If false, chunks that equal the fill value bit by bit are
  // not stored.
  bool store_data_equal_to_fill_value = true;
  MissingChunks missing = MissingChunks::kFill;
  // If true, every zstd frame carries its content checksum, whatever the
  // metadata say, and blosc with zstd and byte shuffle is written as byte
  // planes, whose frames also have checksums. If false, zstd frames follow the
  // metadata (v2 has no field for checksums, so they have none), and blosc is
  // written as c-blosc writes it.
  bool zstd_checksums = true;
};

// A sharded array's codec is a ShardCodec (shard_codec.h).
Result<std::shared_ptr<const ChunkCodec>> MakeChunkCodec(
    const ArrayMetadata& metadata, const ChunkCodecOptions& options = {});

// Sets the checksums of the codecs' frames as the options say. `zarr_format`
// matters because only v3 metadata have a field for checksums.
std::vector<BytesCodecParams> WithChecksums(
    std::vector<BytesCodecParams> codecs, int zarr_format,
    const ChunkCodecOptions& options);

// Returns DataLoss if no stream of `encoded_bytes` can decode to
// `decoded_bytes`. Codecs check this themselves; this function is for callers
// that allocate memory for a chunk before they decode it.
Status CheckExpansion(uint64_t encoded_bytes, uint64_t decoded_bytes,
                      size_t codec_count);

}  // namespace holdfast::zarr
