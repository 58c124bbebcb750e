// A pickled value as a leaf of a checkpoint.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include "foreign/extents/extent_checkpoint.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {

// Sets kind and text of the leaf, if holdfast has a kind for the value: None, a
// bool, a float, an int of 64 bits, a complex number, a string, bytes, an empty
// list, tuple or dict. Returns false for all other values.
bool BecomeValue(const PickleValue& value, ExtentLeaf& leaf);

}  // namespace holdfast
