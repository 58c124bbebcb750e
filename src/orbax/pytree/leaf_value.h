// Makes leaf values from arrays that were read, and converts values in memory.
//
// Thread-safety: pure functions. Ownership: results own or share their arrays.
// Errors: InvalidArgument with Orbax's or Python's messages.
#pragma once

#include <optional>
#include <vector>

#include "holdfast/restore_args.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"
#include "orbax/pytree/leaf_placement.h"

namespace holdfast {

// Returns the dtype to which a leaf that is stored as `stored` is read.
// InvalidArgument for a cast that TensorStore does not support.
Result<DType> ResultDType(DType stored, std::optional<DType> wanted);

void FillZeros(const ArrayView& view);

// Returns the jax.Array of `shards`, one for each box of the placement.
Tree JaxArrayOf(const LeafPlacement& placement, DType dtype,
                std::vector<ArrayShard> shards);

// Converts a value in memory to the requested dtype. With ArrayRestoreArgs,
// also reshapes it and divides it into shards. Values other than arrays and
// numbers stay unchanged.
Result<Tree> ConvertValue(const Tree& value, const AnyRestoreArgs& args);

}  // namespace holdfast
