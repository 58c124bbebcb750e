#include "formats/codec/blosc_codec.h"

#include <blosc.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "formats/codec/codec_test_util.h"

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

std::string OfCBlosc(const BloscParams& params, size_t item_bytes,
                     std::string_view data) {
  std::string out(data.size() + BLOSC_MAX_OVERHEAD, '\x55');
  const int result = blosc_compress_ctx(
      params.clevel, params.shuffle, item_bytes, data.size(), data.data(),
      out.data(), out.size(), params.cname.c_str(), params.blocksize, 1);
  EXPECT_GT(result, 0);
  out.resize(static_cast<size_t>(std::max(result, 0)));
  return out;
}

void ExpectLikeCBlosc(const BloscParams& params, size_t item_bytes,
                      const std::string& data) {
  SCOPED_TRACE(params.cname + " level " + std::to_string(params.clevel) +
               " shuffle " + std::to_string(params.shuffle) + " items of " +
               std::to_string(item_bytes) + ", " + std::to_string(data.size()) +
               " bytes, blocks of " + std::to_string(params.blocksize));
  const auto codec = MustMake(params, item_bytes);
  const std::string ours = MustEncode(*codec, data);
  const std::string theirs = OfCBlosc(params, item_bytes, data);
  if (params.cname != "blosclz") {
    ASSERT_TRUE(ours == theirs);
  }
  const auto decoded = TryDecode(*codec, theirs, data.size());
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  ASSERT_TRUE(*decoded == data);
  std::string by_them(data.size(), '\x55');
  ASSERT_EQ(
      blosc_decompress_ctx(ours.data(), by_them.data(), by_them.size(), 1),
      static_cast<int>(data.size()));
  ASSERT_TRUE(by_them == data);
}

TEST(BloscCodecTest, BytesAreThoseOfCBlosc) {
  for (const char* cname :
       {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}) {
    for (int clevel : {0, 1, 5, 9}) {
      for (int shuffle : {0, 1, 2}) {
        for (size_t item_bytes : {1, 2, 3, 4, 8, 16, 17}) {
          // Blocks whose item count is not a multiple of 8, and a partial last
          // item.
          for (size_t size : {127, 128, 5003, 40000}) {
            if (size > 5003 && clevel == 9) continue;  // slow
            const BloscParams params{cname, clevel, shuffle, 0, 0};
            ExpectLikeCBlosc(params, item_bytes, PatternBytes(size, 7));
            ExpectLikeCBlosc(params, item_bytes, RandomBytes(size, 8));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(BloscCodecTest, LargeChunksAreThoseOfCBlosc) {
  for (const char* cname : {"blosclz", "lz4", "snappy", "zstd"}) {
    for (int clevel = 1; clevel <= 9; clevel += cname[0] == 'z' ? 5 : 2) {
      for (size_t blocksize : {0, 1, 5000}) {
        const BloscParams params{cname, clevel, 2, blocksize, 0};
        ExpectLikeCBlosc(params, 4, NormalFloats(700'012, 1));
        ExpectLikeCBlosc(params, 2, NormalBfloat16s(300'002, 1));
        if (HasFatalFailure()) return;
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
  // The result is smaller than zstd's (0.780, 0.923), which is why
  // compression="fast" uses bit shuffle.
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
  // Blosc has no checksum: damage may go unnoticed, but memory stays intact
  // (the sanitizers watch), and the only error is DataLoss.
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

TEST(BloscCodecTest, BlosclzFindsMatchesNearAndFar) {
  const auto codec = MustMake(BloscParams{"blosclz", 5, 0, 1 << 20, 0}, 17);
  const std::string noise = RandomBytes(60'000, 5);
  for (const size_t size : {1'000, 30'000, 60'000}) {
    const std::string once = noise.substr(0, size);
    const std::string encoded = MustEncode(*codec, once + once + once);
    EXPECT_LT(encoded.size(), size + size / 8 + 600);
    ExpectLikeCBlosc(BloscParams{"blosclz", 5, 0, 1 << 20, 0}, 17,
                     once + once + once);
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
