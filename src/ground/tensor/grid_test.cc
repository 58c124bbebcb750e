#include "ground/tensor/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "ground/tensor/random_test_util.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;

std::vector<Shape> Visited(const ChunkGrid& grid, const Box& box) {
  std::vector<Shape> indices;
  const Status status = ForEachChunk(grid, box, [&](const Shape& index) {
    indices.push_back(index);
    return Status();
  });
  EXPECT_TRUE(status.ok());
  return indices;
}

struct Case {
  ChunkGrid grid;
  Box box;
};

Case RandomCase(std::mt19937& random) {
  Case test;
  const int64_t rank = RandomInt(random, 0, 4);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t extent = RandomInt(random, 0, 9);
    test.grid.array_shape.push_back(extent);
    test.grid.chunk_shape.push_back(RandomInt(random, 1, 11));
    const int64_t origin = RandomInt(random, 0, extent);
    test.box.origin.push_back(origin);
    test.box.shape.push_back(RandomInt(random, 0, extent - origin));
  }
  return test;
}

// Returns all chunk indices in C order, whether or not the box overlaps the
// chunk.
std::vector<Shape> AllChunks(const ChunkGrid& grid) {
  std::vector<Shape> indices = {{}};
  for (const int64_t count : grid.ChunkCounts()) {
    std::vector<Shape> longer;
    for (const Shape& index : indices) {
      for (int64_t i = 0; i < count; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    indices = std::move(longer);
  }
  return indices;
}

TEST(GridTest, VisitsExactlyTheTouchedChunksInOrder) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 500; ++trial) {
    const Case test = RandomCase(random);
    std::vector<Shape> want;
    for (const Shape& index : AllChunks(test.grid)) {
      if (Intersect(test.grid.ChunkBox(index), test.box)) want.push_back(index);
    }
    EXPECT_EQ(Visited(test.grid, test.box), want)
        << ShapeToString(test.grid.array_shape) << " by "
        << ShapeToString(test.grid.chunk_shape) << " " << BoxToString(test.box);
  }
}

TEST(GridTest, ChunksCoverTheArrayOnce) {
  std::mt19937 random(12);
  for (int trial = 0; trial < 200; ++trial) {
    const ChunkGrid grid = RandomCase(random).grid;
    int64_t element_count = 0;
    const std::vector<Shape> chunks = AllChunks(grid);
    for (const Shape& index : chunks) {
      element_count += ElementCount(grid.ChunkBox(index).shape);
    }
    EXPECT_EQ(element_count, ElementCount(grid.array_shape));
    EXPECT_EQ(grid.ChunkCount(), static_cast<int64_t>(chunks.size()));
  }
}

TEST(GridTest, EdgeChunksAreCut) {
  const ChunkGrid grid = {{10, 7}, {4, 7}};
  EXPECT_THAT(grid.ChunkCounts(), ElementsAre(3, 1));
  EXPECT_EQ(grid.ChunkBox({2, 0}), (Box{{8, 0}, {2, 7}}));
}

TEST(GridTest, ExtremeExtentsDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const ChunkGrid grid = {{kMax, kMax}, {1, kMax}};
  EXPECT_THAT(grid.ChunkCounts(), ElementsAre(kMax, 1));
  EXPECT_EQ(grid.ChunkCount(), kMax);
  const ChunkGrid fine = {{kMax, kMax}, {1, 1}};
  EXPECT_EQ(fine.ChunkCount(), kMax);
  EXPECT_EQ((ChunkGrid{{kMax, 0}, {1, 1}}.ChunkCount()), 0);
  EXPECT_THAT(Visited(grid, {{kMax - 1, 5}, {1, 3}}),
              ElementsAre(ElementsAre(kMax - 1, 0)));
}

TEST(GridTest, ScalarHasOneChunk) {
  const ChunkGrid grid;
  EXPECT_EQ(grid.ChunkCount(), 1);
  EXPECT_THAT(Visited(grid, BoxOf({})), ElementsAre(Shape{}));
}

TEST(GridTest, StopsAtTheFirstFailure) {
  int calls = 0;
  const Status status =
      ForEachChunk({{4}, {1}}, BoxOf({4}), [&](const Shape& index) {
        ++calls;
        return index[0] == 1 ? DataLossError("chunk 1") : Status();
      });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(calls, 2);
}

TEST(ChunkGrid, NumbersCountInTheOrderOfForEachChunk) {
  const ChunkGrid grid{{5, 7, 3}, {2, 3, 2}};
  int64_t number = 0;
  const Status status =
      ForEachChunk(grid, BoxOf(grid.array_shape), [&](const Shape& index) {
        EXPECT_EQ(grid.ChunkIndex(number++), index);
        return Status();
      });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(number, grid.ChunkCount());
  EXPECT_EQ((ChunkGrid{{}, {}}).ChunkIndex(0), Shape{});
}

TEST(RowPieces, FollowEachOtherInCOrder) {
  const Box box{{7, 1, 2}, {3, 4, 5}};
  for (const size_t bytes_max : {1, 8, 16, 20, 40, 41, 80, 160, 1000}) {
    int64_t next = 0;
    for (const Box& piece : RowPieces(box, 4, bytes_max)) {
      const Box within = Relative(piece, box.origin);
      const int64_t first =
          (within.origin[0] * 4 + within.origin[1]) * 5 + within.origin[2];
      EXPECT_EQ(first, next) << BoxToString(piece) << " of " << bytes_max;
      next += ElementCount(piece.shape);
      EXPECT_LE(ElementCount(piece.shape) * 4,
                std::max<int64_t>(4, static_cast<int64_t>(bytes_max)));
    }
    EXPECT_EQ(next, 60);
  }
  EXPECT_TRUE(RowPieces({{1}, {0}}, 4, 100).empty());
}

}  // namespace
}  // namespace holdfast
