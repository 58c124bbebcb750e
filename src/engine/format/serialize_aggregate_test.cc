#include "engine/format/serialize_aggregate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <complex>
#include <string>

#include "engine/format/aggregate.h"
#include "engine/format/golden_for_test.h"
#include "twins/host_reader.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

Tree RoundTrip(const Tree& tree) {
  const auto text = SerializeAggregate(tree);
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  auto parsed = ParseAggregate(*text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return *std::move(parsed);
}

TEST(SerializeAggregate, KeepsEveryKindOfLeafAndContainer) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const Tree tree = Tree::Dict({
      {"z", Array::FromBytes(DType::kFloat32, {2, 3}, values)},
      {"a", Tree::List({1, -70000, 2.5, true, Tree::None(), "t\xc3\xa9xt",
                        std::complex<double>(1.5, -2),
                        Scalar::Of<float>(DType::kFloat32, 0.5f, false)})},
      {"t", Tree::Tuple({Tree::Tuple({7}), Tree::ByteString("\xff")})},
      {"r", Tree::Reference("params.w")},
      {"e", Tree::Dict()},
  });
  EXPECT_EQ(RoundTrip(tree), tree);
}

TEST(SerializeAggregate, GivesBackTheBytesOfARealFile) {
  const std::string file = FormatGolden("legacy_053_rich/checkpoint");
  const auto tree = ParseAggregate(file);
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  const auto text = SerializeAggregate(*tree);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(*text, file);
}

TEST(SerializeAggregate, KeepsFloatsThatAreWhole) {
  const Tree tree = Tree::List({2.0, std::complex<double>(3, -4)});
  EXPECT_EQ(RoundTrip(tree), tree);
  const auto zero = SerializeAggregate(Tree(-0.0));
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ(*zero, std::string("\xcb\x80\0\0\0\0\0\0\0", 9));
}

TEST(SerializeAggregate, PutsShardsTogether) {
  const int16_t left[] = {1, 2};
  const int16_t right[] = {3, 4};
  const int16_t whole[] = {1, 3, 2, 4};
  const Tree sharded = Tree::ShardedArray(
      {2, 2},
      {{{0, 0}, Array::FromBytes(DType::kInt16, {2, 1}, left)},
       {{0, 1}, Array::FromBytes(DType::kInt16, {2, 1}, right)}},
      nullptr);
  const Tree want(Array::FromBytes(DType::kInt16, {2, 2}, whole));
  EXPECT_EQ(RoundTrip(sharded), want);
  std::vector<ArrayShard> shards = sharded.shards();
  shards[1].reader = std::make_shared<HostReader>(shards[1].array);
  shards[1].array = Array::Outline(DType::kInt16, {2, 1});
  EXPECT_EQ(RoundTrip(Tree::ShardedArray({2, 2}, shards, nullptr)), want);
}

TEST(SerializeAggregate, NamesALeafThatHasNoForm) {
  const auto refused = SerializeAggregate(
      Tree::Dict({{"a", Tree::List({1, Tree::Object(std::any(3))})}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("leaf a/1: Unsupported msgpack object"));
}

}  // namespace
}  // namespace holdfast
