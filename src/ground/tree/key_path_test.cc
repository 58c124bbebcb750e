#include "ground/tree/key_path.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(KeyPath, ParamNameJoinsWithDots) {
  EXPECT_EQ(ParamName({}), "");
  EXPECT_EQ(ParamName({{""}}), "");
  EXPECT_EQ(ParamName({{"a.b"}, {"0", KeyKind::kIndex}, {"c/d"}}), "a.b.0.c/d");
}

TEST(KeyPath, SortsIndicesByValueAndNamesByText) {
  const KeyPath nine = {{"a"}, {"9", KeyKind::kIndex}};
  const KeyPath ten = {{"a"}, {"10", KeyKind::kIndex}};
  EXPECT_TRUE(KeyPathLess(nine, ten));
  EXPECT_FALSE(KeyPathLess(ten, nine));
  const KeyPath nine_name = {{"a"}, {"9"}};
  const KeyPath ten_name = {{"a"}, {"10"}};
  EXPECT_TRUE(KeyPathLess(ten_name, nine_name));
  EXPECT_TRUE(KeyPathLess({{"a"}}, nine));
  EXPECT_FALSE(KeyPathLess(nine, nine));
  EXPECT_TRUE(KeyPathLess(ten, ten_name));
}

TEST(KeyPath, SortsIntegersByValueBetweenIndicesAndNames) {
  const std::vector<KeyElement> sorted = {
      {"99", KeyKind::kIndex},    {"-100", KeyKind::kInteger},
      {"-20", KeyKind::kInteger}, {"-3", KeyKind::kInteger},
      {"0", KeyKind::kInteger},   {"9", KeyKind::kInteger},
      {"10", KeyKind::kInteger},  {"0"}};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(KeyPathLess(KeyPath{sorted[i]}, KeyPath{sorted[j]}), i < j);
    }
  }
}

TEST(KeyPath, CompareKeysIgnoresKinds) {
  EXPECT_EQ(CompareKeys({{"0", KeyKind::kIndex}}, {{"0"}}), 0);
  EXPECT_LT(CompareKeys({{"10", KeyKind::kIndex}}, {{"9", KeyKind::kIndex}}),
            0);
  EXPECT_GT(CompareKeys({{"a"}, {"b"}}, {{"a"}}), 0);
}

}  // namespace
}  // namespace holdfast
