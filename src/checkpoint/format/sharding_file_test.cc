#include "checkpoint/format/sharding_file.h"

#include <gtest/gtest.h>

#include <random>

#include "checkpoint/format/golden_for_test.h"

namespace holdfast {
namespace {

TEST(ShardingFile, IsWrittenAgainByteForByte) {
  for (const char* name : {"sharded", "keys_odd"}) {
    const std::string text = FormatGolden(std::string(name) + "/_sharding");
    const auto shardings = ParseShardingFile(text);
    ASSERT_TRUE(shardings.ok()) << shardings.status().ToString();
    EXPECT_EQ(SerializeShardingFile(*shardings), text);
  }
}

TEST(ShardingFile, ReadsNamesAndTexts) {
  const auto shardings = ParseShardingFile(FormatGolden("sharded/_sharding"));
  ASSERT_TRUE(shardings.ok());
  const auto entry = shardings->find("dev.1");
  ASSERT_NE(entry, shardings->end());
  EXPECT_EQ(entry->second, R"({"sharding_type": "SingleDeviceSharding", )"
                           R"("device_str": "cpu:4"})");
}

TEST(ShardingFile, ABareLeafHasTheEmptyName) {
  EXPECT_EQ(SerializeShardingFile({{"", "{}"}}), R"({"":"{}"})");
  EXPECT_EQ(SerializeShardingFile({}), "{}");
  const auto shardings = ParseShardingFile(R"({"":"{}"})");
  ASSERT_TRUE(shardings.ok());
  EXPECT_EQ(shardings->count(""), 1u);
}

TEST(ShardingFile, RefusesDamage) {
  for (const char* text :
       {"", "[]", R"({"ag==":1})", R"({"ag=":"x"})", R"({"a+==":"x"})",
        R"({"ag==":"x","ag==":"y"})", R"({"ah==":"x"})", R"({"ag==":"x"}})"}) {
    EXPECT_EQ(ParseShardingFile(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

TEST(UrlSafeBase64, MatchesTheExamplesOfRfc4648) {
  EXPECT_EQ(UrlSafeBase64Encode(""), "");
  EXPECT_EQ(UrlSafeBase64Encode("f"), "Zg==");
  EXPECT_EQ(UrlSafeBase64Encode("fo"), "Zm8=");
  EXPECT_EQ(UrlSafeBase64Encode("foo"), "Zm9v");
  EXPECT_EQ(UrlSafeBase64Encode("foobar"), "Zm9vYmFy");
  EXPECT_EQ(UrlSafeBase64Encode("\xFB\xFF"), "-_8=");
}

TEST(UrlSafeBase64, ReadsBackAndIsStrict) {
  std::mt19937 random(2);
  for (int size = 0; size < 50; ++size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(random());
    EXPECT_EQ(UrlSafeBase64Decode(UrlSafeBase64Encode(bytes)), bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Zg=a",
                          "====", "Zg\n=", "Z===", "Zm9vYg==="}) {
    EXPECT_EQ(UrlSafeBase64Decode(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace holdfast
