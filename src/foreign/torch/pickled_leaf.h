// A pickled value as a leaf of a checkpoint.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include "foreign/extents/extent_checkpoint.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {

// Gives the leaf the kind and the text of a value that holdfast has a kind for:
// None, a bool, a float, an int of 64 bits, a complex number, a string, bytes,
// an empty list, tuple or dict. False for all others.
bool BecomeValue(const PickleValue& value, ExtentLeaf& leaf);

}  // namespace holdfast
