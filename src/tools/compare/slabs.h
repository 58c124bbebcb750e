// Cuts a tensor into slabs: boxes that together cover the tensor, each small
// enough to be held in memory.
//
// A slab is made of complete chunks if they fit, so that no chunk is decoded
// twice; otherwise it spans the last axes completely. The cut depends only on
// shape, chunks and sizes, never on threads. Slabs are computed, not listed,
// because a shape read from a file may be of any size.
// Thread-safety: values. Units: elements; bytes where the name says so.
#pragma once

#include <cstdint>
#include <vector>

#include "ground/tensor/box.h"

namespace holdfast {

struct SlabSizes {
  uint64_t target_bytes = 0;  // for neighboring chunks put together
  // The limit for complete chunks, and for parts of a chunk that is larger.
  uint64_t bytes_max = 0;
};

// Returns the sizes for one side, which gets at most a quarter of the budget
// (0: no budget).
SlabSizes SlabSizesOf(uint64_t memory_bytes);

class SlabGrid {
 public:
  SlabGrid() = default;
  // `chunk_shapes` has the chunk shape of each side that holds the tensor.
  // Chunk shapes of another rank are ignored. `element_bytes` must be at least
  // 1.
  SlabGrid(Shape shape, const std::vector<Shape>& chunk_shapes,
           uint64_t element_bytes, const SlabSizes& sizes);

  // Returns the number of slabs; 0 for a tensor without elements.
  uint64_t count() const { return count_; }
  // Returns slab `number`. Slabs are numbered in C order of their origins.
  // REQUIRES: number < count().
  Box At(uint64_t number) const;
  // Returns the element count of the largest slab.
  uint64_t element_count_max() const;

 private:
  Shape shape_;
  Shape slab_;
  uint64_t count_ = 0;
};

// Returns where the element at `position` of `box` lies in an array of `shape`.
// Both positions are in C order.
int64_t FlatIndex(const Shape& shape, const Box& box, int64_t position);
// Returns the index of the element at position `flat` in C order.
Shape IndexOf(const Shape& shape, int64_t flat);

}  // namespace holdfast
