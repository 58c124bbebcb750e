#include "formats/ocdbt/format/envelope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ground/base/coding.h"
#include "ground/base/crc32c.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::HasSubstr;

constexpr ObjectKind kKind = ObjectKind::kBtreeNode;

std::string Seal(std::string_view body, bool zstd) {
  const auto object = SealEnvelope(kKind, body, {.zstd = zstd});
  EXPECT_TRUE(object.ok());
  return object->ToString();
}

// Corrects length and checksum after a change.
std::string Reseal(std::string object) {
  StoreLittle<uint64_t>(object.data() + 4, object.size());
  const uint32_t crc =
      Crc32c(std::string_view(object).substr(0, object.size() - 4));
  StoreLittle<uint32_t>(object.data() + object.size() - 4, crc);
  return object;
}

Status Open(std::string object) {
  const auto opened = OpenEnvelope(Bytes(std::move(object)), kKind);
  return opened.ok() ? Status() : opened.status();
}

TEST(EnvelopeTest, RoundTrips) {
  for (const bool zstd : {false, true}) {
    for (const std::string& body : {std::string(), std::string(5000, 'b')}) {
      const auto opened = OpenEnvelope(Bytes(Seal(body, zstd)), kKind);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      EXPECT_EQ(opened->body.view(), body);
      EXPECT_EQ(opened->body_offset, zstd ? 0u : 14u);
      EXPECT_EQ(opened->unread_byte_count, 0u);
    }
  }
}

TEST(EnvelopeTest, HasDocumentedLayout) {
  const std::string object = Seal("body", false);
  EXPECT_EQ(object.substr(0, 14),
            std::string("\x0c\xdb\x20\xde\x16\0\0\0\0\0\0\0\0\0", 14));
  EXPECT_EQ(object.substr(14, 4), "body");
  EXPECT_EQ(object, Reseal(object));
}

TEST(EnvelopeTest, RefusesShortObject) {
  EXPECT_EQ(Open(std::string(15, '\0')).ToString(),
            "DATA_LOSS: Encoded length (15) is less than minimum length (16)");
}

TEST(EnvelopeTest, RefusesOtherMagic) {
  const auto opened =
      OpenEnvelope(Bytes(Seal("body", false)), ObjectKind::kManifest);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().ToString(),
            "DATA_LOSS: Expected to start with hex bytes 0cdb3a2a but "
            "received: 0x0cdb20de");
}

TEST(EnvelopeTest, RefusesOtherLength) {
  EXPECT_EQ(Open(Seal("body", false) + "x").ToString(),
            "DATA_LOSS: Length in header (22) does not match actual length "
            "(23); at byte 12");
}

TEST(EnvelopeTest, RefusesEverySingleBitChange) {
  const std::string good = Seal("some body", true);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(Open(bad).code(), StatusCode::kDataLoss) << bit;
  }
}

TEST(EnvelopeTest, ChecksumComesBeforeTheBody) {
  std::string bad = Seal(std::string(5000, 'b'), true);
  bad[20] = static_cast<char>(bad[20] ^ 1);
  EXPECT_THAT(Open(bad).ToString(),
              HasSubstr("CRC-32C checksum verification failed: expected="));
}

TEST(EnvelopeTest, RefusesVersionAndCompression) {
  std::string bad = Seal("body", false);
  bad[12] = 1;
  EXPECT_EQ(Open(Reseal(bad)).ToString(),
            "DATA_LOSS: Maximum supported version is 0 but received: 1; at "
            "byte 13");
  bad[12] = 0;
  bad[13] = 2;
  EXPECT_EQ(Open(Reseal(bad)).ToString(),
            "DATA_LOSS: Unsupported compression format: 2; at byte 14");
}

TEST(EnvelopeTest, AcceptsOverlongVarints) {
  std::string object = Seal("body", false);
  object.replace(12, 2, std::string("\x80\x00\x80\x80\x00", 5));
  const auto opened = OpenEnvelope(Bytes(Reseal(object)), kKind);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->body.view(), "body");
}

TEST(EnvelopeTest, RefusesVarintsThatAreTooWideOrCutOff) {
  std::string object = Seal("body", false);
  object.replace(12, 1, "\xff\xff\xff\xff\x10");
  EXPECT_THAT(Open(Reseal(object)).ToString(),
              HasSubstr("DATA_LOSS: Invalid 32-bit varint value; at byte 12"));
  EXPECT_THAT(Open(Reseal(Seal("", false).replace(13, 1, "\x80"))).ToString(),
              HasSubstr("DATA_LOSS: Unexpected end of data; at byte 13"));
}

TEST(EnvelopeTest, LimitsBodySize) {
  for (const bool zstd : {false, true}) {
    const Bytes object(Seal(std::string(1000, 'b'), zstd));
    EXPECT_TRUE(
        OpenEnvelope(object, kKind, {.decompressed_bytes_max = 1000}).ok());
    const auto refused =
        OpenEnvelope(object, kKind, {.decompressed_bytes_max = 999});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().ToString(),
              "DATA_LOSS: Decompressed size exceeds limit of 999 bytes");
  }
}

}  // namespace
}  // namespace holdfast::ocdbt
