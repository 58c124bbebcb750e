#include "formats/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/codec/bytes_chain.h"
#include "formats/codec/codec_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

std::string MakeError(const BytesCodecParams& params, size_t item_bytes = 4) {
  const auto codec = MakeBytesCodec(params, item_bytes);
  return codec.ok() ? "OK" : codec.status().ToString();
}

BytesCodecs MakeAll(const std::vector<BytesCodecParams>& params) {
  BytesCodecs codecs;
  for (const auto& each : params) codecs.push_back(MustMake(each, 4));
  return codecs;
}

std::string EncodeChain(const BytesCodecs& codecs, std::string data) {
  for (const auto& codec : codecs) data = MustEncode(*codec, data);
  return data;
}

Result<std::string> DecodeChain(const BytesCodecs& codecs, std::string_view in,
                                size_t decoded_bytes) {
  CodecContext context;
  std::string out(decoded_bytes, '\x55');
  const Status status = DecodeBytesChain(codecs, in, out, context);
  if (!status.ok()) return status;
  return out;
}

TEST(MakeBytesCodecTest, NamesAreTheZarrNames) {
  EXPECT_EQ(MustMake(ZstdParams{})->name(), "zstd");
  EXPECT_EQ(MustMake(BloscParams{})->name(), "blosc");
  EXPECT_EQ(MustMake(GzipParams{})->name(), "gzip");
  EXPECT_EQ(MustMake(GzipParams{1, true})->name(), "zlib");
  EXPECT_EQ(MustMake(Crc32cParams{})->name(), "crc32c");
}

TEST(MakeBytesCodecTest, RangesAreChecked) {
  EXPECT_EQ(MakeError(ZstdParams{-131072}), "OK");
  EXPECT_EQ(MakeError(ZstdParams{22}), "OK");
  EXPECT_EQ(MakeError(ZstdParams{23}),
            "INVALID_ARGUMENT: zstd level: out of range (got 23, want -131072 "
            "to 22)");
  EXPECT_THAT(MakeError(ZstdParams{-131073}), HasSubstr("zstd level"));
  EXPECT_THAT(MakeError(GzipParams{-1}), HasSubstr("gzip level"));
  EXPECT_THAT(MakeError(GzipParams{10}), HasSubstr("gzip level"));
  EXPECT_THAT(MakeError(GzipParams{10, true}), HasSubstr("zlib level"));
}

TEST(MakeBytesCodecTest, BloscRangesAreChecked) {
  EXPECT_EQ(MakeError(BloscParams{"lz4", 9, 2, 1 << 20, 255}), "OK");
  EXPECT_THAT(MakeError(BloscParams{"lz4", 10}), HasSubstr("blosc clevel"));
  EXPECT_THAT(MakeError(BloscParams{"lz4", -1}), HasSubstr("blosc clevel"));
  EXPECT_THAT(MakeError(BloscParams{"lz4", 5, -2}), HasSubstr("shuffle"));
  EXPECT_THAT(MakeError(BloscParams{"lz4", 5, 3}), HasSubstr("shuffle"));
  EXPECT_THAT(MakeError(BloscParams{"lz4", 5, 1, size_t{1} << 31}),
              HasSubstr("blocksize"));
  EXPECT_THAT(MakeError(BloscParams{"lz4", 5, 1, 0, 256}),
              HasSubstr("typesize"));
  EXPECT_THAT(MakeError(BloscParams{}, 0), HasSubstr("typesize"));
  EXPECT_EQ(MakeError(BloscParams{"lz9"}),
            "INVALID_ARGUMENT: blosc cname: unknown compressor \"lz9\"");
}

TEST(DecodeBytesChainTest, NoCodecIsACopyOfTheExactSize) {
  EXPECT_EQ(*DecodeChain({}, "abc", 3), "abc");
  EXPECT_EQ(*DecodeChain({}, "", 0), "");
  EXPECT_THAT(DecodeChain({}, "1234567", 8).status().ToString(),
              HasSubstr("DATA_LOSS: chunk: Not enough data: expected at least "
                        "8 or 1 more; at byte 7"));
  EXPECT_THAT(DecodeChain({}, "123456789", 8).status().ToString(),
              HasSubstr("DATA_LOSS: chunk: End of data expected; remaining "
                        "length: 1; at byte 8"));
}

TEST(DecodeBytesChainTest, ChainsRoundTrip) {
  const std::vector<std::vector<BytesCodecParams>> chains = {
      {Crc32cParams{}},
      {Crc32cParams{}, Crc32cParams{}},
      {ZstdParams{}, Crc32cParams{}},
      {Crc32cParams{}, ZstdParams{}},
      {BloscParams{}, GzipParams{}, ZstdParams{}, Crc32cParams{}},
      {ZstdParams{}, Crc32cParams{}, GzipParams{1, true}, Crc32cParams{}}};
  for (const auto& params : chains) {
    const BytesCodecs codecs = MakeAll(params);
    for (size_t size : {0, 1, 1000, 200000}) {
      for (const std::string& data :
           {PatternBytes(size, 1), RandomBytes(size, 1)}) {
        const auto decoded =
            DecodeChain(codecs, EncodeChain(codecs, data), size);
        ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
        EXPECT_TRUE(*decoded == data);
      }
    }
  }
}

// Decodes to its own memory that begins right after its input, where an
// allocator may place it.
class NeighbourCodec final : public BytesCodec {
 public:
  std::string_view name() const override { return "neighbour"; }
  size_t EncodedBytesMax(size_t decoded_bytes) const override {
    return decoded_bytes;
  }
  uint64_t DecodedBytesMax(std::string_view in) const override {
    return in.size();
  }
  Result<size_t> Encode(std::string_view, std::span<char>,
                        CodecContext&) const override {
    return InternalError("not used");
  }
  Status Decode(std::string_view in, std::span<char> out,
                CodecContext&) const override {
    std::copy(in.begin(), in.end(), out.begin());
    return Status();
  }
  Result<Bytes> DecodeBounded(std::string_view in, size_t,
                              CodecContext&) const override {
    return Bytes(nullptr, {in.data() + in.size(), in.size()});
  }
};

TEST(DecodeBytesChainTest, MemoryBehindTheInputIsNoSliceOfIt) {
  const std::string memory = "input!output";
  const auto codec = std::make_shared<const NeighbourCodec>();
  std::string out(6, ' ');
  CodecContext context;
  const BytesCodecs codecs = {codec, codec};
  const Status decoded = DecodeBytesChain(
      codecs, std::string_view(memory).substr(0, 6), out, context);
  ASSERT_TRUE(decoded.ok()) << decoded.ToString();
  EXPECT_EQ(out, "output");
}

TEST(DecodeBytesChainTest, EncodeBytesChainIsOneCodecAfterTheOther) {
  const BytesCodecs codecs =
      MakeAll({BloscParams{}, GzipParams{}, ZstdParams{}, Crc32cParams{}});
  CodecContext context;
  for (size_t size : {0, 10, 100000}) {
    const std::string data = PatternBytes(size, 1);
    const auto chunk = EncodeBytesChain(codecs, data, 3, context);
    ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
    EXPECT_TRUE(chunk->pieces.at(0) == EncodeChain(codecs, data));
    EXPECT_GE(chunk->storage.size(), chunk->byte_count + 3);
  }
}

TEST(DecodeBytesChainTest, IntermediateSizesAreBounded) {
  // gzip over zstd over 8 bytes: a bomb in the middle is refused.
  const BytesCodecs codecs = MakeAll({ZstdParams{}, GzipParams{9}});
  const std::string bomb = MustEncode(*codecs[1], std::string(10 << 20, '\0'));
  EXPECT_THAT(DecodeChain(codecs, bomb, 8).status().ToString(),
              HasSubstr("DATA_LOSS: gzip stream: End of data expected"));
}

TEST(DecodeToScratchTest, HugeSizesTakeNoMemoryUnlessJustified) {
  CodecContext context;
  Buffer scratch;
  constexpr size_t kHuge = size_t{1} << 62;
  const std::vector<BytesCodecs> chains = {{},
                                           MakeAll({ZstdParams{}}),
                                           MakeAll({GzipParams{}}),
                                           MakeAll({BloscParams{}}),
                                           MakeAll({Crc32cParams{}})};
  for (const BytesCodecs& codecs : chains) {
    const auto decoded =
        DecodeToScratch(codecs, EncodeChain(codecs, "12345678"), kHuge,
                        {0, kHuge}, scratch, context);
    EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(decoded.status().message(), HasSubstr("Not enough data"));
  }
  EXPECT_EQ(scratch.size(), 0u);
}

}  // namespace
}  // namespace holdfast
