#include "engine/format/sharding_file.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/format/golden_for_test.h"

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

TEST(ShardingFile, EndsAtANul) {
  const std::string text = R"({"YQ==":"x"})" + std::string(5, '\0');
  const auto file = ParseShardingFile(text);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->size(), 1u);
  EXPECT_FALSE(ParseShardingFile(std::string(5, '\0')).ok());
}

TEST(ShardingFile, RefusesDamage) {
  for (const char* text :
       {"", "[]", R"({"ag==":1})", R"({"ag=":"x"})", R"({"a+==":"x"})",
        R"({"ag==":"x","ag==":"y"})", R"({"ah==":"x"})", R"({"ag==":"x"}})"}) {
    EXPECT_EQ(ParseShardingFile(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace holdfast
