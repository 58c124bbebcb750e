// Small values of a tree, as Python would hold them in Megatron's common state.
//
// Thread-safety: pure.
#pragma once

#include "foreign/extents/target.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {

// Scalars of Python's types stay scalars, others become 0-d tensors; text
// becomes str or bytes; None, {}, [] and () stay. REQUIRES: neither an array
// nor an object.
PickleValue SmallPickleValue(const TargetLeaf& leaf);

}  // namespace holdfast
