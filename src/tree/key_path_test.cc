#include "tree/key_path.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(KeyPath, ParamNameJoinsWithDots) {
  EXPECT_EQ(ParamName({}), "");
  EXPECT_EQ(ParamName({{"", false}}), "");
  EXPECT_EQ(ParamName({{"a.b", false}, {"0", true}, {"c/d", false}}),
            "a.b.0.c/d");
}

TEST(KeyPath, SortsIndicesByValueAndNamesByText) {
  const KeyPath nine = {{"a", false}, {"9", true}};
  const KeyPath ten = {{"a", false}, {"10", true}};
  EXPECT_TRUE(KeyPathLess(nine, ten));
  EXPECT_FALSE(KeyPathLess(ten, nine));
  const KeyPath nine_name = {{"a", false}, {"9", false}};
  const KeyPath ten_name = {{"a", false}, {"10", false}};
  EXPECT_TRUE(KeyPathLess(ten_name, nine_name));
  EXPECT_TRUE(KeyPathLess({{"a", false}}, nine));
  EXPECT_FALSE(KeyPathLess(nine, nine));
  EXPECT_TRUE(KeyPathLess(ten, ten_name));
}

TEST(KeyPath, CompareKeysIgnoresKinds) {
  EXPECT_EQ(CompareKeys({{"0", true}}, {{"0", false}}), 0);
  EXPECT_LT(CompareKeys({{"10", true}}, {{"9", true}}), 0);
  EXPECT_GT(CompareKeys({{"a", false}, {"b", false}}, {{"a", false}}), 0);
}

}  // namespace
}  // namespace holdfast
