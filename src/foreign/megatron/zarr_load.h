// Plans a load, chunk by chunk: where the elements of the requested tensors are
// in the stored arrays, and where in memory they are written.
//
// Thread-safety: pure functions. Ownership: plans borrow arrays and views.
// Units: elements.
#pragma once

#include <vector>

#include "foreign/megatron/zarr_array.h"

namespace holdfast::megatron {

// A nonempty box of the stored array, and the memory for its elements.
struct StoredPart {
  Box box;
  ArrayView target;  // with the box's shape
};

// How one tensor is loaded from its array.
struct TensorPlan {
  Shape shape;  // of the result: local_shape, or 1-D
  // Part of the tensor is not stored, so the target must be zeroed first.
  bool is_padded = false;
  // The complete local shard is assembled first, and then cut (for the
  // replicated padding of a flattened tensor).
  bool via_local = false;
};
// Plans how to load the tensor.
// Errors: GLOBAL_SHAPE_MISMATCH, RANK_MISMATCH, EMPTY_SLICE, OUT_OF_RANGE.
Result<TensorPlan> PlanTensor(const ZarrArray::State& array,
                              const ShardedTensor& tensor, LoadMode mode,
                              bool pad_replicate);

// Returns the stored parts of the tensor and their positions in `target`, which
// has the plan's shape (local_shape if via_local) and the array's dtype.
std::vector<StoredPart> StoredParts(const ZarrArray::State& array,
                                    const ShardedTensor& tensor,
                                    const ArrayView& target, bool via_local);

// Returns the extents of the local shard that are inside the stored array.
Shape StoredLocalShape(const ZarrArray::State& array,
                       const ShardedTensor& tensor);

// Fills the padding along each axis in turn with copies of the last stored row.
void ReplicatePadding(const ArrayView& local, const Shape& stored_shape);

}  // namespace holdfast::megatron
