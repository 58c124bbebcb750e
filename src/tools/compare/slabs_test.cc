#include "tools/compare/slabs.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

TEST(SlabGrid, CoversEveryElementOnce) {
  std::mt19937_64 random(9);
  const auto shape_of = [&](size_t rank, int64_t low, int64_t high) {
    Shape shape(rank);
    for (int64_t& extent : shape) {
      extent = low + static_cast<int64_t>(random() % (high - low + 1));
    }
    return shape;
  };
  for (int round = 0; round < 300; ++round) {
    const size_t rank = random() % 5;
    const Shape shape = shape_of(rank, 0, 9);
    const uint64_t bytes_max = 1 + random() % 400;
    const SlabSizes sizes{1 + random() % bytes_max, bytes_max};
    const SlabGrid grid(shape, {shape_of(rank, 1, 9), shape_of(rank, 1, 9)}, 4,
                        sizes);
    std::vector<int> seen(static_cast<size_t>(ElementCount(shape)), 0);
    for (uint64_t i = 0; i < grid.count(); ++i) {
      const Box box = grid.At(i);
      const int64_t count = ElementCount(box.shape);
      EXPECT_LE(count * 4, std::max<int64_t>(4, bytes_max));
      for (int64_t k = 0; k < count; ++k) {
        const int64_t flat = FlatIndex(shape, box, k);
        ++seen[static_cast<size_t>(flat)];
        const Shape index = IndexOf(shape, flat);
        for (size_t d = 0; d < rank; ++d) {
          EXPECT_GE(index[d], box.origin[d]);
          EXPECT_LT(index[d], box.origin[d] + box.shape[d]);
        }
      }
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  }
}

TEST(SlabGrid, IsMadeOfWholeChunks) {
  const SlabSizes sizes{1000, 4000};
  const SlabGrid one({100, 100}, {{10, 25}}, 1, sizes);
  EXPECT_EQ(one.At(0).shape, (Shape{10, 100}));
  const SlabGrid two({100, 100}, {{10, 100}, {4, 50}}, 1, sizes);
  EXPECT_EQ(two.At(0).shape, (Shape{20, 100}));
  // Neither a box of complete chunks of both sides nor both chunks fit.
  const SlabGrid large({100, 100}, {{100, 30}, {1, 100}}, 1, sizes);
  EXPECT_EQ(large.At(0).shape, (Shape{100, 30}));
}

TEST(SlabGrid, TakesShapesOfAnySize) {
  const SlabGrid grid({int64_t{1} << 40, 1 << 20}, {{1 << 20, 1 << 20}}, 8,
                      SlabSizesOf(256 << 20));
  EXPECT_EQ(grid.count(), uint64_t{1} << 37);
  EXPECT_EQ(grid.At(1).origin, (Shape{8, 0}));
}

}  // namespace
}  // namespace holdfast
