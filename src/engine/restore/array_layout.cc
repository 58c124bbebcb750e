#include "engine/restore/array_layout.h"

#include <variant>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

std::string BloscText(const BloscParams& params) {
  static constexpr const char* kShuffles[] = {"", " shuffle", " bitshuffle"};
  std::string text = "blosc " + params.cname;
  if (params.shuffle >= 0 && params.shuffle <= 2) {
    text += kShuffles[params.shuffle];
  }
  return text;
}

std::string CodecText(const BytesCodecParams& params) {
  if (std::holds_alternative<ZstdParams>(params)) return "zstd";
  if (const auto* blosc = std::get_if<BloscParams>(&params)) {
    return BloscText(*blosc);
  }
  if (const auto* gzip = std::get_if<GzipParams>(&params)) {
    return gzip->zlib_header ? "zlib" : "gzip";
  }
  return "crc32c";
}

const std::vector<BytesCodecParams>& InnermostCodecs(
    const zarr::ArrayMetadata& metadata) {
  return metadata.sharding ? metadata.sharding->bytes_codecs
                           : metadata.bytes_codecs;
}

std::string CodecsText(const zarr::ArrayMetadata& metadata) {
  std::string text;
  for (const BytesCodecParams& params : InnermostCodecs(metadata)) {
    if (!text.empty()) text += " + ";
    text += CodecText(params);
  }
  return text.empty() ? "none" : text;
}

// Returns how stored chunks are identified. A shard ends in its index, which
// does not identify the shard's contents.
ValueKnownBy KnownBy(const zarr::ArrayMetadata& metadata) {
  if (metadata.sharding || metadata.bytes_codecs.empty()) {
    return ValueKnownBy::kBlocks;
  }
  const BytesCodecParams& last = metadata.bytes_codecs.back();
  if (std::holds_alternative<Crc32cParams>(last)) {
    return ValueKnownBy::kCrc32cEnd;
  }
  const auto* zstd = std::get_if<ZstdParams>(&last);
  return zstd != nullptr && zstd->checksum ? ValueKnownBy::kZstdEnd
                                           : ValueKnownBy::kBlocks;
}

}  // namespace

Result<std::shared_ptr<const ArrayLayout>> MakeArrayLayout(
    const zarr::ArrayMetadata& metadata, MissingChunks missing) {
  auto layout = std::make_shared<ArrayLayout>();
  zarr::ChunkCodecOptions options;
  options.missing = missing == MissingChunks::kFill
                        ? zarr::MissingChunks::kFill
                        : zarr::MissingChunks::kRefuse;
  HF_ASSIGN_OR_RETURN(layout->format, zarr::MakeChunkFormat(metadata, options));
  layout->grid = {metadata.shape, metadata.chunk_shape};
  layout->known_by = KnownBy(metadata);
  layout->codecs_text = CodecsText(metadata);
  layout->codec_count = InnermostCodecs(metadata).size();
  // MakeChunkFormat has refused products that overflow.
  layout->chunk_bytes =
      ElementCount(metadata.chunk_shape) * DTypeBytes(metadata.dtype);
  return std::shared_ptr<const ArrayLayout>(std::move(layout));
}

Result<std::shared_ptr<const ArrayLayout>> ArrayLayoutCache::Get(
    std::string_view text) {
  {
    std::lock_guard lock(mutex_);
    const auto found = layouts_.find(text);
    if (found != layouts_.end()) return found->second;
  }
  HF_ASSIGN_OR_RETURN(const zarr::ArrayMetadata metadata,
                      zarr::ParseMetadata(text));
  HF_ASSIGN_OR_RETURN(const auto parsed, MakeArrayLayout(metadata, missing_));
  auto layout = std::make_shared<ArrayLayout>(*parsed);
  layout->text = text;
  std::lock_guard lock(mutex_);
  layouts_.emplace(text, layout);
  return std::shared_ptr<const ArrayLayout>(std::move(layout));
}

}  // namespace holdfast
