// ChunkGrid: a regular grid of chunks over an array; edge chunks stick out.
// Thread-safety: values. Units: elements and chunk counts, outermost first.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ground/tensor/box.h"

namespace holdfast {

struct ChunkGrid {
  Shape array_shape;
  Shape chunk_shape;  // same rank, every extent >= 1

  // Returns the number of chunks along each dimension: ceil(array / chunk).
  Shape ChunkCounts() const;
  // Returns the product of ChunkCounts(), saturating at INT64_MAX; 0 for an
  // empty array.
  int64_t ChunkCount() const;
  // Returns the index of chunk `number`, counted in C order.
  // REQUIRES: 0 <= number < ChunkCount().
  Shape ChunkIndex(int64_t number) const;
  // Returns the box of the chunk at `index`, cut to the array.
  Box ChunkBox(const Shape& index) const;
  // Returns the boxes of all chunks, in C order.
  std::vector<Box> ChunkBoxes() const;
};

// Returns the number of chunks that `box` overlaps; saturates. REQUIRES: box
// within the array.
int64_t CountChunks(const ChunkGrid& grid, const Box& box);

// Calls fn(index) for each chunk that `box` overlaps, in C order, until fn
// fails. REQUIRES: box within the array.
Status ForEachChunk(const ChunkGrid& grid, const Box& box,
                    const std::function<Status(const Shape& index)>& fn);

// Returns the shape of the chunks that cut an array into runs of complete rows
// of at most `piece_bytes_max` bytes (but at least one element). In the C order
// of their grid, the chunks are consecutive in a contiguous array. REQUIRES: no
// extent of 0.
Shape RowPieceShape(const Shape& shape, size_t item_bytes,
                    size_t piece_bytes_max);
// Returns the pieces of that shape that make up `box`, in C order; none when
// `box` is empty.
std::vector<Box> RowPieces(const Box& box, size_t item_bytes,
                           size_t piece_bytes_max);

}  // namespace holdfast
