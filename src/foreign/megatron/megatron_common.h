// Small values of a tree, as Python would hold them in Megatron's common state.
//
// Thread-safety: pure.
#pragma once

#include "foreign/extents/target.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {

// Returns the value of a leaf. Scalars of Python's own types stay scalars, and
// other scalars become 0-d tensors. Text becomes str or bytes. None, {}, [] and
// () stay. REQUIRES: the leaf is neither an array nor an object.
PickleValue SmallPickleValue(const TargetLeaf& leaf);

}  // namespace holdfast
