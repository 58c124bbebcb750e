// How a tensor is cut into slabs: boxes that together cover the tensor, each
// small enough to be held in memory.
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
  uint64_t target_bytes = 0;  // for neighbouring chunks put together
  // The limit for complete chunks, and for parts of a chunk that is larger.
  uint64_t bytes_max = 0;
};

// Sizes for one side, which gets at most a quarter of the budget (0: no
// budget).
SlabSizes SlabSizesOf(uint64_t in_flight_bytes_max);

class SlabGrid {
 public:
  SlabGrid() = default;
  // `chunk_shapes` come from the sides that hold the tensor; shapes of another
  // rank are ignored. `element_bytes` must be at least 1.
  SlabGrid(Shape shape, const std::vector<Shape>& chunk_shapes,
           uint64_t element_bytes, const SlabSizes& sizes);

  // 0 for a tensor without elements.
  uint64_t count() const { return count_; }
  // Slab `number` in the C order of the origins. REQUIRES: number < count().
  Box At(uint64_t number) const;
  // The element count of the largest slab.
  uint64_t element_count_max() const;

 private:
  Shape shape_;
  Shape slab_;
  uint64_t count_ = 0;
};

// Returns the position, in C order, in an array of `shape` of the element at
// `position` (in C order, too) of `box`.
int64_t FlatIndex(const Shape& shape, const Box& box, int64_t position);
// The index of the element at position `flat`.
Shape IndexOf(const Shape& shape, int64_t flat);

}  // namespace holdfast
