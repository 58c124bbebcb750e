// ChunkGrid: a regular grid of chunks over an array; edge chunks stick out.
// Thread-safety: values. Units: elements and chunk counts, outermost first.
#pragma once

#include <cstdint>
#include <functional>

#include "tensor/box.h"

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
};

// Calls fn(index) for each chunk that `box` touches, in C order, until fn
// fails. REQUIRES: box within the array.
Status ForEachChunk(const ChunkGrid& grid, const Box& box,
                    const std::function<Status(const Shape& index)>& fn);

}  // namespace holdfast
