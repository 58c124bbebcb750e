#include "formats/zarr/chunk_codec.h"

#include <gtest/gtest.h>

namespace holdfast::zarr {
namespace {

TEST(ChunkCodecTest, BadMetadataIsRefused) {
  ArrayMetadata metadata = OrbaxV3({4}, DType::kInt32, {4}, Compression::kZstd);
  metadata.sharding->chunk_shape = {3};
  EXPECT_EQ(MakeChunkCodec(metadata).status().code(),
            StatusCode::kInvalidArgument);
  metadata = OrbaxV2({4}, DType::kInt32, {4}, Compression::kNone);
  metadata.bytes_codecs.emplace_back(ZstdParams{.level = 23});
  EXPECT_EQ(MakeChunkCodec(metadata).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ChunkCodecTest, WithChecksums) {
  const auto checksum = [](bool word, int zarr_format, bool wanted) {
    ChunkCodecOptions options;
    options.zstd_checksums = wanted;
    const auto codecs = WithChecksums(
        {Crc32cParams(), ZstdParams{.checksum = word}}, zarr_format, options);
    EXPECT_EQ(codecs.size(), 2u);
    return std::get<ZstdParams>(codecs[1]).checksum;
  };
  for (int zarr_format : {2, 3}) {
    for (bool word : {false, true}) {
      EXPECT_TRUE(checksum(word, zarr_format, true));
    }
  }
  // v3's field decides; v2 has no such field.
  EXPECT_TRUE(checksum(true, 3, false));
  EXPECT_FALSE(checksum(false, 3, false));
  EXPECT_FALSE(checksum(true, 2, false));
}

TEST(ChunkCodecTest, BloscOfZstdAndByteShuffleIsWrittenAsPlanes) {
  const auto has_planes = [](const BloscParams& params, bool wanted = true) {
    ChunkCodecOptions options;
    options.zstd_checksums = wanted;
    return std::get<BloscParams>(WithChecksums({params}, 2, options)[0]).planes;
  };
  EXPECT_TRUE(has_planes({"zstd", 1, 1, 0, 0}));
  EXPECT_TRUE(has_planes({"zstd", 9, 1, 0, 4}));
  EXPECT_FALSE(has_planes({"zstd", 1, 1, 0, 0}, false));
  EXPECT_FALSE(has_planes({"lz4", 1, 1, 0, 0}));
  EXPECT_FALSE(has_planes({"zstd", 1, 2, 0, 0}));
  EXPECT_FALSE(has_planes({"zstd", 0, 1, 0, 0}));
  EXPECT_FALSE(has_planes({"zstd", 1, 1, 4096, 0}));
}

TEST(ChunkCodecTest, CheckExpansion) {
  constexpr uint64_t kGib = uint64_t{1} << 30;
  EXPECT_TRUE(CheckExpansion(0, 64 << 20, 1).ok());
  // 1 GiB of one byte value is 32 KiB of zstd; at least half of that is
  // required.
  EXPECT_TRUE(CheckExpansion(32 << 10, kGib, 1).ok());
  EXPECT_EQ(CheckExpansion(1 << 10, kGib, 1).code(), StatusCode::kDataLoss);
  // Without a codec the sizes are equal; two codecs multiply.
  EXPECT_EQ(CheckExpansion(kGib - 1, kGib, 0).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(CheckExpansion(kGib, kGib, 0).ok());
  EXPECT_TRUE(CheckExpansion(1 << 10, kGib, 2).ok());
  EXPECT_EQ(CheckExpansion(1, uint64_t{1} << 62, 3).code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast::zarr
