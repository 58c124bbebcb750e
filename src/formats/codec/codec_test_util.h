// Data and shortcuts for the tests of this folder.
// Thread-safety: pure functions. Units: bytes.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/codec.h"

namespace holdfast {

inline std::string RandomBytes(size_t byte_count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(byte_count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Returns short runs and repeats, which every compressor can shrink.
inline std::string PatternBytes(size_t byte_count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes;
  bytes.reserve(byte_count + 40);
  while (bytes.size() < byte_count) {
    bytes.append(1 + random() % 40, static_cast<char>('a' + random() % 6));
  }
  bytes.resize(byte_count);
  return bytes;
}

// Returns float32 weights from N(0, 0.02). NormalBfloat16s truncates them
// instead of rounding, which makes no difference to a compressor.
inline std::string NormalFloats(size_t byte_count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  std::string bytes(byte_count, '\0');
  for (size_t i = 0; i + 4 <= byte_count; i += 4) {
    const float value = normal(random);
    std::memcpy(bytes.data() + i, &value, 4);
  }
  return bytes;
}

inline std::string NormalBfloat16s(size_t byte_count, uint32_t seed) {
  const std::string floats = NormalFloats(2 * byte_count, seed);
  std::string bytes(byte_count, '\0');
  for (size_t i = 0; i + 2 <= byte_count; i += 2) {
    std::memcpy(bytes.data() + i, floats.data() + 2 * i + 2, 2);
  }
  return bytes;
}

inline std::shared_ptr<const BytesCodec> MustMake(
    const BytesCodecParams& params, size_t item_bytes = 1) {
  auto codec = MakeBytesCodec(params, item_bytes);
  EXPECT_TRUE(codec.ok()) << codec.status().ToString();
  return std::move(codec).value();
}

inline std::string MustEncode(const BytesCodec& codec, std::string_view in) {
  CodecContext context;
  std::string out(codec.EncodedBytesMax(in.size()), '\x55');
  const Result<size_t> encoded_bytes = codec.Encode(in, out, context);
  EXPECT_TRUE(encoded_bytes.ok()) << encoded_bytes.status().ToString();
  out.resize(*encoded_bytes);
  return out;
}

// Decodes to exactly `decoded_bytes` bytes, on the heap so that a sanitizer
// sees any access beyond them.
inline Result<std::string> TryDecode(const BytesCodec& codec,
                                     std::string_view in,
                                     size_t decoded_bytes) {
  CodecContext context;
  std::vector<char> source(in.begin(), in.end());
  source.shrink_to_fit();
  std::vector<char> out(decoded_bytes, '\x55');
  const Status status =
      codec.Decode({source.data(), source.size()}, out, context);
  if (!status.ok()) return status;
  return std::string(out.begin(), out.end());
}

inline StatusCode DecodeCode(const BytesCodec& codec, std::string_view in,
                             size_t decoded_bytes) {
  const auto decoded = TryDecode(codec, in, decoded_bytes);
  return decoded.ok() ? StatusCode::kOk : decoded.status().code();
}

inline std::string Join(const EncodedChunk& chunk) {
  std::string joined;
  for (const std::string_view piece : chunk.pieces) joined += piece;
  EXPECT_EQ(joined.size(), chunk.byte_count);
  return joined;
}

// Parses hex such as "28b52ffd"; spaces are skipped.
inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  std::string digits;
  for (char c : hex) {
    if (c != ' ') digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

// Encodes and decodes several kinds of data at the given sizes.
inline void ExpectRoundTrips(const BytesCodec& codec,
                             const std::vector<size_t>& sizes) {
  for (size_t size : sizes) {
    for (const std::string& data :
         {std::string(size, '\0'), RandomBytes(size, 1), PatternBytes(size, 2),
          NormalFloats(size, 3), NormalBfloat16s(size, 4)}) {
      const std::string encoded = MustEncode(codec, data);
      const auto decoded = TryDecode(codec, encoded, size);
      ASSERT_TRUE(decoded.ok())
          << size << " bytes: " << decoded.status().ToString();
      ASSERT_TRUE(*decoded == data) << size << " bytes";
      CodecContext context;
      const auto bounded = codec.DecodeBounded(encoded, size + 100, context);
      ASSERT_TRUE(bounded.ok()) << bounded.status().ToString();
      ASSERT_TRUE(bounded->view() == data) << size << " bytes";
      ASSERT_GE(codec.DecodedBytesMax(encoded), size);
    }
  }
}

inline const std::vector<size_t> kSmallSizes = {
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 255, 256, 1000, 4099};

}  // namespace holdfast
