// Plans a load: where the elements of requested tensors are in stored arrays,
// chunk by chunk, and where they go.
//
// Thread-safety: pure functions. Ownership: plans borrow arrays and views.
// Units: elements.
#pragma once

#include <vector>

#include "foreign/megatron/zarr_array.h"

namespace holdfast::megatron {

// A nonempty box of the stored array, and where its elements go.
struct StoredPart {
  Box box;
  ArrayView target;  // of the box's shape
};

// The parts that one tensor needs of its array.
struct TensorPlan {
  Shape shape;  // of the result: local_shape, or 1-D
  // Part of the tensor is not stored: the target must be zeroed first.
  bool is_padded = false;
  // The complete local shard has to be assembled first, and then cut
  // (replicated padding of a flattened tensor).
  bool via_local = false;
};
// Errors: GLOBAL_SHAPE_MISMATCH, RANK_MISMATCH, EMPTY_SLICE, OUT_OF_RANGE.
Result<TensorPlan> PlanTensor(const ZarrArray::State& array,
                              const ShardedTensor& tensor, LoadMode mode,
                              bool pad_replicate);

// The stored parts of the tensor and their positions in `target`, which has the
// plan's shape (local_shape if via_local) and the array's dtype.
std::vector<StoredPart> StoredParts(const ZarrArray::State& array,
                                    const ShardedTensor& tensor,
                                    const ArrayView& target, bool via_local);

// The extents of the local shard that are inside the stored array.
Shape StoredLocalShape(const ZarrArray::State& array,
                       const ShardedTensor& tensor);

// Repeats the last stored row (along each axis in turn) over the padding.
void ReplicatePadding(const ArrayView& local, const Shape& stored_shape);

}  // namespace holdfast::megatron
