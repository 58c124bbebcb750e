#include "formats/zarr/format/chunk_key.h"

#include <gtest/gtest.h>

namespace holdfast::zarr {
namespace {

using Kind = ChunkKeyEncoding::Kind;

ArrayMetadata Metadata(const Shape& shape, const Shape& chunk_shape, Kind kind,
                       char separator) {
  ArrayMetadata metadata;
  metadata.shape = shape;
  metadata.chunk_shape = chunk_shape;
  metadata.chunk_key_encoding = {kind, separator};
  return metadata;
}

TEST(ChunkKeyTest, Spellings) {
  struct {
    Kind kind;
    char separator;
    const char* matrix;
    const char* scalar;
  } const cases[] = {
      {Kind::kV2, '.', "p/1.12", "p/0"},
      {Kind::kV2, '/', "p/1/12", "p/0"},
      {Kind::kDefault, '/', "p/c/1/12", "p/c"},
      {Kind::kDefault, '.', "p/c.1.12", "p/c"},
  };
  for (const auto& c : cases) {
    const ArrayMetadata matrix =
        Metadata({20, 20}, {1, 1}, c.kind, c.separator);
    EXPECT_EQ(ChunkKey("p/", matrix, {1, 12}), c.matrix);
    EXPECT_EQ(ParseChunkKey(matrix, std::string_view(c.matrix).substr(2)),
              (Shape{1, 12}));
    const ArrayMetadata scalar = Metadata({}, {}, c.kind, c.separator);
    EXPECT_EQ(ChunkKey("p/", scalar, {}), c.scalar);
    EXPECT_EQ(ParseChunkKey(scalar, std::string_view(c.scalar).substr(2)),
              Shape());
  }
}

TEST(ChunkKeyTest, NotAKeyOfThisArray) {
  const ArrayMetadata v2 = Metadata({20, 20}, {5, 3}, Kind::kV2, '.');
  EXPECT_EQ(ParseChunkKey(v2, "3.6"), (Shape{3, 6}));
  for (const char* key :
       {"", "0", "0.0.0", "00.0", "0.01", "-1.0", "+1.0", "0.", ".0", "0/0",
        "c.0.0", "4.0", "0.7", "99999999999999999999.0", "0.0 ", ".zarray"}) {
    EXPECT_EQ(ParseChunkKey(v2, key), std::nullopt) << key;
  }
  const ArrayMetadata v3 = Metadata({20, 20}, {5, 3}, Kind::kDefault, '/');
  EXPECT_EQ(ParseChunkKey(v3, "c/3/6"), (Shape{3, 6}));
  for (const char* key : {"c", "c/0", "c/0/0/0", "c/0/0/", "d/0/0", "0/0",
                          "c.0.0", "c//0", "zarr.json"}) {
    EXPECT_EQ(ParseChunkKey(v3, key), std::nullopt) << key;
  }
  const ArrayMetadata scalar = Metadata({}, {}, Kind::kV2, '.');
  EXPECT_EQ(ParseChunkKey(scalar, "1"), std::nullopt);
  const ArrayMetadata empty = Metadata({0}, {5}, Kind::kV2, '.');
  EXPECT_EQ(ParseChunkKey(empty, "0"), std::nullopt);
}

TEST(ChunkKeyTest, HugeGrids) {
  const ArrayMetadata metadata = Metadata({kExtentMax}, {1}, Kind::kV2, '.');
  const Shape last = {kExtentMax - 1};
  EXPECT_EQ(ParseChunkKey(metadata, ChunkKey("", metadata, last)), last);
  EXPECT_EQ(ParseChunkKey(metadata, std::to_string(kExtentMax)), std::nullopt);
}

}  // namespace
}  // namespace holdfast::zarr
