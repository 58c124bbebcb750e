#include "formats/ocdbt/format/compressed_body.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>
#include <string>

namespace holdfast::ocdbt {
namespace {

std::string Compress(std::string_view body, int level) {
  std::string frame(CompressedBytesMax(body.size()), '\0');
  const auto written = CompressFrame(body, level, frame.data(), frame.size());
  frame.resize(written.ok() ? *written : 0);
  return frame;
}

// Compresses as TensorStore compresses big nodes: as a stream, so without a
// content size.
std::string CompressStreamed(std::string_view body, int window_log) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string frame(ZSTD_compressBound(body.size()) + 64, '\0');
  ZSTD_outBuffer output{frame.data(), frame.size(), 0};
  ZSTD_inBuffer first{body.data(), body.size() / 2, 0};
  ZSTD_compressStream2(context, &output, &first, ZSTD_e_flush);
  ZSTD_inBuffer rest{body.data(), body.size(), body.size() / 2};
  ZSTD_compressStream2(context, &output, &rest, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  frame.resize(output.pos);
  return frame;
}

std::string RandomText(size_t byte_count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string text(byte_count, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 16);
  return text;
}

constexpr uint64_t kMax = uint64_t{1} << 30;

TEST(ZstdFrameTest, RoundTripsAtAllKindsOfLevels) {
  for (const int level : {-131072, -4, 0, 1, 3, 19}) {
    for (const size_t size : {0, 1, 1000, 300000}) {
      const std::string body = RandomText(size, size + 1);
      const auto frame = DecompressFrame(Compress(body, level), kMax);
      ASSERT_TRUE(frame.ok()) << frame.status().ToString();
      EXPECT_EQ(frame->body.view(), body);
      EXPECT_EQ(frame->unread_byte_count, 0u);
    }
  }
}

TEST(ZstdFrameTest, DecodesFramesWithoutContentSizeAndWithBigWindow) {
  const std::string body = RandomText(5000000, 7);
  for (const int window_log : {10, 21, 27}) {
    const auto frame =
        DecompressFrame(CompressStreamed(body, window_log), kMax);
    ASSERT_TRUE(frame.ok()) << frame.status().ToString();
    EXPECT_EQ(frame->body.view(), body);
  }
}

TEST(ZstdFrameTest, DecodesBodyMuchLargerThanItsFrame) {
  const std::string body(20000000, 'x');
  const auto frame = DecompressFrame(Compress(body, 3), kMax);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->body.view(), body);
}

TEST(ZstdFrameTest, StopsAtLimit) {
  const std::string body(100001, 'x');
  for (const std::string& frame :
       {Compress(body, 3), CompressStreamed(body, 20)}) {
    EXPECT_TRUE(DecompressFrame(frame, 100001).ok());
    const auto refused = DecompressFrame(frame, 100000);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().ToString(),
              "DATA_LOSS: Decompressed size exceeds limit of 100000 bytes");
  }
}

TEST(ZstdFrameTest, CountsBytesBehindFirstFrame) {
  const auto frame = DecompressFrame(Compress("one", 3) + "four", kMax);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->body.view(), "one");
  EXPECT_EQ(frame->unread_byte_count, 4u);
}

TEST(ZstdFrameTest, SkippableFrameCountsAsEmptyFrame) {
  const std::string skippable("\x50\x2a\x4d\x18\x02\0\0\0ab", 10);
  const auto frame = DecompressFrame(skippable + Compress("one", 3), kMax);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->body.view(), "");
  EXPECT_GT(frame->unread_byte_count, 0u);
}

TEST(ZstdFrameTest, RefusesTruncationEverywhere) {
  const std::string frame = Compress(RandomText(3000, 3), 3);
  for (size_t size = 0; size < frame.size(); ++size) {
    const auto result = DecompressFrame(frame.substr(0, size), kMax);
    ASSERT_FALSE(result.ok()) << size;
    EXPECT_EQ(result.status().ToString(),
              "INVALID_ARGUMENT: Truncated Zstd-compressed stream");
  }
}

TEST(ZstdFrameTest, RefusesGarbage) {
  const auto result = DecompressFrame("this is no zstd frame", kMax);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message(),
            "ZSTD_decompressStream() failed: Unknown frame descriptor");
}

}  // namespace
}  // namespace holdfast::ocdbt
