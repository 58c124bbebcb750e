#include "formats/codec/blosc_planes.h"

#include <blosc.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "formats/codec/blosc_header.h"
#include "formats/codec/codec_test_util.h"
#include "formats/codec/huffman.h"

namespace holdfast {
namespace {

constexpr size_t kMany = 1 << 20;

std::shared_ptr<const BytesCodec> Planes(size_t item_bytes) {
  return MustMake(BloscParams{"zstd", 1, 1, 0, item_bytes, true}, item_bytes);
}

// Returns the entropy of all items' planes, each plane by itself, which is the
// limit of order-0 coding.
double PlaneEntropyBytes(std::string_view items, size_t item_bytes) {
  double bits = 0;
  for (size_t k = 0; k < item_bytes; ++k) {
    std::string plane;
    for (size_t i = k; i < items.size(); i += item_bytes) plane += items[i];
    bits += EntropyBits(CountBytes(plane));
  }
  return bits / 8;
}

std::string Repeated(std::string_view text, size_t byte_count) {
  std::string result;
  while (result.size() < byte_count) result += text;
  result.resize(byte_count);
  return result;
}

std::string Ramp(size_t byte_count) {
  std::string bytes(byte_count, '\0');
  for (uint32_t i = 0; i < byte_count / 4; ++i) {
    std::memcpy(bytes.data() + 4 * i, &i, sizeof i);
  }
  return bytes;
}

struct Sample {
  const char* name;
  std::string bytes;
};

std::vector<Sample> Samples(size_t byte_count) {
  std::string halves = NormalFloats(byte_count, 5);
  std::fill_n(halves.begin(), byte_count / 2, '\0');
  std::string upcast = NormalFloats(byte_count, 6);
  for (size_t i = 0; i + 4 <= byte_count; i += 4) {
    upcast[i] = upcast[i + 1] = '\0';
  }
  return {{"bf16", NormalBfloat16s(byte_count, 1)},
          {"f32", NormalFloats(byte_count, 2)},
          {"noise", RandomBytes(byte_count, 3)},
          {"zeros", std::string(byte_count, '\0')},
          {"ones", std::string(byte_count, '\xFF')},
          {"pattern", PatternBytes(byte_count, 4)},
          {"half zeros", halves},
          {"upcast bf16", upcast},
          {"rows", Repeated(NormalFloats(5000, 7), byte_count)},
          {"ramp", Ramp(byte_count)}};
}

void ExpectReadByCBlosc(const std::string& encoded, const std::string& want) {
  size_t decoded_bytes = 0;
  ASSERT_EQ(
      blosc_cbuffer_validate(encoded.data(), encoded.size(), &decoded_bytes),
      want.empty() ? -1 : 0);
  if (want.empty()) return;
  std::string decoded(want.size(), '\x55');
  ASSERT_EQ(
      blosc_decompress_ctx(encoded.data(), decoded.data(), decoded.size(), 1),
      static_cast<int>(want.size()));
  ASSERT_TRUE(decoded == want);
}

TEST(BloscPlanesTest, CBloscReadsEveryKindOfItemAndSize) {
  for (size_t item_bytes : {1, 2, 3, 4, 8, 16, 17, 255}) {
    const auto codec = Planes(item_bytes);
    for (size_t byte_count :
         {1, 2, 15, 16, 40, 127, 128, 129, 1000, 4096, 65536, 300007}) {
      for (const Sample& sample : Samples(byte_count)) {
        SCOPED_TRACE(std::string(sample.name) + " " +
                     std::to_string(byte_count) + " items of " +
                     std::to_string(item_bytes));
        const std::string encoded = MustEncode(*codec, sample.bytes);
        ExpectReadByCBlosc(encoded, sample.bytes);
        const auto decoded = TryDecode(*codec, encoded, byte_count);
        ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
        ASSERT_TRUE(*decoded == sample.bytes);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(BloscPlanesTest, SizesAreNearTheEntropyOfThePlanes) {
  struct Want {
    std::string bytes;
    size_t item_bytes;
    double fraction_max;
  };
  for (const Want& want : {Want{NormalBfloat16s(kMany, 1), 2, 0.675},
                           Want{NormalFloats(kMany, 1), 4, 0.84}}) {
    const auto encoded = static_cast<double>(
        MustEncode(*Planes(want.item_bytes), want.bytes).size());
    EXPECT_LT(encoded / kMany, want.fraction_max);
    EXPECT_LT(encoded, 1.015 * PlaneEntropyBytes(want.bytes, want.item_bytes));
  }
}

TEST(BloscPlanesTest, NothingGrowsByMoreThanAThousandth) {
  for (size_t item_bytes : {2, 4, 8, 16}) {
    const std::string noise = RandomBytes(kMany, 3);
    EXPECT_LT(MustEncode(*Planes(item_bytes), noise).size(), 1.001 * kMany);
  }
}

TEST(BloscPlanesTest, WhatRepeatsBecomesSmall) {
  const auto size = [](const std::string& bytes) {
    return MustEncode(*Planes(4), bytes).size();
  };
  EXPECT_LT(size(std::string(kMany, '\0')), 300u);
  EXPECT_LT(size(Repeated(NormalFloats(5000, 7), kMany)), 30000u);
  // Half of the bytes are zeros, which cost next to nothing. The rest costs
  // what it would cost by itself.
  std::string halves = NormalFloats(kMany, 5);
  std::fill_n(halves.begin(), kMany / 2, '\0');
  EXPECT_LT(static_cast<double>(size(halves)), 0.43 * kMany);
  std::string upcast = NormalFloats(kMany, 6);
  for (size_t i = 0; i < kMany; i += 4) upcast[i] = upcast[i + 1] = '\0';
  EXPECT_LT(static_cast<double>(size(upcast)), 0.34 * kMany);
}

TEST(BloscPlanesTest, AFrameOfTheSizeOfItsContentIsMadeLonger) {
  // Tries sizes of noise whose frame could be as large as the block. No such
  // frame may be read as stored bytes.
  const auto codec = Planes(2);
  for (size_t coded_bytes = 0; coded_bytes < 400; ++coded_bytes) {
    std::string bytes = RandomBytes(2048, 9);
    for (size_t i = 0; i < coded_bytes; ++i) bytes[2 * i] = '\x11';
    const std::string encoded = MustEncode(*codec, bytes);
    const size_t at = BloscWord(encoded, kBloscHeaderBytes);
    ASSERT_NE(BloscWord(encoded, at), bytes.size()) << coded_bytes;
    ExpectReadByCBlosc(encoded, bytes);
  }
}

TEST(BloscPlanesTest, EveryChangedByteBehindTheHeaderIsNoticed) {
  const auto codec = Planes(2);
  const std::string bytes = NormalBfloat16s(3000, 4);
  const std::string encoded = MustEncode(*codec, bytes);
  for (size_t at = kBloscHeaderBytes; at < encoded.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = encoded;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      const auto decoded = TryDecode(*codec, changed, bytes.size());
      EXPECT_TRUE(!decoded.ok() || *decoded == bytes) << at << "." << bit;
      std::string by_them(bytes.size(), '\x55');
      const int result = blosc_decompress_ctx(changed.data(), by_them.data(),
                                              by_them.size(), 1);
      EXPECT_TRUE(result < 0 || by_them == bytes) << at << "." << bit;
    }
  }
}

TEST(BloscPlanesTest, DecodesTheBlocksOfARangeAlone) {
  const auto codec = Planes(2);
  const std::string bytes = NormalBfloat16s(kMany, 4);
  std::string encoded = MustEncode(*codec, bytes);
  constexpr size_t kBlockBytes = 2 << 17;
  std::string out(kMany, '\x55');
  CodecContext context;
  ASSERT_TRUE(codec
                  ->DecodeRange(encoded, out,
                                {kBlockBytes + 10, kBlockBytes + 20}, context)
                  .ok());
  EXPECT_EQ(out.substr(0, kBlockBytes), std::string(kBlockBytes, '\x55'));
  EXPECT_TRUE(out.substr(kBlockBytes, kBlockBytes) ==
              bytes.substr(kBlockBytes, kBlockBytes));
  EXPECT_EQ(out.substr(2 * kBlockBytes),
            std::string(kMany - 2 * kBlockBytes, '\x55'));
}

TEST(BloscPlanesTest, ChecksumsAreLeftToWhoeverKnowsTheBytes) {
  const auto codec = Planes(2);
  const std::string bytes = NormalBfloat16s(kMany / 4, 4);
  std::string encoded = MustEncode(*codec, bytes);
  encoded.back() = static_cast<char>(encoded.back() ^ 1);  // of the checksum
  CodecContext context;
  std::string out(bytes.size(), '\x55');
  EXPECT_EQ(codec->Decode(encoded, out, context).code(), StatusCode::kDataLoss);
  context.set_bytes_are_known(true);
  ASSERT_TRUE(codec->Decode(encoded, out, context).ok());
  EXPECT_TRUE(out == bytes);
}

TEST(BloscPlanesTest, TheContextLeavesNoTrace) {
  CodecContext used;
  const auto codec = Planes(2);
  for (unsigned seed : {1u, 2u, 1u}) {
    const std::string bytes = NormalBfloat16s(kMany, seed);
    std::string out(codec->EncodedBytesMax(kMany), '\0');
    out.resize(*codec->Encode(bytes, out, used));
    EXPECT_TRUE(out == MustEncode(*codec, bytes));
  }
}

TEST(BloscPlanesTest, ParametersAreChecked) {
  EXPECT_EQ(
      MakeBytesCodec(BloscParams{"lz4", 1, 1, 0, 2, true}, 2).status().code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(
      MakeBytesCodec(BloscParams{"zstd", 1, 2, 0, 2, true}, 2).status().code(),
      StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
