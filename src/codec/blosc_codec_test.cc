#include "codec/blosc_codec.h"

#include <blosc.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/codec_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// Byte 2 of the header: flags.
constexpr char kByteShuffle = 1;
constexpr char kBitShuffle = 4;

TEST(BloscCodecTest, RoundTripsWithAllParameters) {
  for (const char* cname :
       {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
    for (int clevel : {0, 1, 5, 9}) {
      for (int shuffle : {-1, 0, 1, 2}) {
        const auto codec =
            MustMake(BloscParams{cname, clevel, shuffle, 0, 0}, 4);
        ExpectRoundTrips(*codec, {0, 1, 7, 128, 4099});
      }
    }
  }
}

TEST(BloscCodecTest, RoundTripsLargeChunksAndBlocks) {
  ExpectRoundTrips(*MustMake(BloscParams{"lz4", 5, 2, 0, 0}, 2),
                   {131071, 131072, 131073, (1 << 20) + 12346});
  ExpectRoundTrips(*MustMake(BloscParams{"lz4", 1, 1, 4096, 8}, 2),
                   {131072, 300001});
}

TEST(BloscCodecTest, AutoShuffleFollowsTheItemSize) {
  const std::string data = PatternBytes(10000, 1);
  const auto flags = [&](const BloscParams& params, size_t item_bytes) {
    return MustEncode(*MustMake(params, item_bytes), data)[2] &
           (kByteShuffle | kBitShuffle);
  };
  EXPECT_EQ(flags(BloscParams{}, 1), kBitShuffle);
  EXPECT_EQ(flags(BloscParams{}, 4), kByteShuffle);
  EXPECT_EQ(flags(BloscParams{"lz4", 5, -1, 0, 1}, 4), kBitShuffle);
  EXPECT_EQ(flags(BloscParams{"lz4", 5, 0, 0, 0}, 4), 0);
}

TEST(BloscCodecTest, TheHeaderHasTheTypeSize) {
  const std::string data = PatternBytes(10000, 1);
  EXPECT_EQ(MustEncode(*MustMake(BloscParams{}, 4), data)[3], 4);
  EXPECT_EQ(MustEncode(*MustMake(BloscParams{"lz4", 5, 1, 0, 8}, 4), data)[3],
            8);
}

TEST(BloscCodecTest, BitShuffleSavesOnWeights) {
  // The reason for compression="fast": less than zstd leaves (0.780, 0.923).
  const auto bf16 = MustMake(BloscParams{"lz4", 5, 2, 0, 0}, 2);
  EXPECT_LT(MustEncode(*bf16, NormalBfloat16s(1 << 20, 1)).size(),
            0.765 * (1 << 20));
  const auto f32 = MustMake(BloscParams{"lz4", 5, 2, 0, 0}, 4);
  EXPECT_LT(MustEncode(*f32, NormalFloats(1 << 20, 1)).size(),
            0.885 * (1 << 20));
}

TEST(BloscCodecTest, RejectsAnotherSize) {
  const auto codec = MustMake(BloscParams{}, 4);
  const std::string data = PatternBytes(1000, 1);
  const std::string encoded = MustEncode(*codec, data);
  EXPECT_THAT(TryDecode(*codec, encoded, 999).status().ToString(),
              HasSubstr("DATA_LOSS: blosc container: End of data expected; "
                        "remaining length: 1"));
  EXPECT_THAT(TryDecode(*codec, encoded, 1001).status().ToString(),
              HasSubstr("DATA_LOSS: blosc container: Not enough data"));
  CodecContext context;
  EXPECT_EQ(codec->DecodeBounded(encoded, 999, context).status().code(),
            StatusCode::kDataLoss);
}

TEST(BloscCodecTest, RejectsTruncationAndTrailingBytes) {
  const auto codec = MustMake(BloscParams{}, 4);
  for (const std::string& data : {PatternBytes(1000, 1), RandomBytes(200, 1)}) {
    const std::string encoded = MustEncode(*codec, data);
    for (size_t size = 0; size < encoded.size(); ++size) {
      ASSERT_EQ(DecodeCode(*codec, encoded.substr(0, size), data.size()),
                StatusCode::kDataLoss)
          << size;
    }
    EXPECT_EQ(DecodeCode(*codec, encoded + '\0', data.size()),
              StatusCode::kDataLoss);
    EXPECT_EQ(DecodeCode(*codec, encoded + encoded, data.size()),
              StatusCode::kDataLoss);
  }
}

TEST(BloscCodecTest, DamageNeverLeavesTheBuffers) {
  // Blosc has no checksum: damage may go unseen, but memory stays whole (the
  // sanitizers watch) and the only error is DataLoss.
  for (const char* cname : {"blosclz", "lz4", "snappy", "zlib", "zstd"}) {
    const auto codec = MustMake(BloscParams{cname, 5, 2, 0, 0}, 4);
    const std::string encoded = MustEncode(*codec, PatternBytes(1000, 1));
    for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
      std::string damaged = encoded;
      damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
      const StatusCode code = DecodeCode(*codec, damaged, 1000);
      ASSERT_TRUE(code == StatusCode::kOk || code == StatusCode::kDataLoss)
          << cname << " bit " << bit;
    }
  }
}

TEST(BloscCodecTest, ClaimsDoNotTakeMemory) {
  const auto codec = MustMake(BloscParams{"lz4", 5, 1, 0, 0}, 4);
  std::string encoded = MustEncode(*codec, PatternBytes(1000, 1));
  encoded.replace(4, 4, FromHex("00000070"));  // decoded size: 1.75 GiB
  CodecContext context;
  EXPECT_EQ(
      codec->DecodeBounded(encoded, size_t{1} << 40, context).status().code(),
      StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
