#include "foreign/extents/c_order_runs.h"

#include "ground/base/status_macros.h"
#include "ground/tensor/grid.h"

namespace holdfast {

Status ForEachRunOfBox(
    const Shape& shape, const Shape& origin, const ArrayView& target,
    const std::function<Status(uint64_t first, const ArrayView& part)>& fn) {
  if (ElementCount(target.shape) == 0) return Status();
  // A run has one index on every axis before the last axis that is cut.
  Shape run = target.shape;
  size_t end = run.size();
  while (end > 1 && run[end - 1] == shape[end - 1]) --end;
  for (size_t d = 0; d + 1 < end; ++d) run[d] = 1;
  const Shape strides = ContiguousStrides(shape, 1);
  const ChunkGrid grid{target.shape, run};
  for (int64_t i = 0; i < grid.ChunkCount(); ++i) {
    const Box part = grid.ChunkBox(grid.ChunkIndex(i));
    uint64_t first = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      first += (origin[d] + part.origin[d]) * strides[d];
    }
    HF_RETURN_IF_ERROR(fn(first, Subview(target, part)));
  }
  return Status();
}

}  // namespace holdfast
