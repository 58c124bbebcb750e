// Chunk codecs of whole arrays: the plain chain, or sharding_indexed.
//
// Thread-safety: codecs are immutable; see formats/codec/codec.h.
// Errors: InvalidArgument for metadata that breaks a rule or a codec parameter
// outside its range.
#pragma once

#include <memory>

#include "formats/codec/codec.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast::zarr {

// The meaning of a chunk, or an inner chunk of a shard, that is not stored.
enum class MissingChunks : uint8_t {
  kFill,    // every element is the fill value
  kRefuse,  // NotFound: Orbax writes every chunk, so it was lost
};

struct ChunkCodecOptions {
  // Orbax sets it. False leaves out what equals the fill value bit by bit.
  bool store_data_equal_to_fill_value = true;
  MissingChunks missing = MissingChunks::kFill;
  // Every zstd frame carries its content checksum, whatever the word in the
  // metadata says, and blosc with zstd and byte shuffle is written as byte
  // planes, whose frames have them, too. False: frames follow that word, v2 has
  // none; blosc is written as c-blosc does.
  bool zstd_checksums = true;
};

// A sharded array's codec is a ShardCodec (shard_codec.h).
Result<std::shared_ptr<const ChunkCodec>> MakeChunkCodec(
    const ArrayMetadata& metadata, const ChunkCodecOptions& options = {});

// The codecs with their frames' checksums as the options say. `zarr_format`:
// only v3 has a word for them.
std::vector<BytesCodecParams> WithChecksums(
    std::vector<BytesCodecParams> codecs, int zarr_format,
    const ChunkCodecOptions& options);

// DataLoss when no stream of `encoded_bytes` can decode to `decoded_bytes`. The
// codecs look themselves; this is for callers that take memory for a chunk
// before decoding it.
Status CheckExpansion(uint64_t encoded_bytes, uint64_t decoded_bytes,
                      size_t codec_count);

}  // namespace holdfast::zarr
