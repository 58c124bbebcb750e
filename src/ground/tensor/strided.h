// Loops over two strided views in the order that suits memory best.
//
// PlanLoops drops extents of 1, flips dimensions so that the target runs
// forwards, orders them by target stride and merges neighbors that continue
// each other. The order of visits is therefore not C order; each pair of
// elements is visited exactly once.
// Thread-safety: values. Ownership: borrows the memory of both views.
// Units: extents in elements, strides in bytes.
// Errors: a shape mismatch is the caller's bug (asserted).
#pragma once

#include <array>

#include "holdfast/tensor.h"

namespace holdfast {

struct LoopDim {
  int64_t extent = 1;
  int64_t source_stride = 0;
  int64_t target_stride = 0;
};

struct StridedLoops {
  // At least one dimension; outermost first. May be one more than a view
  // allows, for callers that treat the parts of an element as a dimension.
  int rank = 0;
  std::array<LoopDim, kRankMax + 1> dims;
  const char* source = nullptr;
  char* target = nullptr;
  bool empty = false;

  const LoopDim& inner() const { return dims[rank - 1]; }
};

// REQUIRES: equal shapes. A target that is written has no stride of zero where
// the extent is above 1.
StridedLoops PlanLoops(const ConstArrayView& source, const ArrayView& target);

// Calls fn(source, target) at the start of each innermost run of `inner_rank`
// dimensions. `fn` returns false to stop; ForEachRun then returns false.
template <typename Fn>
bool ForEachRun(const StridedLoops& loops, int inner_rank, Fn&& fn) {
  if (loops.empty) return true;
  const int outer_rank = loops.rank - inner_rank;
  std::array<int64_t, kRankMax + 1> index{};
  const char* source = loops.source;
  char* target = loops.target;
  for (;;) {
    if (!fn(source, target)) return false;
    int i = outer_rank - 1;
    for (; i >= 0; --i) {
      const LoopDim& dim = loops.dims[i];
      if (++index[i] < dim.extent) {
        source += dim.source_stride;
        target += dim.target_stride;
        break;
      }
      index[i] = 0;
      source -= (dim.extent - 1) * dim.source_stride;
      target -= (dim.extent - 1) * dim.target_stride;
    }
    if (i < 0) return true;
  }
}

}  // namespace holdfast
