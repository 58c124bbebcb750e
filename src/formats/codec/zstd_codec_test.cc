#include "formats/codec/zstd_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "formats/codec/codec_test_util.h"
#include "formats/codec/zstd_frame.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

const ZstdCodec kPlain(ZstdParams{1, false});
const ZstdCodec kChecked(ZstdParams{1, true});

ZstdStrategy StrategyOf(std::string_view data, int level = 1) {
  CodecContext context;
  return ChooseZstdStrategy(data, level, context);
}

// Returns a frame as a streaming writer makes it, without a content size.
std::string StreamedFrame(std::string_view data, int window_log) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  std::string out(ZSTD_compressBound(data.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), data.data(),
                            data.size()));
  ZSTD_freeCCtx(context);
  return out;
}

bool IsStored(std::string_view frame) {
  return InspectZstdFrame(frame)->stored;
}

TEST(ZstdCodecTest, WorkedExamples) {
  // zarr.md, sections 4 and 8.
  EXPECT_EQ(MustEncode(kPlain, FromHex("0700000000000000")),
            FromHex("28 b5 2f fd 20 08 41 00 00 07 00 00 00 00 00 00 00"));
  EXPECT_EQ(MustEncode(kPlain, std::string(8, '\0')),
            FromHex("28 b5 2f fd 20 08 41 00 00 00 00 00 00 00 00 00 00"));
  const auto decoded = TryDecode(
      kPlain, FromHex("28 b5 2f fd 20 08 41 00 00 07 00 00 00 00 00 00 00"), 8);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, FromHex("0700000000000000"));
}

TEST(ZstdCodecTest, RoundTripsAtAllLevels) {
  for (int level : {-131072, -100, -5, -1, 0, 1, 2, 3, 4, 9, 19, 22}) {
    for (bool checksum : {false, true}) {
      const ZstdCodec codec(ZstdParams{level, checksum});
      ExpectRoundTrips(codec, kSmallSizes);
      if (level <= 4) ExpectRoundTrips(codec, {131071, 131072, 131073});
    }
  }
}

TEST(ZstdCodecTest, RoundTripsLargeChunks) {
  ExpectRoundTrips(kChecked, {262143, 262144, 262145, (1 << 20) + 12345});
  ExpectRoundTrips(ZstdCodec(ZstdParams{3, false}), {(1 << 20) + 12345});
}

TEST(ZstdCodecTest, EveryFrameNamesItsSizeAndHasItsChecksum) {
  for (size_t size : {0, 8, 16, 300, 4096, 300000, 1 << 20}) {
    for (const std::string& data :
         {RandomBytes(size, 1), PatternBytes(size, 2), NormalFloats(size, 3),
          NormalBfloat16s(size, 4)}) {
      const auto info = InspectZstdFrame(MustEncode(kChecked, data));
      ASSERT_TRUE(info.ok()) << info.status().ToString();
      EXPECT_EQ(info->content_bytes, size);
      EXPECT_TRUE(info->has_checksum);
      const auto plain = InspectZstdFrame(MustEncode(kPlain, data));
      ASSERT_TRUE(plain.ok());
      EXPECT_FALSE(plain->has_checksum);
    }
  }
}

TEST(ZstdCodecTest, ChoosesByLookingAtTheChunk) {
  constexpr size_t kSize = 1 << 20;
  EXPECT_EQ(StrategyOf(NormalBfloat16s(kSize, 1)), ZstdStrategy::kLiterals);
  EXPECT_EQ(StrategyOf(NormalFloats(kSize, 1)), ZstdStrategy::kLiterals);
  EXPECT_EQ(StrategyOf(RandomBytes(kSize, 1)), ZstdStrategy::kStored);
  EXPECT_EQ(StrategyOf(std::string(kSize, '\0')), ZstdStrategy::kSearch);
  EXPECT_EQ(StrategyOf(PatternBytes(kSize, 1)), ZstdStrategy::kSearch);
  EXPECT_EQ(StrategyOf(RandomBytes(65535, 1)), ZstdStrategy::kMatches);
  EXPECT_EQ(StrategyOf(NormalFloats(65535, 1)), ZstdStrategy::kSearch);
  EXPECT_EQ(StrategyOf(NormalBfloat16s(65536, 1)), ZstdStrategy::kLiterals);
  EXPECT_EQ(StrategyOf("short"), ZstdStrategy::kStored);
}

TEST(ZstdCodecTest, HigherLevelsSearchAsAsked) {
  for (int level : {-5, 4, 22}) {
    EXPECT_EQ(StrategyOf(NormalFloats(1 << 20, 1), level),
              ZstdStrategy::kSearch);
  }
}

TEST(ZstdCodecTest, MixedChunksAreNotStored) {
  // Weights with a quarter of zeros, at each end and in the middle.
  constexpr size_t kSize = 1 << 20;
  for (size_t at : {size_t{0}, kSize / 3, kSize - kSize / 4}) {
    std::string data = NormalFloats(kSize, 1);
    data.replace(at, kSize / 4, std::string(kSize / 4, '\0'));
    EXPECT_EQ(StrategyOf(data), ZstdStrategy::kSearch) << at;
    EXPECT_LT(MustEncode(kChecked, data).size(), kSize * 3 / 4) << at;
  }
}

TEST(ZstdCodecTest, EqualRowsAreFoundWhateverTheRowLength) {
  for (size_t row_bytes : {256, 4096, 16384, 40000}) {
    const std::string row = NormalFloats(row_bytes, 1);
    std::string data;
    while (data.size() < 500000) data += row;
    EXPECT_LT(MustEncode(kChecked, data).size(), row_bytes + 2000) << row_bytes;
  }
}

TEST(ZstdCodecTest, LiteralsAloneAreAsSmallAsLevelOne) {
  CodecContext context;
  const std::string data = NormalBfloat16s(1 << 20, 1);
  std::string out(kChecked.EncodedBytesMax(data.size()), '\0');
  const auto searched =
      kChecked.EncodeWith(ZstdStrategy::kSearch, data, out, context);
  const auto literals =
      kChecked.EncodeWith(ZstdStrategy::kLiterals, data, out, context);
  EXPECT_LT(static_cast<double>(*literals), 1.01 * *searched);
}

TEST(ZstdCodecTest, TheContextLeavesNoTrace) {
  // The bytes do not depend on what the context did before.
  CodecContext used;
  for (const std::string& data :
       {NormalBfloat16s(1 << 20, 1), PatternBytes(1 << 20, 2),
        NormalFloats(5000, 3), NormalBfloat16s(1 << 20, 1)}) {
    std::string out(kChecked.EncodedBytesMax(data.size()), '\0');
    out.resize(*kChecked.Encode(data, out, used));
    EXPECT_TRUE(out == MustEncode(kChecked, data));
  }
}

// Frames above 16 MiB are written and read in pieces, so that they can be
// cancelled between pieces.
constexpr size_t kLargeBytes = (40 << 20) + 12345;

std::string LargeData(int kind) {
  return kind == 0   ? PatternBytes(kLargeBytes, 7)
         : kind == 1 ? NormalBfloat16s(kLargeBytes / 2, 8)
                     : RandomBytes(kLargeBytes, 9);
}

TEST(ZstdCodecTest, LargeFramesAreWhatLibzstdMakesAtOnce) {
  for (int kind = 0; kind < 3; ++kind) {
    const std::string data = LargeData(kind);
    CodecContext context;
    std::string pieces(kChecked.EncodedBytesMax(data.size()), '\0');
    pieces.resize(
        *kChecked.EncodeWith(ZstdStrategy::kSearch, data, pieces, context));
    ZSTD_CCtx* const compressor = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_compressionLevel, 1);
    std::string whole(ZSTD_compressBound(data.size()) + 4, '\0');
    whole.resize(ZSTD_compress2(compressor, whole.data(), whole.size(),
                                data.data(), data.size()));
    ZSTD_freeCCtx(compressor);
    EXPECT_TRUE(pieces == whole) << kind;
    const auto decoded = TryDecode(kChecked, pieces, data.size());
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_TRUE(*decoded == data) << kind;
  }
}

TEST(ZstdCodecTest, LargeFramesAreCancelled) {
  const std::string data = PatternBytes(kLargeBytes, 7);
  const std::string frame = MustEncode(kChecked, data);
  CancelToken cancel;
  CodecContext context;
  context.set_cancel(&cancel);
  std::string out(kChecked.EncodedBytesMax(data.size()), '\0');
  ASSERT_TRUE(
      kChecked.EncodeWith(ZstdStrategy::kSearch, data, out, context).ok());
  cancel.Cancel();
  EXPECT_EQ(kChecked.EncodeWith(ZstdStrategy::kSearch, data, out, context)
                .status()
                .code(),
            StatusCode::kCancelled);
  std::string decoded(data.size(), '\0');
  EXPECT_EQ(kChecked.Decode(frame, decoded, context).code(),
            StatusCode::kCancelled);
  // Small frames finish before they can be cancelled; the context still works.
  const std::string small = PatternBytes(1000, 1);
  EXPECT_TRUE(kChecked.Encode(small, out, context).ok());
  context.set_cancel(nullptr);
  ASSERT_TRUE(kChecked.Decode(frame, decoded, context).ok());
  EXPECT_TRUE(decoded == data);
}

TEST(ZstdCodecTest, DamageInLargeFramesIsFound) {
  const std::string data = PatternBytes(kLargeBytes, 7);
  const std::string frame = MustEncode(kChecked, data);
  for (const size_t at : {size_t{20}, frame.size() / 2, frame.size() - 1}) {
    std::string bad = frame;
    bad[at] ^= 0x10;
    const Status status = TryDecode(kChecked, bad, data.size()).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << at;
  }
  std::string bad = frame;
  bad.back() ^= 1;
  EXPECT_EQ(TryDecode(kChecked, bad, data.size()).status().message(),
            "zstd frame: content checksum mismatch");
  const std::string streamed = StreamedFrame(data, 17);
  const auto decoded = TryDecode(kPlain, streamed, data.size());
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_TRUE(*decoded == data);
  EXPECT_EQ(TryDecode(kPlain, streamed, data.size() + 1).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(TryDecode(kPlain, streamed, data.size() - 1).status().code(),
            StatusCode::kDataLoss);
}

TEST(ZstdCodecTest, AcceptsFramesWithoutContentSize) {
  const std::string data = PatternBytes(200000, 1);
  for (int window_log : {10, 17, 27}) {
    const std::string frame = StreamedFrame(data, window_log);
    const auto decoded = TryDecode(kPlain, frame, data.size());
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_TRUE(*decoded == data);
    const auto longer = TryDecode(kPlain, frame, data.size() + 1);
    EXPECT_THAT(longer.status().message(),
                HasSubstr("Not enough data: expected at least 200001 or 1 "
                          "more; at byte 200000"));
    const auto shorter = TryDecode(kPlain, frame, data.size() - 1);
    EXPECT_EQ(shorter.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(shorter.status().message(), HasSubstr("End of data expected"));
  }
}

TEST(ZstdCodecTest, RejectsAnotherSize) {
  for (const std::string& data :
       {RandomBytes(1000, 1), PatternBytes(1000, 1)}) {
    const std::string frame = MustEncode(kChecked, data);
    EXPECT_THAT(TryDecode(kChecked, frame, 999).status().ToString(),
                HasSubstr("DATA_LOSS: zstd frame: End of data expected; "
                          "remaining length: 1; at byte 999"));
    EXPECT_THAT(TryDecode(kChecked, frame, 1002).status().ToString(),
                HasSubstr("DATA_LOSS: zstd frame: Not enough data: expected at "
                          "least 1002 or 2 more; at byte 1000"));
    EXPECT_EQ(DecodeCode(kChecked, frame, 0), StatusCode::kDataLoss);
  }
}

TEST(ZstdCodecTest, RejectsMoreThanOneFrame) {
  const std::string data = PatternBytes(1000, 1);
  const std::string frame = MustEncode(kChecked, data);
  const std::string skippable = FromHex("502a4d18 01000000 00");
  for (const std::string& bad :
       {frame + frame, frame + skippable, skippable + frame, frame + '\0',
        skippable, std::string("\0", 1) + frame}) {
    EXPECT_EQ(DecodeCode(kChecked, bad, 1000), StatusCode::kDataLoss);
    EXPECT_EQ(DecodeCode(kChecked, bad, 2000), StatusCode::kDataLoss);
  }
}

TEST(ZstdCodecTest, RejectsEveryTruncation) {
  for (const std::string& data :
       {RandomBytes(700, 1), PatternBytes(3000, 1), std::string(9000, '\0')}) {
    const std::string frame = MustEncode(kChecked, data);
    for (size_t size = 0; size < frame.size(); ++size) {
      ASSERT_EQ(DecodeCode(kChecked, frame.substr(0, size), data.size()),
                StatusCode::kDataLoss)
          << size;
    }
  }
}

// In a compressed block, some flips mean nothing (padding, another offset into
// the same run), and only those may go unnoticed. In a stored frame, every flip
// is noticed.
TEST(ZstdCodecTest, NoFlippedBitChangesTheContent) {
  for (const std::string& data :
       {RandomBytes(300, 1), NormalBfloat16s(6000, 1), PatternBytes(3000, 1),
        std::string(9000, '\0')}) {
    const std::string frame = MustEncode(kChecked, data);
    size_t unseen_count = 0;
    for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
      std::string damaged = frame;
      damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
      const auto decoded = TryDecode(kChecked, damaged, data.size());
      if (!decoded.ok()) {
        ASSERT_EQ(decoded.status().code(), StatusCode::kDataLoss);
        continue;
      }
      ASSERT_TRUE(*decoded == data) << "bit " << bit;
      ++unseen_count;
    }
    EXPECT_LT(unseen_count, frame.size() / 2);
    if (IsStored(frame)) {
      EXPECT_EQ(unseen_count, 0u);
    }
  }
}

TEST(ZstdCodecTest, ChecksumMismatchIsNamed) {
  for (const std::string& data :
       {RandomBytes(1000, 1), PatternBytes(1000, 1)}) {
    std::string frame = MustEncode(kChecked, data);
    frame.back() ^= 0x10;
    EXPECT_THAT(TryDecode(kChecked, frame, 1000).status().message(),
                HasSubstr("content checksum mismatch"));
  }
}

TEST(ZstdCodecTest, ClaimsDoNotTakeMemory) {
  // A frame of one small block that claims a content size of 2^62.
  const std::string frame = FromHex("28b52ffd e0 00000000000000 40 090000 61");
  EXPECT_EQ(DecodeCode(kPlain, frame, 1), StatusCode::kDataLoss);
  CodecContext context;
  EXPECT_EQ(
      kPlain.DecodeBounded(frame, size_t{1} << 62, context).status().code(),
      StatusCode::kDataLoss);
  EXPECT_EQ(kPlain.DecodedBytesMax("junk"), 0u);
}

TEST(ZstdCodecTest, BoundedDecodingKeepsTheBound) {
  CodecContext context;
  const std::string data = PatternBytes(200000, 1);
  for (const std::string& frame :
       {MustEncode(kChecked, data), StreamedFrame(data, 20)}) {
    EXPECT_TRUE(kPlain.DecodeBounded(frame, 200000, context)->view() == data);
    EXPECT_EQ(kPlain.DecodeBounded(frame, 199999, context).status().code(),
              StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace holdfast
