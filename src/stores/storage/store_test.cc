#include "stores/storage/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace holdfast {
namespace {

using testing::HasSubstr;

std::string Problem(std::string_view key) {
  const Status status = CheckKey(key);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << key;
  return std::string(status.message());
}

TEST(CheckKey, AcceptsRelativePaths) {
  for (const std::string& key :
       {std::string("a"), std::string("a/b.c/.zarray"), std::string("..."),
        std::string(255, 'x'), std::string("\n"),
        std::string(5000, 'a')
            .replace(200, 1, "/")
            .replace(400, 1, "/")
            .substr(0, 600)}) {
    EXPECT_EQ(CheckKey(key).code(), StatusCode::kOk) << key;
  }
}

TEST(CheckKey, SaysWhichRuleIsBroken) {
  EXPECT_EQ(Problem(""), "key \"\" is empty");
  EXPECT_THAT(Problem("/a"), HasSubstr("empty part"));
  EXPECT_THAT(Problem("a/"), HasSubstr("empty part"));
  EXPECT_THAT(Problem("a//b"), HasSubstr("key \"a//b\" has an empty part"));
  EXPECT_THAT(Problem("a/./b"), HasSubstr("part \".\""));
  EXPECT_THAT(Problem("a/.."), HasSubstr("part \"..\""));
  EXPECT_THAT(Problem("a/" + std::string(256, 'x')), HasSubstr("255 bytes"));
  EXPECT_EQ(Problem(std::string_view("a\0b", 3)),
            "key \"a\\x00b\" has a NUL byte");
}

TEST(CheckKey, LongKeysAreCutInMessages) {
  EXPECT_LT(Problem(std::string(100000, '/')).size(), 300u);
}

TEST(ResolveRange, ReplacesToEnd) {
  const Result<ByteRange> range = ResolveRange({4, kToEnd}, 10, "p");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->offset, 4u);
  EXPECT_EQ(range->byte_count, 6u);
}

TEST(ResolveRange, MessageHasRangeAndSize) {
  EXPECT_EQ(ResolveRange({8, 3}, 10, "/ck/k").status().ToString(),
            "OUT_OF_RANGE: read /ck/k: 3 bytes from offset 8 are past the end "
            "(the object has 10 bytes)");
  EXPECT_EQ(ResolveRange({11, kToEnd}, 10, "/ck/k").status().ToString(),
            "OUT_OF_RANGE: read /ck/k: all bytes from offset 11 are past the "
            "end (the object has 10 bytes)");
}

TEST(CheckWriteRange, EndsAtTheLargestSignedOffset) {
  constexpr uint64_t kMax = (uint64_t{1} << 63) - 1;
  EXPECT_EQ(CheckWriteRange(kMax - 3, 3, "p").code(), StatusCode::kOk);
  EXPECT_EQ(CheckWriteRange(kMax - 3, 4, "p").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckWriteRange(kMax + 1, 0, "p").code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
