#include "engine/save/chunk_shapes.h"

#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

std::string Chosen(const Shape& global_shape, const Shape& write_shape,
                   std::optional<int64_t> target,
                   const std::vector<int64_t>& axes = {},
                   DType dtype = DType::kFloat32) {
  const auto shape =
      ChooseChunkShape(global_shape, write_shape, dtype, target, axes);
  if (shape.ok()) return ShapeToString(*shape);
  EXPECT_EQ(shape.status().code(), StatusCode::kInvalidArgument);
  return std::string(shape.status().message());
}

// The expected shapes are those of Orbax 0.12.8.
TEST(ChooseChunkShape, MatchesOrbax) {
  EXPECT_EQ(Chosen({64, 64}, {64, 64}, 2048), "(16, 32)");
  EXPECT_EQ(Chosen({64, 64}, {64, 64}, 4096, {0}), "(1, 64)");
  EXPECT_EQ(Chosen({64, 64}, {64, 64}, std::nullopt), "(64, 64)");
  EXPECT_EQ(Chosen({64, 64}, {64, 64}, std::nullopt, {1}), "(64, 1)");
  EXPECT_EQ(Chosen({64, 64}, {32, 64}, 2048), "(8, 64)");
  EXPECT_EQ(Chosen({0, 3}, {0, 3}, std::nullopt), "(1, 3)");
  EXPECT_EQ(Chosen({}, {}, 4), "()");
  EXPECT_EQ(Chosen({17, 12}, {17, 12}, 100), "(1, 12)");
  EXPECT_EQ(Chosen({100}, {100}, 1, {}, DType::kInt4), "(1,)");
}

TEST(ChooseChunkShape, ErrorTextsAreOrbaxs) {
  EXPECT_EQ(Chosen({4}, {4}, 1), "target_byte_size=1 must be >= 4");
  EXPECT_EQ(Chosen({4, 4}, {4, 4}, 64, {5}),
            "All shard_axes=(5,) must be non-negative and less than rank=2.");
  EXPECT_EQ(Chosen({4, 4}, {4}, 64),
            "global_shape=(4, 4) and write_shape=(4,) must have the same "
            "length.");
}

TEST(ChooseChunkShape, ChunksDivideAndFit) {
  std::mt19937 random(9);
  for (int round = 0; round < 2000; ++round) {
    Shape shape(random() % 4);
    for (int64_t& extent : shape) extent = 1 + random() % 200;
    const int64_t target = 4 + random() % 100000;
    const auto chunk = ChooseChunkShape(shape, shape, DType::kFloat32, target);
    ASSERT_TRUE(chunk.ok());
    EXPECT_LE(ElementCount(*chunk) * 4, target);
    for (size_t i = 0; i < shape.size(); ++i) {
      EXPECT_EQ(shape[i] % (*chunk)[i], 0);
    }
  }
}

TEST(CalculateChunkByteSize, ChunksFitADataFile) {
  const auto size = [](std::optional<int64_t> chunk, int64_t file) {
    return CalculateChunkByteSize({1000}, DType::kFloat32, chunk, file);
  };
  EXPECT_EQ(size(std::nullopt, 0), std::nullopt);
  EXPECT_EQ(size(50, 0), 50);
  EXPECT_EQ(size(std::nullopt, 4000), std::nullopt);
  EXPECT_EQ(size(std::nullopt, 3999), 3999);
  EXPECT_EQ(size(50, 3999), 50);
  EXPECT_EQ(size(5000, 3999), 3999);
  EXPECT_EQ(CalculateChunkByteSize({INT64_MAX, 2}, DType::kFloat32,
                                   std::nullopt, 4000),
            4000);
}

TEST(ChooseRowChunks, CutsLeadingAxesFirst) {
  const auto chunk = [](const Shape& shape, int64_t target) {
    return ShapeToString(ChooseRowChunks(shape, DType::kFloat32, target));
  };
  EXPECT_EQ(chunk({64, 64}, 1 << 20), "(64, 64)");
  EXPECT_EQ(chunk({64, 64}, 4096), "(16, 64)");
  EXPECT_EQ(chunk({60, 64}, 4096), "(15, 64)");
  EXPECT_EQ(chunk({64, 64}, 255), "(1, 32)");
  EXPECT_EQ(chunk({64, 64}, 1), "(1, 1)");
  EXPECT_EQ(chunk({4, 6, 8}, 100), "(1, 3, 8)");
  EXPECT_EQ(chunk({}, 1), "()");
  EXPECT_EQ(chunk({0, 8}, 8), "(1, 2)");
}

TEST(ChooseRowChunks, APrimeNumberOfRowsDoesNotGiveTinyChunks) {
  const Shape chunk =
      ChooseRowChunks({32003, 768}, DType::kFloat32, int64_t{8} << 20);
  EXPECT_GE(chunk[0] * 768 * 4, int64_t{4} << 20);
  EXPECT_LE(chunk[0] * 768 * 4, int64_t{8} << 20);
}

// Returns the rows of the best chunk. A slow model of ChooseRowChunks, which
// tries every extent.
int64_t SlowExtent(int64_t size, int64_t limit) {
  limit = std::max<int64_t>(1, std::min(size, limit));
  int64_t divisor = limit;
  while (size % divisor != 0) --divisor;
  if (2 * divisor >= limit) return divisor;
  int64_t chunk_count = 1;
  while (chunk_count * limit < size) ++chunk_count;
  int64_t extent = 1;
  while (chunk_count * extent < size) ++extent;
  return extent;
}

TEST(ChooseRowChunks, EqualsTheSlowTwin) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const int64_t rows = 1 + random() % 500;
    const int64_t columns = 1 + random() % 50;
    const int64_t target = 1 + random() % 20000;
    Shape want = {rows, columns};
    if (rows * columns * 4 > target) {
      want[0] = SlowExtent(rows, target / (columns * 4));
    }
    if (want[0] * columns * 4 > target) {
      want[1] = SlowExtent(columns, target / 4);
    }
    EXPECT_EQ(ChooseRowChunks({rows, columns}, DType::kFloat32, target), want)
        << rows << " " << columns << " " << target;
  }
}

ChunkShapesRequest Zarr3Request(const Shape& shard_shape) {
  ChunkShapesRequest request;
  request.global_shape = request.shard_shape = shard_shape;
  request.dtype = DType::kFloat32;
  request.use_zarr3 = true;
  return request;
}

TEST(ChunkShapesTest, DefaultsAreTheShardAndTheWriteChunk) {
  ChunkShapesRequest request = Zarr3Request({8, 4});
  EXPECT_EQ(ChooseChunkShapes(request)->write, (Shape{8, 4}));
  EXPECT_EQ(ChooseChunkShapes(request)->read, (Shape{8, 4}));
  request.write_chunk_shape = Shape{4, 4};
  EXPECT_EQ(ChooseChunkShapes(request)->read, (Shape{4, 4}));
  request.read_chunk_shape = Shape{2, 1};
  EXPECT_EQ(ChooseChunkShapes(request)->write, (Shape{4, 4}));
  EXPECT_EQ(ChooseChunkShapes(request)->read, (Shape{2, 1}));
}

TEST(ChunkShapesTest, BytesCountWithoutShapes) {
  ChunkShapesRequest request = Zarr3Request({8, 4});
  request.chunk_byte_size = 32;
  EXPECT_EQ(ChooseChunkShapes(request)->write, (Shape{2, 4}));
  EXPECT_EQ(ChooseChunkShapes(request)->read, (Shape{2, 4}));
  request.read_chunk_shape = Shape{8, 2};
  EXPECT_EQ(ChooseChunkShapes(request)->write, (Shape{8, 4}));
  request = Zarr3Request({8});
  request.chunk_byte_size = 3;
  EXPECT_EQ(ChooseChunkShapes(request).status().message(),
            "chunk_byte_size=3 must be >= 4");
}

TEST(ChunkShapesTest, OnlyDivisorsOfEqualRank) {
  EXPECT_TRUE(ValidateDivisibleShapes({8, 4}, {2, 4}));
  EXPECT_FALSE(ValidateDivisibleShapes({8, 4}, {3, 4}));
  EXPECT_FALSE(ValidateDivisibleShapes({8, 4}, {0, 4}));
  EXPECT_FALSE(ValidateDivisibleShapes({8, 4}, {4}));
}

}  // namespace
}  // namespace holdfast
