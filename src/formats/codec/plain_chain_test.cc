#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "formats/codec/codec.h"
#include "formats/codec/codec_test_util.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const ChunkCodec> MustMakeChain(
    const PlainChainParams& params) {
  auto codec = MakePlainChunkCodec(params);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return std::move(codec).value();
}

ConstArrayView ViewOf(DType dtype, const void* data, const Shape& shape) {
  return {dtype, static_cast<const char*>(data), shape,
          ContiguousStrides(shape, DTypeBytes(dtype))};
}

ArrayView MutableViewOf(DType dtype, void* data, const Shape& shape) {
  return {dtype, static_cast<char*>(data), shape,
          ContiguousStrides(shape, DTypeBytes(dtype))};
}

std::string MustEncodeChunk(const PlainChainParams& params,
                            const ConstArrayView& view) {
  CodecContext context;
  const auto chunk = MustMakeChain(params)->Encode(view, context);
  EXPECT_TRUE(chunk.ok()) << chunk.status().ToString();
  return Join(*chunk);
}

// Decodes a complete chunk of a one-dimensional chain.
Status DecodeFlat(const PlainChainParams& params, std::string_view encoded,
                  std::string& out) {
  CodecContext context;
  out.assign(params.chunk_shape[0] * DTypeBytes(params.dtype), '\x55');
  return MustMakeChain(params)->Decode(
      encoded, {0}, MutableViewOf(params.dtype, out.data(), params.chunk_shape),
      context);
}

PlainChainParams Uint8Params(Shape shape) {
  PlainChainParams params;
  params.dtype = DType::kUint8;
  params.chunk_shape = std::move(shape);
  params.fill_element = "#";
  return params;
}

TEST(PlainChainTest, WorkedExample) {
  PlainChainParams params;
  params.dtype = DType::kInt64;
  params.bytes_codecs = {ZstdParams{1, false}};
  params.fill_element = std::string(8, '\0');
  const int64_t seven = 7;
  EXPECT_EQ(MustEncodeChunk(params, ViewOf(DType::kInt64, &seven, {})),
            FromHex("28 b5 2f fd 20 08 41 00 00 07 00 00 00 00 00 00 00"));
}

TEST(PlainChainTest, WithoutCodecsThePieceIsTheCallersMemory) {
  const auto codec = MustMakeChain(Uint8Params({2, 3}));
  CodecContext context;
  const std::string data = "abcdef";
  const auto chunk =
      codec->Encode(ViewOf(DType::kUint8, data.data(), {2, 3}), context);
  ASSERT_TRUE(chunk.ok());
  ASSERT_EQ(chunk->pieces.size(), 1u);
  EXPECT_EQ(chunk->pieces[0].data(), data.data());
  EXPECT_EQ(chunk->pieces[0].size(), 6u);
}

TEST(PlainChainTest, StoredFramesAndDigestsPointAtTheCallersMemory) {
  PlainChainParams params = Uint8Params({1 << 20});
  params.bytes_codecs = {ZstdParams{}, Crc32cParams{}};
  const std::string data = RandomBytes(1 << 20, 1);
  CodecContext context;
  const auto chunk = MustMakeChain(params)->Encode(
      ViewOf(DType::kUint8, data.data(), {1 << 20}), context);
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->pieces[1].data(), data.data());
  EXPECT_TRUE(Join(*chunk) ==
              MustEncode(*MustMake(Crc32cParams{}),
                         MustEncode(*MustMake(ZstdParams{}), data)));
}

TEST(PlainChainTest, PiecesOfCompressedChunksAreTheirOwn) {
  // The scratch of the context is reused, but the first result must stay.
  PlainChainParams params = Uint8Params({1000});
  CodecContext context;
  for (const auto& codecs : std::vector<std::vector<BytesCodecParams>>{
           {}, {ZstdParams{}}, {GzipParams{}, ZstdParams{}, Crc32cParams{}}}) {
    params.bytes_codecs = codecs;
    const auto codec = MustMakeChain(params);
    std::string first = PatternBytes(900, 1);
    const std::string second = PatternBytes(900, 2);
    const auto a =
        codec->Encode(ViewOf(DType::kUint8, first.data(), {900}), context);
    const std::string before = Join(*a);
    const auto b =
        codec->Encode(ViewOf(DType::kUint8, second.data(), {900}), context);
    first.assign(900, '!');
    EXPECT_TRUE(Join(*a) == before);
    EXPECT_TRUE(Join(*b) != before);
  }
}

TEST(PlainChainTest, EdgeChunksArePaddedWithTheFillElement) {
  const std::string data = "abcd";
  EXPECT_EQ(MustEncodeChunk(Uint8Params({3, 3}),
                            ViewOf(DType::kUint8, data.data(), {2, 2})),
            "ab#cd####");
}

TEST(PlainChainTest, PaddingIsByteSwappedToo) {
  PlainChainParams params;
  params.dtype = DType::kInt16;
  params.chunk_shape = {3};
  params.endian = Endian::kBig;
  params.fill_element = FromHex("0201");
  const int16_t value = 0x0304;
  EXPECT_EQ(MustEncodeChunk(params, ViewOf(DType::kInt16, &value, {1})),
            FromHex("0304 0102 0102"));
}

TEST(PlainChainTest, BigEndianComplexSwapsEachHalf) {
  PlainChainParams params;
  params.dtype = DType::kComplex64;
  params.chunk_shape = {1};
  params.endian = Endian::kBig;
  params.fill_element = std::string(8, '\0');
  const std::string data = FromHex("01020304 05060708");
  const std::string encoded =
      MustEncodeChunk(params, ViewOf(DType::kComplex64, data.data(), {1}));
  EXPECT_EQ(encoded, FromHex("04030201 08070605"));
  std::string out;
  ASSERT_TRUE(DecodeFlat(params, encoded, out).ok());
  EXPECT_EQ(out, data);
}

TEST(PlainChainTest, OrderFIsAReversedTranspose) {
  PlainChainParams params = Uint8Params({2, 3});
  params.transposes = {{1, 0}};
  const std::string data = "abcdef";
  EXPECT_EQ(MustEncodeChunk(params, ViewOf(DType::kUint8, data.data(), {2, 3})),
            "adbecf");
}

TEST(PlainChainTest, TransposesApplyFirstToLast) {
  PlainChainParams params = Uint8Params({2, 3, 1});
  params.transposes = {{1, 2, 0}, {2, 0, 1}};  // the second undoes the first
  const std::string data = "abcdef";
  EXPECT_EQ(
      MustEncodeChunk(params, ViewOf(DType::kUint8, data.data(), {2, 3, 1})),
      "abcdef");
  params.transposes = {{1, 2, 0}, {1, 0, 2}};  // shape 3,1,2 then 1,3,2
  EXPECT_EQ(
      MustEncodeChunk(params, ViewOf(DType::kUint8, data.data(), {2, 3, 1})),
      "adbecf");
}

TEST(PlainChainTest, AMatchingFortranViewIsNotCopied) {
  PlainChainParams params = Uint8Params({2, 3});
  params.transposes = {{1, 0}};
  const std::string data = "adbecf";
  CodecContext context;
  const ConstArrayView fortran{DType::kUint8, data.data(), {2, 3}, {1, 2}};
  const auto chunk = MustMakeChain(params)->Encode(fortran, context);
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->pieces[0].data(), data.data());
}

TEST(PlainChainTest, WrongSizesAreDataLoss) {
  PlainChainParams params = Uint8Params({8});
  std::string out;
  for (const auto& codecs :
       std::vector<std::vector<BytesCodecParams>>{{},
                                                  {ZstdParams{}},
                                                  {GzipParams{}},
                                                  {BloscParams{}},
                                                  {Crc32cParams{}}}) {
    params.bytes_codecs = codecs;
    const auto encode = [&](const std::string& data) {
      return codecs.empty() ? data : MustEncode(*MustMake(codecs[0]), data);
    };
    EXPECT_TRUE(DecodeFlat(params, encode("12345678"), out).ok());
    const Status shorter = DecodeFlat(params, encode("1234567"), out);
    EXPECT_EQ(shorter.code(), StatusCode::kDataLoss);
    EXPECT_THAT(shorter.message(), HasSubstr("Not enough data: expected at "
                                             "least 8 or 1 more; at byte 7"));
    const Status longer = DecodeFlat(params, encode("123456789"), out);
    EXPECT_EQ(longer.code(), StatusCode::kDataLoss);
    EXPECT_THAT(longer.message(), HasSubstr("End of data expected"));
  }
}

TEST(PlainChainTest, AnyByteOfABoolButZeroIsTrue) {
  PlainChainParams params = Uint8Params({4});
  params.dtype = DType::kBool;
  params.fill_element = std::string(1, '\0');
  for (bool compressed : {false, true}) {
    params.bytes_codecs.clear();
    if (compressed) params.bytes_codecs = {ZstdParams{}};
    const std::string data = FromHex("01 00 01 02");
    const std::string encoded =
        compressed ? MustEncode(*MustMake(ZstdParams{}), data) : data;
    std::string out;
    const Status decoded = DecodeFlat(params, encoded, out);
    EXPECT_TRUE(decoded.ok()) << decoded.ToString();
    EXPECT_EQ(out, FromHex("01 00 01 01"));
    char part[2];
    CodecContext context;
    EXPECT_TRUE(MustMakeChain(params)
                    ->Decode(encoded, {2},
                             MutableViewOf(DType::kBool, part, {2}), context)
                    .ok());
    EXPECT_EQ(std::string_view(part, 2), FromHex("01 01"));
  }
}

TEST(PlainChainTest, UnusedBitsAreClearedOnDecode) {
  PlainChainParams params = Uint8Params({4});
  params.dtype = DType::kInt4;
  for (bool compressed : {false, true}) {
    params.bytes_codecs.clear();
    if (compressed) params.bytes_codecs = {ZstdParams{}};
    const std::string data = FromHex("f8 08 77 10");
    const std::string encoded =
        compressed ? MustEncode(*MustMake(ZstdParams{}), data) : data;
    std::string out;
    ASSERT_TRUE(DecodeFlat(params, encoded, out).ok());
    EXPECT_EQ(out, FromHex("08 08 07 00"));
    std::string part(2, '\x55');
    CodecContext context;
    ASSERT_TRUE(MustMakeChain(params)
                    ->Decode(encoded, {2},
                             MutableViewOf(DType::kInt4, part.data(), {2}),
                             context)
                    .ok());
    EXPECT_EQ(part, FromHex("07 00"));
  }
}

TEST(PlainChainTest, BadParametersAreNamed) {
  const auto error = [](const PlainChainParams& params) {
    const auto codec = MakePlainChunkCodec(params);
    return codec.ok() ? std::string("OK") : codec.status().ToString();
  };
  PlainChainParams params = Uint8Params({2, 3});
  for (const std::vector<int>& order :
       std::vector<std::vector<int>>{{0}, {0, 0}, {0, 2}, {-1, 0}, {0, 1, 2}}) {
    params.transposes = {order};
    EXPECT_THAT(
        error(params),
        HasSubstr("INVALID_ARGUMENT: transpose order: not a permutation "
                  "of 2 dimensions"));
  }
  EXPECT_THAT(error(Uint8Params({0})), HasSubstr("extent below 1"));
  EXPECT_THAT(error(Uint8Params(Shape(33, 1))), HasSubstr("rank too large"));
  EXPECT_EQ(error(Uint8Params({int64_t{1} << 62})), "OK");
  EXPECT_THAT(error(Uint8Params({int64_t{1} << 62, 2})),
              HasSubstr("product too large"));
  params = Uint8Params({2});
  params.fill_element = "ab";
  EXPECT_THAT(error(params), HasSubstr("fill element: wrong size (got 2"));
  params = Uint8Params({2});
  params.bytes_codecs = {ZstdParams{23}};
  EXPECT_THAT(error(params), HasSubstr("zstd level"));
}

TEST(PlainChainTest, HugeChunksAreRefusedWithoutTakingMemory) {
  PlainChainParams params = Uint8Params({int64_t{1} << 62});
  params.bytes_codecs = {ZstdParams{}};
  const auto codec = MustMakeChain(params);
  CodecContext context;
  char element = 0;
  const std::string frame = MustEncode(*MustMake(ZstdParams{}), "12345678");
  EXPECT_EQ(codec
                ->Decode(frame, {0},
                         MutableViewOf(DType::kUint8, &element, {1}), context)
                .code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(codec->Encode(ViewOf(DType::kUint8, &element, {1}), context)
                .status()
                .code(),
            StatusCode::kResourceExhausted);
}

// --- The chain compared with its slow reference, for random parameters. ------

int64_t Offset(const Shape& index, const Shape& strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

// Calls fn(index) for each index of `shape` in C order.
template <typename Fn>
void ForEachIndex(const Shape& shape, const Fn& fn) {
  Shape index(shape.size(), 0);
  const int64_t count = ElementCount(shape);
  for (int64_t i = 0; i < count; ++i) {
    fn(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

std::string ElementAt(const PlainChainParams& params,
                      const ConstArrayView& view, const Shape& index) {
  const size_t item_bytes = DTypeBytes(params.dtype);
  bool inside = true;
  for (size_t d = 0; d < index.size(); ++d) inside &= index[d] < view.shape[d];
  std::string element =
      inside ? std::string(view.data + Offset(index, view.strides), item_bytes)
             : params.fill_element;
  if (params.endian == Endian::kLittle) return element;
  const bool is_complex = DTypeKindOf(params.dtype) == DTypeKind::kComplex;
  const auto half = element.begin() + (is_complex ? item_bytes / 2 : 0);
  std::reverse(element.begin(), half);
  std::reverse(half, element.end());
  return element;
}

// Encodes by the definition, element by element: walks the encoded shape in C
// order, and finds each element through the transposes, last to first.
std::string SlowEncode(const PlainChainParams& params,
                       const ConstArrayView& view) {
  Shape shape = params.chunk_shape;
  for (const auto& order : params.transposes) {
    Shape next;
    for (int dimension : order) next.push_back(shape[dimension]);
    shape = next;
  }
  std::string encoded;
  ForEachIndex(shape, [&](Shape index) {
    for (size_t t = params.transposes.size(); t-- > 0;) {
      Shape decoded(index.size());
      for (size_t i = 0; i < index.size(); ++i) {
        decoded[params.transposes[t][i]] = index[i];
      }
      index = decoded;
    }
    encoded += ElementAt(params, view, index);
  });
  for (const auto& codec : params.bytes_codecs) {
    encoded = MustEncode(*MustMake(codec, DTypeBytes(params.dtype)), encoded);
  }
  return encoded;
}

class ChainTwinTest : public ::testing::TestWithParam<int> {
 protected:
  int Pick(int below) { return static_cast<int>(random_() % below); }

  PlainChainParams RandomParams() {
    const DType dtypes[] = {DType::kUint8,     DType::kBfloat16,
                            DType::kFloat32,   DType::kInt64,
                            DType::kComplex64, DType::kComplex128};
    PlainChainParams params;
    params.dtype = dtypes[Pick(6)];
    const int rank = Pick(5);
    for (int d = 0; d < rank; ++d) params.chunk_shape.push_back(1 + Pick(6));
    for (int t = Pick(3); t > 0; --t) {
      std::vector<int> order(rank);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      params.transposes.push_back(order);
    }
    params.endian = Pick(2) ? Endian::kBig : Endian::kLittle;
    const BytesCodecParams codecs[] = {ZstdParams{}, GzipParams{},
                                       BloscParams{}, Crc32cParams{}};
    for (int c = Pick(4); c > 0; --c) {
      params.bytes_codecs.push_back(codecs[Pick(4)]);
    }
    params.fill_element = RandomBytes(DTypeBytes(params.dtype), Pick(1000));
    return params;
  }

  // Returns the shape of a box inside a chunk. Sets `origin` to the box's
  // origin.
  Shape RandomPart(const Shape& shape, Shape& origin) {
    Shape part;
    origin.clear();
    for (int64_t extent : shape) {
      part.push_back(1 + Pick(static_cast<int>(extent)));
      origin.push_back(Pick(static_cast<int>(extent - part.back() + 1)));
    }
    return part;
  }

  std::mt19937 random_{static_cast<uint32_t>(GetParam())};
};

TEST_P(ChainTwinTest, EncodesAndDecodesAsTheDefinitionSays) {
  CodecContext context;
  for (int round = 0; round < 100; ++round) {
    const PlainChainParams params = RandomParams();
    const size_t item_bytes = DTypeBytes(params.dtype);
    const auto codec = MustMakeChain(params);
    Shape unused;
    const Shape valid =
        Pick(2) ? params.chunk_shape : RandomPart(params.chunk_shape, unused);
    const std::string data =
        RandomBytes(ElementCount(valid) * item_bytes, Pick(1000));
    const ConstArrayView view = ViewOf(params.dtype, data.data(), valid);

    const auto chunk = codec->Encode(view, context);
    ASSERT_TRUE(chunk.ok()) << chunk.status().ToString();
    const std::string encoded = Join(*chunk);
    ASSERT_EQ(encoded, SlowEncode(params, view));

    Shape origin;
    const Shape part = RandomPart(valid, origin);
    std::string out(ElementCount(part) * item_bytes, '\x55');
    const ArrayView target = MutableViewOf(params.dtype, out.data(), part);
    const Status status = codec->Decode(encoded, origin, target, context);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ForEachIndex(part, [&](Shape index) {
      const char* got = out.data() + Offset(index, target.strides);
      for (size_t d = 0; d < index.size(); ++d) index[d] += origin[d];
      const char* want = data.data() + Offset(index, view.strides);
      ASSERT_EQ(std::memcmp(got, want, item_bytes), 0);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChainTwinTest, ::testing::Range(0, 8));

}  // namespace
}  // namespace holdfast
