// Converts a value that was read to a Python number.
//
// Thread-safety: pure function. Ownership: the result owns its value.
// Errors: those of Python's int() and float().
#pragma once

#include "holdfast/restore_args.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast {

// Returns the number that numpy's item() returns for the element, converted if
// `type` is a number type. REQUIRES: the array has no dimensions.
Result<Tree> ScalarOf(const Array& element, RestoreType type);

}  // namespace holdfast
