// A Python number of what was read.
//
// Thread-safety: pure function. Ownership: the result owns its value.
// Errors: those of Python's int() and float().
#pragma once

#include "holdfast/orbax/restore_args.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast {

// What numpy's item() gives of the element, converted where the type is one of
// numbers. REQUIRES: an array without dimensions.
Result<Tree> ScalarOf(const Array& element, RestoreType type);

}  // namespace holdfast
