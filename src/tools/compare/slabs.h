// How a tensor is cut into slabs: boxes that together are the whole of it, each
// small enough to be held.
//
// A slab is made of whole chunks where they fit, so that no chunk is decoded
// twice, and has the whole of the last axes otherwise. The cut depends only on
// shape, chunks and sizes, never on threads. Slabs are computed, not listed: a
// shape out of a file may be any size.
// Thread-safety: values. Units: elements; bytes where the name says so.
#pragma once

#include <cstdint>
#include <vector>

#include "ground/tensor/box.h"

namespace holdfast {

struct SlabSizes {
  uint64_t target_bytes = 0;  // of neighbours put together
  // Whole chunks may take so much; so may parts of a chunk that is larger.
  uint64_t bytes_max = 0;
};

// Sizes for one side: a quarter of the budget at most (0: no budget).
SlabSizes SlabSizesOf(uint64_t in_flight_bytes_max);

class SlabGrid {
 public:
  SlabGrid() = default;
  // `chunk_shapes` come from the sides that hold the tensor; shapes of another
  // rank are ignored. `element_bytes` is at least 1.
  SlabGrid(Shape shape, const std::vector<Shape>& chunk_shapes,
           uint64_t element_bytes, const SlabSizes& sizes);

  // 0 for a tensor without elements.
  uint64_t count() const { return count_; }
  // REQUIRES: number < count(). In C order of their origins.
  Box At(uint64_t number) const;
  // Elements of the largest slab.
  uint64_t element_count_max() const;

 private:
  Shape shape_;
  Shape slab_;
  uint64_t count_ = 0;
};

// The position in C order of the element `position` of `box`, which is in C
// order too, in an array of `shape`.
int64_t FlatIndex(const Shape& shape, const Box& box, int64_t position);
// Its index.
Shape IndexOf(const Shape& shape, int64_t flat);

}  // namespace holdfast
