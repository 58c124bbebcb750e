#include "checkpoint/format/digest_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"

namespace holdfast {
namespace {

DigestFile Example() {
  return {{{"_METADATA", 1923, 0x89ABCDEF}, {"a\"\n\xC3\xA9", 0, 0}},
          {{"d/7a28", 0, 15141, 0x01234567},
           {"d/7a28", UINT64_MAX, UINT64_MAX, 0xFFFFFFFF}}};
}

// `body` with its checksum.
std::string Signed(const std::string& body) {
  char trailer[32];
  snprintf(trailer, sizeof trailer, ",\"crc32c\":\"%08x\"}", Crc32c(body));
  return body + trailer;
}

TEST(DigestFile, TextIsFixed) {
  EXPECT_EQ(SerializeDigestFile(Example()),
            Signed("{\"holdfast_digests\":1,\"files\":["
                   "[\"_METADATA\",1923,\"89abcdef\"],"
                   "[\"a\\\"\\n\xC3\xA9\",0,\"00000000\"]],\"values\":["
                   "[\"d/7a28\",0,15141,\"01234567\"],"
                   "[\"d/7a28\",18446744073709551615,18446744073709551615,"
                   "\"ffffffff\"]]"));
}

TEST(DigestFile, ReadsBack) {
  for (const DigestFile& digests : {Example(), DigestFile()}) {
    const auto again = ParseDigestFile(SerializeDigestFile(digests));
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(again->files, digests.files);
    EXPECT_EQ(again->values, digests.values);
  }
}

TEST(DigestFile, AnyFlippedBitIsFound) {
  const std::string good = SerializeDigestFile(Example());
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1 << bit);
      EXPECT_EQ(ParseDigestFile(bad).status().code(), StatusCode::kDataLoss);
    }
  }
}

TEST(DigestFile, AnyCutIsFound) {
  const std::string good = SerializeDigestFile(Example());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(ParseDigestFile(good.substr(0, size)).status().code(),
              StatusCode::kDataLoss);
  }
}

TEST(DigestFile, RefusesSignedNonsense) {
  for (const char* body :
       {"{\"files\":[]", "{\"holdfast_digests\":\"1\"",
        "{\"holdfast_digests\":1,\"files\":[[\"a\",1]]",
        "{\"holdfast_digests\":1,\"files\":[[\"a\",-1,\"00000000\"]]",
        "{\"holdfast_digests\":1,\"files\":[[\"a\",1,\"0000000g\"]]",
        "{\"holdfast_digests\":1,\"files\":[[\"a\",1,\"00000000\",1]]",
        "{\"holdfast_digests\":1,\"values\":[[\"a\",1,\"00000000\"]]"}) {
    EXPECT_EQ(ParseDigestFile(Signed(body)).status().code(),
              StatusCode::kDataLoss)
        << body;
  }
}

TEST(DigestFile, LaterVersionsAreNotDamage) {
  EXPECT_EQ(ParseDigestFile(Signed("{\"holdfast_digests\":2")).status().code(),
            StatusCode::kUnimplemented);
  EXPECT_TRUE(
      ParseDigestFile(Signed("{\"holdfast_digests\":1,\"more\":[1]")).ok());
}

}  // namespace
}  // namespace holdfast
