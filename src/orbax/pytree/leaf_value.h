// Values of leaves: made of arrays that were read, or converted in memory.
//
// Thread-safety: pure functions. Ownership: results own or share their arrays.
// Errors: InvalidArgument with Orbax's or Python's texts.
#pragma once

#include <optional>
#include <vector>

#include "holdfast/restore_args.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"
#include "orbax/pytree/leaf_placement.h"

namespace holdfast {

// The dtype that a leaf stored as `stored` is read as.
// InvalidArgument: a cast that TensorStore does not know.
Result<DType> ResultDType(DType stored, std::optional<DType> wanted);

void FillZeros(const ArrayView& view);

// One shard a box of the placement.
Tree JaxArrayOf(const LeafPlacement& placement, DType dtype,
                std::vector<ArrayShard> shards);

// A value that is in memory already, cast to the dtype that is asked for; with
// ArrayRestoreArgs also reshaped and laid out. Everything but arrays and
// numbers stays as it is.
Result<Tree> ConvertValue(const Tree& value, const AnyRestoreArgs& args);

}  // namespace holdfast
