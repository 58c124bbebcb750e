#include "ground/json/scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ground/json/text.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

std::string Message(const Status& status) {
  return std::string(status.message());
}

TEST(JsonScanner, ReadsMembersInOrder) {
  JsonScanner in(R"( {"n" : -12, "t": true, "skip": [1, {"x": "]"}, null],
                      "\u0073": "a\"\u00e9\ud835\udd18\n"} )");
  int64_t n = 0;
  bool flag = false;
  std::string text;
  ASSERT_TRUE(in.ReadObject([&](std::string_view key) {
                  if (key == "n") return in.ReadInt64(n);
                  if (key == "t") return in.ReadBool(flag);
                  if (key == "s") return in.ReadString(text);
                  return in.SkipValue();
                }).ok());
  EXPECT_TRUE(in.ReadEnd().ok());
  EXPECT_EQ(n, -12);
  EXPECT_TRUE(flag);
  EXPECT_EQ(text, "a\"\xC3\xA9\xF0\x9D\x94\x98\n");
}

TEST(JsonScanner, ErrorsNameMemberAndOffset) {
  JsonScanner in(R"({"outer": {"inner": "text"}})");
  bool flag = false;
  const Status status = in.ReadObject([&](std::string_view) {
    return in.ReadObject([&](std::string_view) { return in.ReadBool(flag); });
  });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(Message(status),
            "outer: inner: offset 20: wrong type (got a string, want a bool)");
}

TEST(JsonScanner, RefusesBadText) {
  for (const char* bad : {"",
                          "{",
                          "[1",
                          "[1,]",
                          "[,1]",
                          "{\"a\"}",
                          "{\"a\":}",
                          "{a:1}",
                          "{\"a\":1,}",
                          "\"",
                          "\"\\",
                          "\"\\x\"",
                          "\"\\u12g4\"",
                          "\"\\u12\"",
                          "\"\\ud800\"",
                          "\"\\udc00\"",
                          "\"\\ud800\\u0041\"",
                          "\"\x01\"",
                          "\"\\n\x01\"",
                          "\"\xFF\"",
                          "\"\\n\xFF\"",
                          "01",
                          "1.",
                          ".5",
                          "1e",
                          "-",
                          "+1",
                          "nul",
                          "True",
                          "NaNa",
                          "1 2",
                          "-Infinit",
                          "'a'"}) {
    EXPECT_EQ(ParseJsonText(bad).status().code(), StatusCode::kDataLoss) << bad;
  }
}

TEST(JsonScanner, EveryCutOfAGoodTextIsRefused) {
  const std::string text =
      R"({"a": [1, -2.5e3, "x\u00e9\ud835\udd18"], "b": {"c": null}})";
  EXPECT_TRUE(ParseJsonText(text).ok());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(ParseJsonText(text.substr(0, size)).status().code(),
              StatusCode::kDataLoss);
  }
}

TEST(JsonScanner, IntegersKeepTheirRange) {
  int64_t value = 0;
  EXPECT_TRUE(JsonScanner("-9223372036854775808").ReadInt64(value).ok());
  EXPECT_EQ(value, INT64_MIN);
  EXPECT_FALSE(JsonScanner("9223372036854775808").ReadInt64(value).ok());
  EXPECT_FALSE(JsonScanner("1.0").ReadInt64(value).ok());
  EXPECT_FALSE(JsonScanner("true").ReadInt64(value).ok());
  uint64_t large = 0;
  EXPECT_TRUE(JsonScanner("18446744073709551615").ReadUint64(large).ok());
  EXPECT_EQ(large, UINT64_MAX);
  EXPECT_FALSE(JsonScanner("18446744073709551616").ReadUint64(large).ok());
  EXPECT_FALSE(JsonScanner("-1").ReadUint64(large).ok());
}

TEST(JsonScanner, DocumentsFollowPython) {
  const auto value = ParseJsonText(
      R"({"b": [NaN, Infinity, -Infinity, 1e400, 1E2], "a": 1, "a": 2,
          "u": 18446744073709551615, "i": -5})");
  ASSERT_TRUE(value.ok()) << value.status().ToString();
  EXPECT_TRUE(std::isnan((*value)["b"][0].get<double>()));
  EXPECT_EQ((*value)["b"][1], INFINITY);
  EXPECT_EQ((*value)["b"][2], -INFINITY);
  EXPECT_EQ((*value)["b"][3], INFINITY);
  EXPECT_EQ((*value)["b"][4], 100.0);
  EXPECT_EQ((*value)["a"], 2);
  EXPECT_EQ((*value)["u"], UINT64_MAX);
  EXPECT_EQ((*value)["i"], -5);
  EXPECT_EQ(value->begin().key(), "b");
}

// A program gets back exactly the number that it saved.
TEST(JsonScanner, IntegersBeyond64BitsKeepTheirDigits) {
  const std::string text =
      R"({"a": 340282366920938463463374607431768211456, "b": [-9223372036854775809]})";
  const auto value = ParseJsonText(text);
  ASSERT_TRUE(value.ok()) << value.status().ToString();
  EXPECT_EQ(PythonJsonText(*value), text);
  EXPECT_EQ(DigitsOfBigInteger((*value)["b"][0]), "-9223372036854775809");
  EXPECT_EQ(DigitsOfBigInteger((*value)["b"]), std::nullopt);
}

TEST(JsonScanner, BoundsTheDepth) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJsonText(nested(kJsonDepthMax)).ok());
  const Status status = ParseJsonText(nested(kJsonDepthMax + 1)).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(Message(status), HasSubstr("too deep"));
  EXPECT_FALSE(ParseJsonText(std::string(1000000, '[')).ok());
  EXPECT_FALSE(JsonScanner(std::string(1000000, '[')).SkipValue().ok());
}

}  // namespace
}  // namespace holdfast
