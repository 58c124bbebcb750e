// Rounds numbers to elements of any float or complex dtype.
//
// Thread-safety: pure functions. Elements need not be aligned.
#pragma once

#include <cstddef>

#include "holdfast/dtype.h"

namespace holdfast {

// Stores the nearest elements, rounded once, ties to even. `numbers` has
// PartsOf(dtype) numbers for each of `count` elements. REQUIRES: a float or
// complex dtype.
void StoreDoubles(DType dtype, const double* numbers, size_t count,
                  char* elements);

}  // namespace holdfast
