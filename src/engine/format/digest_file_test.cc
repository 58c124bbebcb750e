#include "engine/format/digest_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ground/base/crc32c.h"

namespace holdfast {
namespace {

DigestFile Example() {
  return {{{"_METADATA", 1923, 0x89ABCDEF}, {"a\"\n\xC3\xA9", 0, 0}},
          {{"d/7a28", 0, 15141, 0x01234567},
           {"d/7a28", UINT64_MAX, UINT64_MAX, 0xFFFFFFFF}}};
}

// Returns `body` with its checksum appended.
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

TEST(DigestFile, FloatsAreKept) {
  DigestFile digests;
  digests.floats = {0x0123456789ABCDEF, 812, 13200000000};
  const std::string text = SerializeDigestFile(digests);
  EXPECT_EQ(text, Signed("{\"holdfast_digests\":1,\"files\":[],\"values\":[],"
                         "\"floats\":[\"0123456789abcdef\",812,13200000000]"));
  EXPECT_EQ(ParseDigestFile(text)->floats, digests.floats);
  EXPECT_EQ(ParseDigestFile(SerializeDigestFile({}))->floats, std::nullopt);
  for (const char* floats :
       {"[]", "[\"0123456789abcdef\",1]", "[\"0123456789abcde\",1,2]",
        "[\"0123456789abcdeg\",1,2]", "[\"0123456789abcdef\",1,2,3]"}) {
    const std::string bad =
        Signed("{\"holdfast_digests\":1,\"floats\":" + std::string(floats));
    EXPECT_EQ(ParseDigestFile(bad).status().code(), StatusCode::kDataLoss)
        << floats;
  }
}

DigestFile RichExample() {
  DigestFile digests = Example();
  digests.block_bytes = 8192;
  ValueDigest node{"d/03c1", 7, 911, 0x76543210};
  node.kind = RowKind::kNode;
  digests.values.push_back(node);
  digests.values[0].block_crcs = {1, 2};
  digests.values[1].tail = 0x33221100;
  return digests;
}

TEST(DigestFile, TextOfBlocksTailsAndNodesIsFixed) {
  EXPECT_EQ(SerializeDigestFile(RichExample()),
            Signed("{\"holdfast_digests\":1,\"files\":["
                   "[\"_METADATA\",1923,\"89abcdef\"],"
                   "[\"a\\\"\\n\xC3\xA9\",0,\"00000000\"]],\"values\":["
                   "[\"d/7a28\",0,15141,\"01234567\"],"
                   "[\"d/7a28\",18446744073709551615,18446744073709551615,"
                   "\"ffffffff\"]],\"nodes\":[[\"d/03c1\",7,911,\"76543210\"]],"
                   "\"block_bytes\":8192,"
                   "\"blocks\":[[0,\"0000000100000002\"]],"
                   "\"tails\":[[1,\"33221100\"]]"));
}

TEST(DigestFile, BlocksTailsAndNodesReadBack) {
  const auto again = ParseDigestFile(SerializeDigestFile(RichExample()));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->values, RichExample().values);
  EXPECT_EQ(again->block_bytes, 8192u);
}

TEST(DigestFile, MembersMayComeInAnyOrder) {
  const auto digests = ParseDigestFile(
      Signed("{\"tails\":[[0,\"0000000a\"]],\"blocks\":[[0,\"0000000b"
             "0000000c\"]],\"block_bytes\":4,\"values\":[[\"a\",1,5,"
             "\"00000001\"]],\"holdfast_digests\":1"));
  ASSERT_TRUE(digests.ok()) << digests.status().ToString();
  EXPECT_EQ(digests->values[0].tail, 10u);
  EXPECT_EQ(digests->values[0].block_crcs, (std::vector<uint32_t>{11, 12}));
}

TEST(DigestFile, RefusesBlocksAndTailsThatDoNotFit) {
  const std::string value =
      "{\"holdfast_digests\":1,\"values\":[[\"a\",1,5,\"00000001\"],"
      "[\"b\",0,3,\"00000001\"]],\"block_bytes\":4,";
  for (const char* members :
       {"\"blocks\":[[0,\"00000001\"]]", "\"blocks\":[[2,\"\"]]",
        "\"blocks\":[[0,\"000000010000000200000003\"]]",
        "\"blocks\":[[0,\"0000001\"]]", "\"blocks\":[[0]]",
        "\"blocks\":[[0,\"0000000100000002\",1]]",
        "\"tails\":[[1,\"00000001\"]]", "\"tails\":[[2,\"00000001\"]]",
        "\"tails\":[[0,\"0000000100000002\"]]", "\"tails\":[[0,\"\"]]",
        "\"nodes\":[[\"n\",0,3,\"00000001\"]]"}) {
    EXPECT_EQ(ParseDigestFile(Signed(value + members)).status().code(),
              StatusCode::kDataLoss)
        << members;
  }
  for (const char* bytes : {"0", "16777217", "18446744073709551615"}) {
    EXPECT_EQ(ParseDigestFile(Signed(std::string("{\"holdfast_digests\":1,"
                                                 "\"block_bytes\":") +
                                     bytes))
                  .status()
                  .code(),
              StatusCode::kDataLoss)
        << bytes;
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
