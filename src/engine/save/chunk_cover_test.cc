#include "engine/save/chunk_cover.h"

#include <gtest/gtest.h>

#include "formats/zarr/format/metadata.h"

namespace holdfast {
namespace {

std::shared_ptr<const ArrayLayout> Layout(int zarr_format, Shape shape,
                                          Shape chunk_shape) {
  const auto metadata = zarr_format == 3
                            ? zarr::OrbaxV3(shape, DType::kInt8, chunk_shape,
                                            zarr::Compression::kZstd)
                            : zarr::OrbaxV2(shape, DType::kInt8, chunk_shape,
                                            zarr::Compression::kZstd);
  return *MakeArrayLayout(metadata, MissingChunks::kRefuse);
}

std::string Check(std::vector<std::string_view> keys) {
  const std::vector<CoveredArray> arrays = {
      {"a/", Layout(2, {4, 4}, {2, 4})},
      {"a/b/", Layout(3, {4}, {2})},
      {"", Layout(2, {}, {})},
  };
  return std::string(CheckChunkCover(arrays, keys).message());
}

TEST(ChunkCover, WholeArraysPass) {
  EXPECT_EQ(Check({"a/0.0", "a/1.0", "a/.zarray", "a/b/c/0", "a/b/c/1",
                   "a/b/zarr.json", "0", ".zarray"}),
            "");
}

TEST(ChunkCover, WhatIsMissingTwiceOrForeignIsNamed) {
  EXPECT_EQ(Check({"a/0.0", "a/b/c/0", "a/b/c/1", "0"}),
            "array a: no process wrote chunk \"a/1.0\" (got 1 chunks, want 2)");
  EXPECT_EQ(Check({"a/0.0", "a/1.0", "a/b/c/1", "0"}),
            "array a/b: no process wrote chunk \"a/b/c/0\" (got 1 chunks, want "
            "2)");
  EXPECT_EQ(Check({"a/0.0", "a/1.0", "a/1.0", "a/b/c/0", "a/b/c/1", "0"}),
            "array a: chunk \"a/1.0\" was written by two processes");
  EXPECT_EQ(Check({"a/0.0", "a/1.0", "a/7.0", "a/b/c/0", "a/b/c/1", "0"}),
            "array a: \"a/7.0\" is not a chunk of it");
  EXPECT_EQ(Check({"a/0.0", "a/1.0", "a/b/c/0", "a/b/c/1"}),
            "the array: no process wrote chunk \"0\" (got 0 chunks, want 1)");
}

// One chunk is missing and another is duplicated, which the count by itself
// would not show.
TEST(ChunkCover, CountsAloneDoNotPass) {
  EXPECT_EQ(Check({"a/0.0", "a/0.0", "a/b/c/0", "a/b/c/1", "0"}),
            "array a: chunk \"a/0.0\" was written by two processes");
}

}  // namespace
}  // namespace holdfast
