#include "ground/tensor/box.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

Box RandomBoxOfRank(std::mt19937& random, int rank) {
  Box box;
  for (int i = 0; i < rank; ++i) {
    box.origin.push_back(std::uniform_int_distribution<int64_t>(0, 5)(random));
    box.shape.push_back(std::uniform_int_distribution<int64_t>(0, 4)(random));
  }
  return box;
}

bool Contains(const Box& box, const Shape& point) {
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] < box.origin[i]) return false;
    if (point[i] >= box.origin[i] + box.shape[i]) return false;
  }
  return true;
}

// Returns every point of a cube that contains all random boxes.
std::vector<Shape> AllPoints(int rank) {
  std::vector<Shape> points = {{}};
  for (int i = 0; i < rank; ++i) {
    std::vector<Shape> longer;
    for (const Shape& point : points) {
      for (int64_t x = 0; x < 10; ++x) {
        longer.push_back(point);
        longer.back().push_back(x);
      }
    }
    points = std::move(longer);
  }
  return points;
}

TEST(BoxTest, IntersectHoldsTheCommonPoints) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const int rank = trial % 4;
    const Box a = RandomBoxOfRank(random, rank);
    const Box b = RandomBoxOfRank(random, rank);
    const std::optional<Box> common = Intersect(a, b);
    EXPECT_EQ(common, Intersect(b, a));
    int64_t common_count = 0;
    for (const Shape& point : AllPoints(rank)) {
      const bool in_both = Contains(a, point) && Contains(b, point);
      common_count += in_both ? 1 : 0;
      EXPECT_EQ(common.has_value() && Contains(*common, point), in_both)
          << BoxToString(a) << " " << BoxToString(b);
    }
    EXPECT_EQ(common.has_value(), common_count > 0);
    if (common.has_value()) {
      EXPECT_EQ(ElementCount(common->shape), common_count);
    }
  }
}

TEST(BoxTest, IntersectDoesNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Intersect({{kMax - 1}, {kMax}}, {{0}, {kMax}}),
            (Box{{kMax - 1}, {1}}));
}

TEST(BoxTest, IsEmpty) {
  EXPECT_FALSE(IsEmpty(BoxOf({})));
  EXPECT_FALSE(IsEmpty(BoxOf({2, 3})));
  EXPECT_TRUE(IsEmpty(BoxOf({2, 0, 3})));
}

TEST(BoxTest, BoxOfStartsAtZero) {
  EXPECT_EQ(BoxOf({2, 3}), (Box{{0, 0}, {2, 3}}));
}

TEST(BoxTest, ToString) {
  EXPECT_EQ(BoxToString({{}, {}}), "[]");
  EXPECT_EQ(BoxToString({{0, 4}, {2, 4}}), "[0:2, 4:8]");
}

TEST(BoxTest, SubviewKeepsStrides) {
  char data[24];
  const ArrayView view = {DType::kInt16, data, {3, 4}, {8, 2}};
  const ArrayView part = Subview(view, {{1, 2}, {2, 2}});
  EXPECT_EQ(part.data, data + 8 + 4);
  EXPECT_EQ(part.shape, (Shape{2, 2}));
  EXPECT_EQ(part.strides, view.strides);
  EXPECT_EQ(part.dtype, DType::kInt16);
}

TEST(BoxTest, SubviewOfBackwardsView) {
  const char data[4] = {};
  const ConstArrayView view = {DType::kUint8, data + 3, {4}, {-1}};
  EXPECT_EQ(Subview(view, {{1}, {2}}).data, data + 2);
}

TEST(BoxTest, EmptySubview) {
  const ConstArrayView view = {DType::kUint8, nullptr, {0, 4}, {4, 1}};
  const ConstArrayView part = Subview(view, {{0, 2}, {0, 2}});
  EXPECT_EQ(part.shape, (Shape{0, 2}));
}

TEST(BoxTest, RelativeMovesTheOriginAlone) {
  const Box box{{5, 2}, {3, 4}};
  EXPECT_EQ(Relative(box, {4, 2}), (Box{{1, 0}, {3, 4}}));
  EXPECT_EQ(Relative(box, {}), box);
}

TEST(Box, AbsoluteUndoesRelative) {
  const Box box{{3, 5}, {2, 4}};
  EXPECT_EQ(Absolute(box, {10, 20}), (Box{{13, 25}, {2, 4}}));
  EXPECT_EQ(Absolute(Relative(box, {1, 7}), {1, 7}), box);
  EXPECT_EQ(Absolute(box, {}), box);
}

}  // namespace
}  // namespace holdfast
