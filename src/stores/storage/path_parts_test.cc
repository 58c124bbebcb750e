#include "stores/storage/path_parts.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(PathParts, Keys) {
  EXPECT_EQ(ParentKey("a/b/c"), "a/b");
  EXPECT_EQ(ParentKey("a"), "");
  EXPECT_EQ(LastPart("a/b/c"), "c");
  EXPECT_EQ(LastPart("a"), "a");
  EXPECT_EQ(PartCount(""), 0u);
  EXPECT_EQ(PartCount("a"), 1u);
  EXPECT_EQ(PartCount("a/b/c"), 3u);
}

TEST(PathParts, Paths) {
  EXPECT_EQ(WithoutTrailingSlashes("/a//"), "/a");
  EXPECT_EQ(WithoutTrailingSlashes("//"), "/");
  EXPECT_EQ(ParentPath("/a/b"), "/a");
  EXPECT_EQ(ParentPath("/a//b"), "/a");
  EXPECT_EQ(ParentPath("/a"), "/");
  EXPECT_EQ(ParentPath("/"), "/");
  EXPECT_EQ(ParentPath("a"), ".");
  EXPECT_EQ(ParentPath("a/b"), "a");
}

}  // namespace
}  // namespace holdfast
