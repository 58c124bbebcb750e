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

  // Chunks along each dimension: ceil(array / chunk).
  Shape ChunkCounts() const;
  // Product of ChunkCounts(), saturating at INT64_MAX; 0 for an empty array.
  int64_t ChunkCount() const;
  // The index of chunk `number`, counted in C order.
  // REQUIRES: 0 <= number < ChunkCount().
  Shape ChunkIndex(int64_t number) const;
  // The chunk at `index` cut to the array.
  Box ChunkBox(const Shape& index) const;
  // Those of all chunks, in C order.
  std::vector<Box> ChunkBoxes() const;
};

// Chunks that `box` touches; saturates. REQUIRES: box within the array.
int64_t CountChunks(const ChunkGrid& grid, const Box& box);

// Calls fn(index) for each chunk that `box` touches, in C order, until fn
// fails. REQUIRES: box within the array.
Status ForEachChunk(const ChunkGrid& grid, const Box& box,
                    const std::function<Status(const Shape& index)>& fn);

// Shape of the chunks that cut an array into runs of whole rows of at most
// `piece_bytes_max` bytes (one element, if that is less): in C order of their
// grid they follow each other in a contiguous array. REQUIRES: no extent of 0.
Shape RowPieceShape(const Shape& shape, size_t item_bytes,
                    size_t piece_bytes_max);
// The pieces of that shape that `box` is made of, in C order; none when it is
// empty.
std::vector<Box> RowPieces(const Box& box, size_t item_bytes,
                           size_t piece_bytes_max);

}  // namespace holdfast
