// Small values of a tree as Python would hold them in Megatron's common state.
//
// Thread-safety: pure.
#pragma once

#include "foreign/extents/target.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {

// Scalars of Python's types as those, others as 0-d tensors; text as str or
// bytes; None, {}, [], (). REQUIRES: no array and no object.
PickleValue SmallPickleValue(const TargetLeaf& leaf);

}  // namespace holdfast
