#include "ground/tensor/strided.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

namespace holdfast {
namespace {

// Walks a dimension from its other end when the target runs backwards there.
void TurnForwards(StridedLoops& loops, LoopDim& dim) {
  if (dim.target_stride >= 0) return;
  loops.source += (dim.extent - 1) * dim.source_stride;
  loops.target += (dim.extent - 1) * dim.target_stride;
  dim.source_stride = -dim.source_stride;
  dim.target_stride = -dim.target_stride;
}

// Returns true if `a` belongs outside `b`: the largest target stride is
// outermost, so that the target is written in order.
bool OutsideOf(const LoopDim& a, const LoopDim& b) {
  if (a.target_stride != b.target_stride) {
    return a.target_stride > b.target_stride;
  }
  // Equal target strides occur in broadcast dimensions of one view. Order them
  // by the source.
  return std::abs(a.source_stride) > std::abs(b.source_stride);
}

// Returns true if one step of `outer` is a complete run of `inner` in both
// views.
bool Continues(const LoopDim& outer, const LoopDim& inner) {
  return outer.source_stride == inner.source_stride * inner.extent &&
         outer.target_stride == inner.target_stride * inner.extent;
}

void MergeNeighbours(StridedLoops& loops) {
  int merged = 0;
  for (int i = 1; i < loops.rank; ++i) {
    LoopDim& outer = loops.dims[merged];
    LoopDim inner = loops.dims[i];
    if (Continues(outer, inner)) {
      inner.extent *= outer.extent;
      outer = inner;
    } else {
      loops.dims[++merged] = inner;
    }
  }
  loops.rank = merged + 1;
}

}  // namespace

StridedLoops PlanLoops(const ConstArrayView& source, const ArrayView& target) {
  assert(source.shape == target.shape);
  assert(source.shape.size() <= kRankMax + 1);
  StridedLoops loops;
  loops.source = source.data;
  loops.target = target.data;
  loops.empty = ElementCount(target.shape) == 0;
  if (loops.empty) return loops;
  for (size_t i = 0; i < target.shape.size(); ++i) {
    // An extent of 1 is never stepped along, and its arbitrary stride would
    // keep its neighbors from merging.
    if (target.shape[i] == 1) continue;
    LoopDim& dim = loops.dims[loops.rank++];
    dim = {target.shape[i], source.strides[i], target.strides[i]};
    TurnForwards(loops, dim);
  }
  if (loops.rank == 0) {
    // A single element is a contiguous run of one.
    loops.dims[loops.rank++] = {1,
                                static_cast<int64_t>(DTypeBytes(source.dtype)),
                                static_cast<int64_t>(DTypeBytes(target.dtype))};
  }
  std::sort(loops.dims.begin(), loops.dims.begin() + loops.rank, OutsideOf);
  MergeNeighbours(loops);
  return loops;
}

}  // namespace holdfast
