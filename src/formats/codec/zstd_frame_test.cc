#include "formats/codec/zstd_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "formats/codec/codec_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

const std::vector<size_t> kBorderSizes = {
    0,      1,       255,     256,           257,    65535,  65536,
    65791,  65792,   131071,  131072,        131073, 262143, 262144,
    262145, 1 << 20, 8 << 20, (8 << 20) + 1, 9 << 20};

std::string StoredFrame(std::string_view content, bool checksum) {
  std::string out(StoredZstdFrameBytes(content.size(), checksum), '\x55');
  EXPECT_EQ(WriteStoredZstdFrame(content, checksum, out), out.size());
  return out;
}

Result<std::string> DecodeStored(std::string_view in) {
  const auto info = InspectZstdFrame(in);
  if (!info.ok()) return info.status();
  EXPECT_TRUE(info->stored);
  std::string out(info->decoded_bytes_max, '\x55');
  const Status status = DecodeStoredZstdFrame(in, *info, out);
  if (!status.ok()) return status;
  return out;
}

Status InspectStatus(std::string_view in) {
  return InspectZstdFrame(in).status();
}

// Returns a frame: the magic, and then the descriptor and everything else from
// `hex`.
std::string Frame(const std::string& hex) { return FromHex("28b52ffd" + hex); }

TEST(ZstdFrameTest, StoredFramesDecodeWithLibzstdAndWithoutIt) {
  for (size_t size : kBorderSizes) {
    for (bool checksum : {false, true}) {
      const std::string content = RandomBytes(size, 5);
      const std::string frame = StoredFrame(content, checksum);
      EXPECT_EQ(ZSTD_getFrameContentSize(frame.data(), frame.size()), size);
      std::string out(size, '\x55');
      ASSERT_EQ(ZSTD_decompress(out.data(), size, frame.data(), frame.size()),
                size);
      ASSERT_TRUE(out == content) << size;
      const auto decoded = DecodeStored(frame);
      ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
      ASSERT_TRUE(*decoded == content) << size;
    }
  }
}

TEST(ZstdFrameTest, LibzstdVerifiesOurChecksum) {
  for (size_t size : {1, 100, 131073}) {
    const std::string content = RandomBytes(size, 5);
    std::string frame = StoredFrame(content, true);
    frame.back() ^= 1;
    std::string out(size, '\0');
    const size_t result =
        ZSTD_decompress(out.data(), size, frame.data(), frame.size());
    EXPECT_STREQ(ZSTD_getErrorName(result),
                 "Restored data doesn't match checksum");
  }
}

TEST(ZstdFrameTest, PiecesAreTheFrameAroundTheContent) {
  for (size_t size : kBorderSizes) {
    const std::string content = RandomBytes(size, 6);
    const EncodedChunk chunk = StoredZstdFramePieces(content, true, 4);
    const std::string frame = StoredFrame(content, true);
    EXPECT_TRUE(Join(chunk) == frame) << size;
    EXPECT_EQ(chunk.byte_count, frame.size());
    EXPECT_EQ(chunk.storage.size(), frame.size() - size + 4);
    if (size > 0) {
      EXPECT_EQ(chunk.pieces[1].data(), content.data());
    }
  }
}

TEST(ZstdFrameTest, LargeFramesDoNotAskForALargeWindow) {
  const std::string frame = StoredFrame(std::string((8 << 20) + 1, 'x'), true);
  EXPECT_EQ(frame.substr(4, 2), FromHex("84 38"));
}

TEST(ZstdFrameTest, SizesAbove4GiBTakeAnEightByteField) {
  EXPECT_EQ(StoredZstdFrameBytes(uint64_t{1} << 32, true),
            (uint64_t{1} << 32) + 4 + 1 + 1 + 8 + 3 * 32768 + 4);
}

TEST(ZstdFrameTest, InspectsWhatLibzstdWrites) {
  const std::string content = PatternBytes(300000, 3);
  std::string frame(ZSTD_compressBound(content.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), content.data(),
                             content.size(), 1));
  const auto info = InspectZstdFrame(frame);
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->content_bytes, 300000u);
  EXPECT_FALSE(info->has_checksum);
  EXPECT_FALSE(info->stored);
  EXPECT_EQ(info->decoded_bytes_max, 3 * kZstdBlockBytesMax);
}

TEST(ZstdFrameTest, DecodesRleAndOddBlocks) {
  // Window of 1 KiB, no content size: RLE 5 x 'z', raw "ab", empty last.
  const std::string frame = Frame("00 00  2a0000 7a  100000 6162  010000");
  const auto decoded = DecodeStored(frame);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(*decoded, "zzzzzab");
}

TEST(ZstdFrameTest, RejectsBadHeaders) {
  EXPECT_EQ(InspectStatus("").code(), StatusCode::kDataLoss);
  EXPECT_THAT(InspectStatus(FromHex("28b52ffe")).message(),
              HasSubstr("not a zstd frame"));
  EXPECT_THAT(InspectStatus(FromHex("502a4d18 00000000")).message(),
              HasSubstr("skippable"));
  EXPECT_THAT(InspectStatus(FromHex("5f2a4d18 00000000")).message(),
              HasSubstr("skippable"));
  EXPECT_TRUE(InspectStatus(Frame("20 00 010000")).ok());
  EXPECT_THAT(InspectStatus(Frame("30 00 010000")).message(),
              HasSubstr("unused bit"));
  EXPECT_THAT(InspectStatus(Frame("28 00 010000")).message(),
              HasSubstr("reserved bit"));
  for (const char* with_dictionary : {"21", "22", "23"}) {
    EXPECT_THAT(
        InspectStatus(Frame(with_dictionary + std::string("00000000 010000")))
            .message(),
        HasSubstr("dictionary"));
  }
}

TEST(ZstdFrameTest, RejectsBadBlocks) {
  EXPECT_THAT(InspectStatus(Frame("20 00 070000")).message(),
              HasSubstr("reserved block"));
  EXPECT_THAT(InspectStatus(Frame("20 01 110000 6161")).message(),
              HasSubstr("block too large (got 2, want at most 1)"));
  // RLE of 1025 in a window of 1 KiB.
  EXPECT_THAT(InspectStatus(Frame("00 00 0b2000 61")).message(),
              HasSubstr("block too large (got 1025, want at most 1024)"));
  EXPECT_THAT(InspectStatus(Frame("20 02 090000 61")).message(),
              HasSubstr("content size differs"));
  EXPECT_THAT(InspectStatus(Frame("20 01 090000 61 00")).message(),
              HasSubstr("bytes after the frame (got 1, want 0)"));
}

TEST(ZstdFrameTest, RejectsEveryTruncation) {
  const std::string frame = StoredFrame(RandomBytes(300, 1), true);
  for (size_t size = 0; size < frame.size(); ++size) {
    const Status status = InspectStatus(frame.substr(0, size));
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << size;
    EXPECT_THAT(status.message(), HasSubstr("truncated")) << size;
  }
}

TEST(ZstdFrameTest, EveryFlippedBitIsNoticed) {
  const std::string frame = StoredFrame(RandomBytes(300, 1), true);
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string damaged = frame;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const auto info = InspectZstdFrame(damaged);
    if (!info.ok() || !info->stored) continue;
    const auto decoded = DecodeStored(damaged);
    ASSERT_FALSE(decoded.ok()) << "bit " << bit;
    EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace holdfast
