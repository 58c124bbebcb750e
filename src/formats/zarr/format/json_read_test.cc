#include "formats/zarr/format/json_read.h"

#include <gtest/gtest.h>

#include <limits>

namespace holdfast::zarr {
namespace {

Result<Json> Parse(std::string_view text) {
  return ParseJson(text, StatusCode::kDataLoss);
}

TEST(JsonReadTest, ParseJson) {
  EXPECT_EQ(*Parse("\xef\xbb\xbf [1]\n"), Json({1}));
  EXPECT_EQ(*Parse(R"({"a":1,"a":2})"), Json({{"a", 2}}));
  for (std::string_view bad :
       {std::string_view(""), std::string_view("{"), std::string_view("[1]x"),
        std::string_view("NaN"), std::string_view("/**/1"),
        std::string_view("\"\xff\""), std::string_view("1\0", 2),
        std::string_view("1e400")}) {
    EXPECT_EQ(Parse(bad).status().code(), StatusCode::kDataLoss) << bad;
  }
}

TEST(JsonReadTest, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(Parse(nested(kJsonDepthMax)).ok());
  EXPECT_EQ(Parse(nested(kJsonDepthMax + 1)).status().code(),
            StatusCode::kDataLoss);
  // Brackets in strings do not count, and escaped quotes do not end a string.
  EXPECT_TRUE(Parse("\"\\\"" + nested(100) + "\"").ok());
}

TEST(JsonReadTest, Integers) {
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  const auto read = [&](const char* text) {
    const Json json = Json::parse(text);
    return ReadInt(&json, low, high);
  };
  EXPECT_EQ(*read("3.0"), 3);
  EXPECT_EQ(*read("-0.0"), 0);
  EXPECT_EQ(*read("1e3"), 1000);
  EXPECT_EQ(*read("9223372036854775807"), high);
  EXPECT_EQ(*read("-9223372036854775808"), low);
  EXPECT_EQ(*read("-9.223372036854775808e18"), low);
  for (const char* bad : {"3.5", "9223372036854775808", "1e300", "-1e300",
                          "9.3e18", "true", "\"3\"", "null", "[3]"}) {
    EXPECT_EQ(read(bad).status().code(), StatusCode::kFailedPrecondition)
        << bad;
  }
  const Json three = 3;
  EXPECT_TRUE(ReadInt(&three, 3, 3).ok());
  EXPECT_FALSE(ReadInt(&three, 4, 9).ok());
  EXPECT_FALSE(ReadInt(&three, 0, 2).ok());
}

TEST(JsonReadTest, Shapes) {
  const Json good = {3, 4.0};
  EXPECT_EQ(*ReadShape(&good, 0), (Shape{3, 4}));
  EXPECT_EQ(ReadShape(&good, 0, 1).status().message(),
            "Array has length 2 but should have length 1");
  const Json zero = {1, 0};
  EXPECT_EQ(ReadShape(&zero, 1).status().message(),
            "Error parsing value at position 1: Expected integer in the range "
            "[1, 9223372036854775806], but received: 0");
  const Json big(std::vector<int>(33, 1));
  EXPECT_EQ(ReadShape(&big, 1).status().message(),
            "Rank 33 is outside valid range [0, 32]");
  EXPECT_EQ(ReadShape(nullptr, 0).status().message(),
            "Expected array, but member is missing");
}

TEST(JsonReadTest, DumpRefusesBadUtf8) {
  EXPECT_EQ(*DumpJson({{"b", 1.0}, {"a", -0.0}}), R"({"a":-0.0,"b":1.0})");
  EXPECT_EQ(DumpJson("\xff").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::zarr
