#include "holdfast/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(ShapeTest, IsMadeAsAVectorIs) {
  EXPECT_TRUE(Shape().empty());
  EXPECT_THAT(Shape(3), ElementsAre(0, 0, 0));
  EXPECT_THAT(Shape(2, 7), ElementsAre(7, 7));
  EXPECT_THAT((Shape{2, 7}), ElementsAre(2, 7));
  EXPECT_THAT((Shape{1, 2, 3, 4, 5, 6}), ElementsAre(1, 2, 3, 4, 5, 6));
  const std::vector<int64_t> numbers = {1, 2, 3, 4, 5};
  EXPECT_EQ(std::vector<int64_t>(Shape(numbers)), numbers);
}

TEST(ShapeTest, ComparesAsAVectorDoes) {
  EXPECT_EQ(Shape(), Shape{});
  EXPECT_EQ((Shape{1, 2}), (Shape{1, 2}));
  EXPECT_NE((Shape{1, 2}), (Shape{1, 2, 0}));
  EXPECT_LT((Shape{1, 2}), (Shape{1, 2, 0}));
  EXPECT_LT((Shape{1, 2, 3}), (Shape{1, 3}));
  Shape short_again = {1, 2, 3, 4, 5};
  short_again.resize(2);
  EXPECT_EQ(short_again, (Shape{1, 2})) << "on the heap or not";
}

// For every rank near the inline limit: a copy is independent, and a move
// leaves nothing behind.
TEST(ShapeTest, CopiesAndMoves) {
  for (int64_t rank = 0; rank < 10; ++rank) {
    Shape shape;
    for (int64_t i = 0; i < rank; ++i) shape.push_back(i);
    Shape copy = shape;
    EXPECT_EQ(copy, shape);
    copy.push_back(99);
    EXPECT_EQ(shape.size(), static_cast<size_t>(rank));
    Shape moved = std::move(copy);
    EXPECT_TRUE(copy.empty());  // NOLINT: a moved-from Shape is empty
    EXPECT_EQ(moved.back(), 99);
    for (const Shape& other : {Shape{}, Shape{7, 8}, Shape{1, 2, 3, 4, 5}}) {
      Shape target = other;
      target = shape;
      EXPECT_EQ(target, shape);
      target = other;
      target = Shape(shape);
      EXPECT_EQ(target, shape);
    }
  }
}

// Makes the same random change to both.
void Change(std::mt19937& random, Shape& shape, std::vector<int64_t>& vector) {
  const auto below = [&random](size_t n) {
    return static_cast<ptrdiff_t>(random() % n);
  };
  const auto value = static_cast<int64_t>(random() % 1000);
  const std::vector<int64_t> others(random() % 4, value);
  const ptrdiff_t at = below(vector.size() + 1);
  switch (vector.empty() ? below(6) : below(9)) {
    case 0:
      shape.push_back(value);
      vector.push_back(value);
      return;
    case 1:
      shape.insert(shape.begin() + at, value);
      vector.insert(vector.begin() + at, value);
      return;
    case 2:
      shape.insert(shape.begin() + at, others.begin(), others.end());
      vector.insert(vector.begin() + at, others.begin(), others.end());
      return;
    case 3:
      shape.insert(shape.begin() + at, others.size(), value);
      vector.insert(vector.begin() + at, others.size(), value);
      return;
    case 4:
      shape.resize(static_cast<size_t>(value % 7), value);
      vector.resize(static_cast<size_t>(value % 7), value);
      return;
    case 5:
      shape.assign(others.begin(), others.end());
      vector.assign(others.begin(), others.end());
      return;
    case 6:
      shape.pop_back();
      vector.pop_back();
      return;
    case 7:
      shape.erase(shape.begin() + at % std::ssize(vector));
      vector.erase(vector.begin() + at % std::ssize(vector));
      return;
    default:
      shape.erase(shape.begin() + at, shape.end());
      vector.erase(vector.begin() + at, vector.end());
  }
}

TEST(ShapeTest, ChangesAsAVectorDoes) {
  std::mt19937 random(1);
  Shape shape;
  std::vector<int64_t> vector;
  for (int i = 0; i < 20000; ++i) {
    Change(random, shape, vector);
    ASSERT_THAT(shape, ElementsAreArray(vector)) << "change " << i;
  }
}

}  // namespace
}  // namespace holdfast
