#include "formats/zarr/chunk_codec.h"

#include "formats/zarr/shard_codec.h"
#include "ground/base/status_macros.h"

namespace holdfast::zarr {
namespace {

// A zstd block of 128 KiB takes at least 4 bytes (a ratio of 32768), a deflate
// stream has a ratio of about 1032, and blosc less. The bound is twice the
// worst ratio.
constexpr int kExpansionBitsMax = 16;
// Smaller chunks are not checked.
constexpr uint64_t kAlwaysFineBytes = uint64_t{64} << 20;

// Returns whether these parameters write planes. Planes choose their own block
// size, so none may be given.
bool IsWrittenAsPlanes(const BloscParams& params) {
  return params.cname == "zstd" && params.shuffle == 1 && params.clevel > 0 &&
         params.blocksize == 0;
}

}  // namespace

std::vector<BytesCodecParams> WithChecksums(
    std::vector<BytesCodecParams> codecs, int zarr_format,
    const ChunkCodecOptions& options) {
  for (BytesCodecParams& codec : codecs) {
    if (auto* blosc = std::get_if<BloscParams>(&codec)) {
      blosc->planes = options.zstd_checksums && IsWrittenAsPlanes(*blosc);
    }
    auto* zstd = std::get_if<ZstdParams>(&codec);
    if (zstd == nullptr) continue;
    if (options.zstd_checksums) zstd->checksum = true;
    if (!options.zstd_checksums && zarr_format == 2) zstd->checksum = false;
  }
  return codecs;
}

Result<std::shared_ptr<const ChunkCodec>> MakeChunkCodec(
    const ArrayMetadata& metadata, const ChunkCodecOptions& options) {
  HF_RETURN_IF_ERROR(CheckMetadata(metadata));
  if (metadata.sharding) {
    HF_ASSIGN_OR_RETURN(std::shared_ptr<const ShardCodec> codec,
                        ShardCodec::Make(metadata, options));
    return std::shared_ptr<const ChunkCodec>(std::move(codec));
  }
  PlainChainParams params;
  params.dtype = metadata.dtype;
  params.chunk_shape = metadata.chunk_shape;
  params.transposes.push_back(ChunkPermutation(metadata));
  params.endian = metadata.endian;
  params.bytes_codecs =
      WithChecksums(metadata.bytes_codecs, metadata.zarr_format, options);
  params.fill_element = metadata.fill_element;
  return MakePlainChunkCodec(params);
}

Status CheckExpansion(uint64_t encoded_bytes, uint64_t decoded_bytes,
                      size_t codec_count) {
  // Each codec may expand again, so the bound is raised to the power of the
  // codec count.
  if (decoded_bytes <= kAlwaysFineBytes || codec_count > 3) return Status();
  const int bits = kExpansionBitsMax * static_cast<int>(codec_count);
  if ((decoded_bytes >> bits) <= encoded_bytes) return Status();
  return DataLossError("Not enough data: " + std::to_string(encoded_bytes) +
                       " stored bytes cannot decode to the " +
                       std::to_string(decoded_bytes) + " bytes of a chunk");
}

}  // namespace holdfast::zarr
