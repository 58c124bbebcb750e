#include "formats/codec/crc32c_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/codec/codec_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

const Crc32cCodec kCodec;

TEST(Crc32cCodecTest, RoundTrips) { ExpectRoundTrips(kCodec, kSmallSizes); }

TEST(Crc32cCodecTest, WorkedExample) {
  // The shard index of zarr.md, section 4.
  EXPECT_EQ(MustEncode(kCodec, FromHex("0000000000000000 1100000000000000")),
            FromHex("0000000000000000 1100000000000000 79ee3a8f"));
}

TEST(Crc32cCodecTest, SizesAreFixed) {
  EXPECT_EQ(kCodec.EncodedBytesMax(10), 14u);
}

TEST(Crc32cCodecTest, MismatchNamesBothDigests) {
  const std::string encoded =
      FromHex("0000000000000000 1100000000000000 79ee3a80");
  EXPECT_THAT(TryDecode(kCodec, encoded, 16).status().ToString(),
              HasSubstr("DATA_LOSS: Digest mismatch, stored digest is "
                        "0x803aee79 but computed digest is 0x8f3aee79"));
}

TEST(Crc32cCodecTest, EveryFlippedBitIsNoticed) {
  const std::string encoded = MustEncode(kCodec, RandomBytes(40, 1));
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string damaged = encoded;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    ASSERT_EQ(DecodeCode(kCodec, damaged, 40), StatusCode::kDataLoss);
  }
}

TEST(Crc32cCodecTest, RejectsAnotherSize) {
  const std::string encoded = MustEncode(kCodec, RandomBytes(40, 1));
  EXPECT_EQ(DecodeCode(kCodec, encoded, 39), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCode(kCodec, encoded, 41), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCode(kCodec, "abc", 0), StatusCode::kDataLoss);
  CodecContext context;
  EXPECT_EQ(kCodec.DecodeBounded(encoded, 39, context).status().code(),
            StatusCode::kDataLoss);
}

TEST(Crc32cCodecTest, DecodeBoundedDoesNotCopy) {
  CodecContext context;
  const std::string encoded = MustEncode(kCodec, "hello");
  EXPECT_EQ(kCodec.DecodeBounded(encoded, 5, context)->data(), encoded.data());
}

TEST(Crc32cCodecTest, APieceIsTheSameAsACopy) {
  const std::string data = RandomBytes(100, 1);
  const std::string_view view = data;
  EncodedChunk chunk;
  chunk.storage = Buffer(4);
  chunk.pieces = {view.substr(0, 33), view.substr(33)};
  chunk.byte_count = 100;
  AppendCrc32cPiece(0, chunk);
  std::string joined;
  for (std::string_view piece : chunk.pieces) joined += piece;
  EXPECT_EQ(joined, MustEncode(kCodec, data));
  EXPECT_EQ(chunk.byte_count, 104u);
}

}  // namespace
}  // namespace holdfast
