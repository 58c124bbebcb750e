#include "formats/ocdbt/format/config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "formats/ocdbt/format/hex_test_util.h"

namespace holdfast::ocdbt {
namespace {

// uuid, kind, inline 100, node 8388608, arity 4, zstd level 0.
constexpr char kDefaults[] =
    "000102030405060708090a0b0c0d0e0f 00 64 80808004 04 01 00000000";

Result<Config> DecodeWhole(std::string_view bytes) {
  BodyReader reader(bytes, 0);
  return ReadConfig(reader);
}

std::string Encode(const Config& config) {
  BodyWriter writer(kConfigBytesMax);
  WriteConfig(config, writer);
  return std::string(writer.view());
}

std::string WithByte(size_t offset, uint8_t byte) {
  std::string bytes = FromHex(kDefaults);
  bytes[offset] = static_cast<char>(byte);
  return bytes;
}

TEST(ConfigTest, DefaultsHaveDocumentedBytes) {
  Config config;
  for (size_t i = 0; i < 16; ++i) config.uuid[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(Encode(config), FromHex(kDefaults));
  const auto decoded = DecodeWhole(FromHex(kDefaults));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, config);
}

TEST(ConfigTest, RoundTripsExtremes) {
  Config config;
  config.manifest_kind = ManifestKind::kNumbered;
  config.max_inline_value_bytes = 0xffffffff;
  config.max_decoded_node_bytes = 0;
  config.version_tree_arity_log2 = 16;
  for (const Compression& compression :
       {Compression{false, 0}, Compression{true, -131072},
        Compression{true, 22}}) {
    config.compression = compression;
    const auto decoded = DecodeWhole(Encode(config));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, config);
  }
}

TEST(ConfigTest, RefusesValuesOutOfRange) {
  const std::pair<std::string, std::string> cases[] = {
      {WithByte(16, 2), "DATA_LOSS: Invalid manifest_kind 2; at byte 17"},
      // The kind is one byte, not a varint.
      {WithByte(16, 0x80), "DATA_LOSS: Invalid manifest_kind 128; at byte 17"},
      {WithByte(22, 0),
       "INVALID_ARGUMENT: Expected version_tree_arity_log2 in range [1, 16] "
       "but received: 0; at byte 23"},
      {WithByte(22, 17),
       "INVALID_ARGUMENT: Expected version_tree_arity_log2 in range [1, 16] "
       "but received: 17; at byte 23"},
      {WithByte(23, 2),
       "INVALID_ARGUMENT: Invalid compression method: 2; at byte 24"},
      {WithByte(24, 23),
       "INVALID_ARGUMENT: Zstd compression level 23 is outside valid range "
       "[-131072, 22]; at byte 28"},
      {FromHex(kDefaults).substr(0, 24) + FromHex("fffffdff"),
       "INVALID_ARGUMENT: Zstd compression level -131073 is outside valid "
       "range [-131072, 22]; at byte 28"},
      {FromHex(kDefaults).replace(17, 1, FromHex("ffffffff1f")),
       "DATA_LOSS: Invalid 32-bit varint value; at byte 17"},
  };
  for (const auto& [bytes, want] : cases) {
    const auto decoded = DecodeWhole(bytes);
    ASSERT_FALSE(decoded.ok()) << want;
    EXPECT_EQ(decoded.status().ToString(), want);
  }
}

TEST(ConfigTest, RefusesTruncationEverywhere) {
  const std::string bytes = FromHex(kDefaults);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = DecodeWhole(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss);
  }
}

TEST(ConfigTest, NamesFirstMemberThatDiffers) {
  const Config base;
  Config other = base;
  other.manifest_kind = ManifestKind::kNumbered;
  EXPECT_TRUE(CheckSameConfig(base, other).ok());
  other.compression = {false, 0};
  EXPECT_EQ(CheckSameConfig(base, other).ToString(),
            "FAILED_PRECONDITION: Configuration mismatch on compression: "
            "expected {\"id\":\"zstd\",\"level\":0} but received null");
  other.max_inline_value_bytes = 7;
  EXPECT_EQ(CheckSameConfig(base, other).ToString(),
            "FAILED_PRECONDITION: Configuration mismatch on "
            "max_inline_value_bytes: expected 100 but received 7");
  other.uuid[0] = 0xab;
  EXPECT_EQ(CheckSameConfig(base, other).ToString(),
            "FAILED_PRECONDITION: Configuration mismatch on uuid: expected "
            "\"00000000000000000000000000000000\" but received "
            "\"ab000000000000000000000000000000\"");
}

}  // namespace
}  // namespace holdfast::ocdbt
