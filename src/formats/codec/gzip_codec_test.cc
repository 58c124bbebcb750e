#include "formats/codec/gzip_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/codec/codec_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class GzipCodecTest : public ::testing::TestWithParam<bool> {
 protected:
  GzipCodec Codec(int level = 1) const {
    return GzipCodec(GzipParams{level, GetParam()});
  }
};

TEST_P(GzipCodecTest, RoundTripsAtAllLevels) {
  for (int level = 0; level <= 9; ++level) {
    ExpectRoundTrips(Codec(level), kSmallSizes);
  }
  ExpectRoundTrips(Codec(), {131072, 131073, (1 << 20) + 77});
}

TEST_P(GzipCodecTest, WritesItsOwnHeader) {
  const std::string encoded = MustEncode(Codec(), "hello");
  EXPECT_EQ(encoded.substr(0, 2),
            GetParam() ? FromHex("7801") : FromHex("1f8b"));
  EXPECT_EQ(Codec().name(), GetParam() ? "zlib" : "gzip");
}

TEST_P(GzipCodecTest, RejectsTheOthersStream) {
  const GzipCodec other(GzipParams{1, !GetParam()});
  EXPECT_EQ(DecodeCode(Codec(), MustEncode(other, "hello"), 5),
            StatusCode::kDataLoss);
}

TEST_P(GzipCodecTest, RejectsAnotherSize) {
  const std::string encoded = MustEncode(Codec(), PatternBytes(1000, 1));
  EXPECT_THAT(TryDecode(Codec(), encoded, 1001).status().ToString(),
              HasSubstr(" stream: Not enough data: expected at least 1001 or 1 "
                        "more; at byte 1000"));
  for (size_t size : {0, 1, 999}) {
    EXPECT_THAT(TryDecode(Codec(), encoded, size).status().ToString(),
                HasSubstr("End of data expected; decodes to more than"));
  }
}

TEST_P(GzipCodecTest, RejectsBytesBehindTheStream) {
  const std::string encoded = MustEncode(Codec(), "hello");
  EXPECT_THAT(TryDecode(Codec(), encoded + '\0', 5).status().ToString(),
              HasSubstr("bytes after the stream (got 1, want 0)"));
  EXPECT_EQ(DecodeCode(Codec(), encoded + encoded, 5), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCode(Codec(), encoded + encoded, 10), StatusCode::kDataLoss);
}

TEST_P(GzipCodecTest, RejectsEveryTruncation) {
  for (const std::string& data : {std::string(), PatternBytes(1000, 1)}) {
    const std::string encoded = MustEncode(Codec(), data);
    for (size_t size = 0; size < encoded.size(); ++size) {
      ASSERT_EQ(DecodeCode(Codec(), encoded.substr(0, size), data.size()),
                StatusCode::kDataLoss)
          << size;
    }
  }
}

TEST_P(GzipCodecTest, DamagedContentIsNoticed) {
  const std::string data = PatternBytes(1000, 1);
  const std::string encoded = MustEncode(Codec(), data);
  // gzip's header has bytes without meaning (time, system); all others count.
  const size_t header_bytes = GetParam() ? 2 : 10;
  for (size_t bit = header_bytes * 8; bit < encoded.size() * 8; ++bit) {
    std::string damaged = encoded;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto decoded = TryDecode(Codec(), damaged, data.size());
    // Bits that pad the last byte of deflate data carry no information.
    if (decoded.ok()) {
      ASSERT_TRUE(*decoded == data) << "bit " << bit;
    } else {
      ASSERT_EQ(decoded.status().code(), StatusCode::kDataLoss);
    }
  }
}

TEST_P(GzipCodecTest, BoundedDecodingKeepsTheBound) {
  CodecContext context;
  const std::string encoded = MustEncode(Codec(9), std::string(200000, 'x'));
  EXPECT_EQ(Codec().DecodeBounded(encoded, 199999, context).status().code(),
            StatusCode::kDataLoss);
  // The bound does not decide how much memory is allocated; the input does.
  const auto decoded = Codec().DecodeBounded(encoded, size_t{1} << 62, context);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->size(), 200000u);
}

INSTANTIATE_TEST_SUITE_P(Headers, GzipCodecTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Zlib" : "Gzip";
                         });

}  // namespace
}  // namespace holdfast
