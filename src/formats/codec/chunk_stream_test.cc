// Streams compared with the plain calls: the same bytes, values and errors.
#include "formats/codec/chunk_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>

#include "formats/codec/codec_test_util.h"
#include "ground/base/crc32c.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPieceBytes = 128 << 10;

class TextSource final : public EncodedSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  uint64_t byte_count() const override { return text_.size(); }
  Status ReadAt(uint64_t offset, std::span<char> target) override {
    largest_read_ = std::max(largest_read_, target.size());
    std::copy_n(text_.data() + offset, target.size(), target.data());
    return Status();
  }
  size_t largest_read() const { return largest_read_; }

 private:
  const std::string_view text_;
  size_t largest_read_ = 0;
};

struct Chain {
  Shape shape;
  DType dtype = DType::kUint8;
  std::vector<BytesCodecParams> codecs;

  std::shared_ptr<const ChunkCodec> Make() const {
    PlainChainParams params;
    params.dtype = dtype;
    params.chunk_shape = shape;
    params.bytes_codecs = codecs;
    params.fill_element = std::string(DTypeBytes(dtype), '\x01');
    auto codec = MakePlainChunkCodec(params);
    EXPECT_TRUE(codec.ok()) << codec.status().ToString();
    return std::move(codec).value();
  }
  ConstArrayView View(std::string_view data) const {
    return {dtype, data.data(), shape,
            ContiguousStrides(shape, DTypeBytes(dtype))};
  }
};

std::string Encoded(const Chain& chain, const ConstArrayView& view) {
  CodecContext context;
  const auto chunk = chain.Make()->Encode(view, context);
  EXPECT_TRUE(chunk.ok()) << chunk.status().ToString();
  return Join(*chunk);
}

// Encodes in pieces. If `in_place`, the elements are in memory; otherwise
// `copy` fetches them.
std::string Streamed(const Chain& chain, const ConstArrayView& view,
                     bool in_place, size_t piece_bytes = kPieceBytes) {
  CodecContext context;
  ChunkElements elements;
  elements.dtype = chain.dtype;
  elements.shape = view.shape;
  if (in_place) elements.view = view;
  elements.copy = [&](const Box& box, const ArrayView& target) {
    CopyStrided(Subview(view, box), target);
    return Status();
  };
  std::string written;
  const Status status = chain.Make()->EncodeStream(
      elements, piece_bytes,
      [&](std::span<const std::string_view> pieces) {
        for (const std::string_view piece : pieces) written += piece;
        return Status();
      },
      context);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return written;
}

std::string DecodedWhole(const Chain& chain, std::string_view encoded) {
  std::string out(ElementCount(chain.shape) * DTypeBytes(chain.dtype), '\x55');
  CodecContext context;
  const ArrayView target{
      chain.dtype, out.data(), chain.shape,
      ContiguousStrides(chain.shape, DTypeBytes(chain.dtype))};
  const Status status = chain.Make()->Decode(
      encoded, Shape(chain.shape.size(), 0), target, context);
  return status.ok() ? out : status.ToString();
}

// Decodes the stream into one block of memory, or in pieces.
std::string DecodedStream(const Chain& chain, std::string_view encoded,
                          bool in_pieces) {
  std::string out(ElementCount(chain.shape) * DTypeBytes(chain.dtype), '\x55');
  const ArrayView whole{
      chain.dtype, out.data(), chain.shape,
      ContiguousStrides(chain.shape, DTypeBytes(chain.dtype))};
  DecodedTarget target;
  if (!in_pieces) target.whole = out.data();
  target.part = BoxOf(chain.shape);
  target.take = [&](const Box& box, const ConstArrayView& elements) {
    CopyStrided(elements, Subview(whole, box));
    return Status();
  };
  CodecContext context;
  TextSource source(encoded);
  const auto done =
      chain.Make()->DecodeStream(source, kPieceBytes, target, context);
  EXPECT_LE(source.largest_read(), kPieceBytes);
  if (!done.ok()) return done.status().ToString();
  EXPECT_TRUE(*done);
  return out;
}

std::vector<std::string> Contents(size_t byte_count) {
  std::string mixed = PatternBytes(byte_count, 1);
  mixed.replace(byte_count / 3, byte_count / 3, RandomBytes(byte_count / 3, 2));
  return {std::string(byte_count, '\0'), PatternBytes(byte_count, 3),
          RandomBytes(byte_count, 4), NormalBfloat16s(byte_count, 5), mixed};
}

const std::vector<BytesCodecParams> kNoCodec = {};
const std::vector<BytesCodecParams> kZstd = {ZstdParams{}};

TEST(EncodeStreamTest, InOnePieceTheBytesAreThoseOfEncode) {
  for (const auto& codecs : {kNoCodec, kZstd}) {
    for (const int64_t size : {1 << 20, (1 << 20) + 1, 777'777}) {
      const Chain chain{{size}, DType::kUint8, codecs};
      for (const std::string& content : Contents(size)) {
        const ConstArrayView view = chain.View(content);
        const std::string want = Encoded(chain, view);
        EXPECT_TRUE(Streamed(chain, view, true) == want);
        EXPECT_TRUE(Streamed(chain, view, true, 300'000) == want);
      }
    }
  }
}

TEST(EncodeStreamTest, GatheredPiecesDecodeToTheElements) {
  for (const auto& codecs : {kNoCodec, kZstd}) {
    const Chain chain{{1000, 1001}, DType::kUint8, codecs};
    for (const std::string& content : Contents(1'001'000)) {
      const std::string encoded = Streamed(chain, chain.View(content), false);
      EXPECT_TRUE(DecodedWhole(chain, encoded) == content);
      if (codecs.empty()) continue;
      EXPECT_EQ(ZSTD_getFrameContentSize(encoded.data(), encoded.size()),
                content.size());
      std::string out(content.size(), ' ');
      EXPECT_EQ(ZSTD_decompress(out.data(), out.size(), encoded.data(),
                                encoded.size()),
                out.size());
      EXPECT_TRUE(out == content);
    }
  }
}

TEST(EncodeStreamTest, EdgesArePaddedWithTheFillElement) {
  for (const auto& codecs : {kNoCodec, kZstd}) {
    const Chain chain{{700, 900}, DType::kUint16, codecs};
    const Shape inside = {650, 901 - 100};
    const std::string content = RandomBytes(2 * 650 * 801, 1);
    const ConstArrayView view{DType::kUint16, content.data(), inside,
                              ContiguousStrides(inside, 2)};
    const std::string want = DecodedWhole(chain, Encoded(chain, view));
    EXPECT_TRUE(DecodedWhole(chain, Streamed(chain, view, true)) == want);
    EXPECT_TRUE(DecodedWhole(chain, Streamed(chain, view, false)) == want);
  }
}

TEST(DecodeStreamTest, GivesTheElementsOfDecode) {
  for (const auto& codecs : {kNoCodec, kZstd}) {
    const Chain chain{{999, 1001}, DType::kUint8, codecs};
    for (const std::string& content : Contents(999 * 1001)) {
      const std::string encoded = Encoded(chain, chain.View(content));
      EXPECT_TRUE(DecodedStream(chain, encoded, false) == content);
      EXPECT_TRUE(DecodedStream(chain, encoded, true) == content);
    }
  }
}

TEST(DecodeStreamTest, OnlyTheWantedPartIsTaken) {
  const Chain chain{{1000, 1000}, DType::kUint8, kZstd};
  const std::string content = PatternBytes(1'000'000, 1);
  DecodedTarget target;
  target.part = {{100, 10}, {800, 20}};
  int64_t taken = 0;
  target.take = [&](const Box& box, const ConstArrayView& elements) {
    EXPECT_EQ(Intersect(box, target.part), box);
    for (int64_t row = 0; row < box.shape[0]; ++row) {
      const std::string_view got(elements.data + row * elements.strides[0],
                                 box.shape[1]);
      const size_t at = (box.origin[0] + row) * 1000 + box.origin[1];
      EXPECT_EQ(got, std::string_view(content).substr(at, box.shape[1]));
    }
    taken += ElementCount(box.shape);
    return Status();
  };
  CodecContext context;
  const std::string encoded = Encoded(chain, chain.View(content));
  TextSource source(encoded);
  EXPECT_TRUE(
      *chain.Make()->DecodeStream(source, kPieceBytes, target, context));
  EXPECT_EQ(taken, 800 * 20);
}

// Any damage gives Decode's message, no matter how the stream decodes.
TEST(DecodeStreamTest, DamageHasTheTextsOfDecode) {
  for (const auto& codecs : {kNoCodec, kZstd}) {
    const Chain chain{{777'777}, DType::kUint8, codecs};
    for (const std::string& content : Contents(777'777)) {
      const std::string good = Encoded(chain, chain.View(content));
      std::vector<std::string> bad = {"",
                                      good.substr(0, 3),
                                      good.substr(0, good.size() / 2),
                                      good.substr(0, good.size() - 1),
                                      good + "x",
                                      good + good};
      std::mt19937 random(1);
      for (int i = 0; i < 60; ++i) {
        std::string flipped = good;
        const size_t at = i < 40 ? i / 2 : random() % good.size();
        flipped[at % good.size()] ^= static_cast<char>(1 << random() % 8);
        bad.push_back(std::move(flipped));
      }
      for (const std::string& damaged : bad) {
        const std::string want = DecodedWhole(chain, damaged);
        for (const bool in_pieces : {false, true}) {
          const std::string got = DecodedStream(chain, damaged, in_pieces);
          EXPECT_TRUE(got == want)
              << want.substr(0, 200) << "\nbut " << got.substr(0, 200);
        }
      }
    }
  }
}

TEST(DecodeStreamTest, AFrameOfAnotherSizeIsRefusedAsByDecode) {
  for (const int64_t frame_bytes : {700'000, 800'000}) {
    const Chain other{{frame_bytes}, DType::kUint8, kZstd};
    const Chain chain{{777'777}, DType::kUint8, kZstd};
    const std::string content = PatternBytes(frame_bytes, 1);
    const std::string sized = Encoded(other, other.View(content));
    // A frame without a content size.
    std::string unsized(ZSTD_compressBound(content.size()), '\0');
    ZSTD_CCtx* compressor = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(compressor, ZSTD_c_contentSizeFlag, 0);
    unsized.resize(ZSTD_compress2(compressor, unsized.data(), unsized.size(),
                                  content.data(), content.size()));
    ZSTD_freeCCtx(compressor);
    for (const std::string& encoded : {sized, unsized}) {
      const std::string want = DecodedWhole(chain, encoded);
      EXPECT_THAT(want, HasSubstr("DATA_LOSS"));
      EXPECT_EQ(DecodedStream(chain, encoded, false), want);
      EXPECT_EQ(DecodedStream(chain, encoded, true), want);
    }
  }
}

TEST(DecodeStreamTest, AnyByteOfABoolButZeroIsTrue) {
  const Chain chain{{1'000'000}, DType::kBool, kZstd};
  std::string content(1'000'000, '\x01');
  content[654'321] = 7;
  const Chain bytes{{1'000'000}, DType::kUint8, kZstd};
  const std::string encoded = Encoded(bytes, bytes.View(content));
  for (const bool in_pieces : {false, true}) {
    EXPECT_EQ(DecodedStream(chain, encoded, in_pieces),
              std::string(1'000'000, '\x01'));
  }
}

// Decoding in pieces would also need a window as large as the chunk.
TEST(DecodeStreamTest, AFrameWithAHugeWindowIsLeftToDecode) {
  const Chain chain{{16 << 20}, DType::kUint8, kZstd};
  const std::string content(16 << 20, '\0');
  std::string encoded(ZSTD_compressBound(content.size()), '\0');
  ZSTD_CCtx* compressor = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(compressor, ZSTD_c_windowLog, 24);
  encoded.resize(ZSTD_compress2(compressor, encoded.data(), encoded.size(),
                                content.data(), content.size()));
  ZSTD_freeCCtx(compressor);
  CodecContext context;
  TextSource source(encoded);
  DecodedTarget target;
  target.part = BoxOf(chain.shape);
  const auto done =
      chain.Make()->DecodeStream(source, kPieceBytes, target, context);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_FALSE(*done);
  EXPECT_TRUE(DecodedStream(chain, encoded, false) == content);
}

TEST(EncodeStreamTest, BoolsAreWrittenAsZeroAndOne) {
  for (const auto& codecs : {kNoCodec, kZstd}) {
    const Chain chain{{1000, 1001}, DType::kBool, codecs};
    std::string content(1'001'000, '\x01');
    content[0] = '\0';
    content[1'000'999] = '\x80';
    std::string want = content;
    want[1'000'999] = '\x01';
    const ConstArrayView view = chain.View(content);
    const Chain bytes{{1000, 1001}, DType::kUint8, codecs};
    EXPECT_TRUE(DecodedWhole(bytes, Encoded(chain, view)) == want);
    EXPECT_TRUE(DecodedWhole(bytes, Streamed(chain, view, true)) == want);
    EXPECT_TRUE(DecodedWhole(bytes, Streamed(chain, view, false)) == want);
  }
}

TEST(EncodeStreamTest, OnlyRawAndZstdAreStreamable) {
  const auto is_streamable = [](std::vector<BytesCodecParams> codecs) {
    return Chain{{8}, DType::kUint8, std::move(codecs)}.Make()->is_streamable();
  };
  EXPECT_TRUE(is_streamable({}));
  EXPECT_TRUE(is_streamable({ZstdParams{}}));
  EXPECT_FALSE(is_streamable({BloscParams{}}));
  EXPECT_FALSE(is_streamable({GzipParams{}}));
  EXPECT_FALSE(is_streamable({Crc32cParams{}}));
  EXPECT_FALSE(is_streamable({ZstdParams{}, Crc32cParams{}}));
  EXPECT_FALSE(is_streamable({ZstdParams{}, ZstdParams{}}));
}

TEST(EncodeStreamTest, AFailedWriteEndsTheStream) {
  const Chain chain{{1 << 20}, DType::kUint8, kZstd};
  const std::string content = PatternBytes(1 << 20, 1);
  for (const bool in_place : {false, true}) {
    ChunkElements elements;
    elements.dtype = chain.dtype;
    elements.shape = chain.shape;
    const ConstArrayView view = chain.View(content);
    if (in_place) elements.view = view;
    elements.copy = [&](const Box& box, const ArrayView& target) {
      CopyStrided(Subview(view, box), target);
      return Status();
    };
    CodecContext context;
    int calls = 0;
    const auto codec = chain.Make();
    const Status status = codec->EncodeStream(
        elements, kPieceBytes,
        [&](std::span<const std::string_view>) {
          ++calls;
          return ResourceExhaustedError("disk full");
        },
        context);
    EXPECT_EQ(status.message(), "disk full");
    EXPECT_EQ(calls, 1);
    // The context can still be used.
    EXPECT_TRUE(Join(*codec->Encode(view, context)) == Encoded(chain, view));
  }
}

}  // namespace
}  // namespace holdfast
