// ShardCodec: a decoded shard has the same elements after encoding and
// decoding, and each part of it decodes to the same part of the elements.
//
// Input: one byte that selects the layout, then the shard. The checksum of the
// index is corrected, so that mutated offsets and lengths are accepted.
#include <cstring>
#include <vector>

#include "formats/zarr/shard_codec.h"
#include "fuzz_util.h"

namespace holdfast::zarr {
namespace {

// Bits 0, 1: codec; 2: index at the start; 3: wide elements; 4: transposed;
// 5: missing inner chunks are refused.
ArrayMetadata LayoutOf(uint8_t choice) {
  constexpr Compression kCodecs[] = {Compression::kNone, Compression::kZstd,
                                     Compression::kFast, Compression::kNone};
  const DType dtype = (choice & 8) ? DType::kFloat32 : DType::kInt8;
  ArrayMetadata metadata = OrbaxV3({8, 6}, dtype, {8, 6}, kCodecs[choice & 3]);
  metadata.sharding->chunk_shape = {2, 3};
  if (choice & 4) metadata.sharding->index_location = IndexLocation::kStart;
  if (choice & 16) metadata.sharding->transposes = {{1, 0}};
  return metadata;
}

ChunkCodecOptions OptionsOf(uint8_t choice) {
  ChunkCodecOptions options;
  options.missing =
      (choice & 32) ? MissingChunks::kRefuse : MissingChunks::kFill;
  return options;
}

std::string RepairedShard(std::string_view input, const ShardCodec& codec) {
  std::string shard(input);
  if (shard.size() < codec.index_bytes()) return shard;
  char* index = &shard[codec.IndexOffset(shard.size())];
  const size_t covered = codec.index_bytes() - 4;
  PutLittleEndian(Crc32c({index, covered}), 4, index + covered);
  return shard;
}

struct Elements {
  Elements(DType element_type, Shape extents)
      : dtype(element_type),
        shape(std::move(extents)),
        bytes(ElementCount(shape) * DTypeBytes(dtype)) {}
  ArrayView view() {
    return {dtype, bytes.data(), shape,
            ContiguousStrides(shape, DTypeBytes(dtype))};
  }

  DType dtype;
  Shape shape;
  std::vector<char> bytes;
};

void CheckPart(const ShardCodec& codec, std::string_view shard, Elements& whole,
               CodecContext& context) {
  const size_t element_bytes = DTypeBytes(whole.dtype);
  Elements part(whole.dtype, {3, 2});
  FUZZ_CHECK_OK(codec.Decode(shard, {1, 2}, part.view(), context));
  for (size_t row = 0; row < 3; ++row) {
    FUZZ_CHECK(std::memcmp(&part.bytes[row * 2 * element_bytes],
                           &whole.bytes[((row + 1) * 6 + 2) * element_bytes],
                           2 * element_bytes) == 0);
  }
}

void CheckShard(const ShardCodec& codec, DType dtype, std::string_view shard,
                CodecContext& context) {
  Elements whole(dtype, {8, 6});
  if (!codec.Decode(shard, {0, 0}, whole.view(), context).ok()) return;
  CheckPart(codec, shard, whole, context);
  const auto encoded = codec.Encode(whole.view(), context);
  FUZZ_CHECK_OK(encoded);
  std::string text;
  for (const std::string_view piece : encoded->pieces) text += piece;
  FUZZ_CHECK(text.size() == encoded->byte_count);
  Elements again(dtype, {8, 6});
  FUZZ_CHECK_OK(codec.Decode(text, {0, 0}, again.view(), context));
  FUZZ_CHECK(again.bytes == whole.bytes);
}

}  // namespace
}  // namespace holdfast::zarr

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace zarr = holdfast::zarr;
  if (size == 0) return 0;
  const zarr::ArrayMetadata metadata = zarr::LayoutOf(data[0]);
  const auto codec = zarr::ShardCodec::Make(metadata, zarr::OptionsOf(data[0]));
  FUZZ_CHECK_OK(codec);
  const std::string_view shard = holdfast::FuzzText(data + 1, size - 1);
  holdfast::CodecContext context;
  zarr::CheckShard(**codec, metadata.dtype, shard, context);
  zarr::CheckShard(**codec, metadata.dtype, zarr::RepairedShard(shard, **codec),
                   context);
  return 0;
}
