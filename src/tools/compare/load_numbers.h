// Loads elements of any dtype as numbers that represent them exactly.
//
// Thread-safety: pure functions. Elements need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/dtype.h"

namespace holdfast {

// Returns true if float64 represents every value of the dtype exactly. This
// holds for all dtypes except 64-bit integers. For a complex dtype, the two
// parts count.
bool FitsDouble(DType dtype);
// Returns 2 for complex dtypes, else 1.
int PartsOf(DType dtype);

// Loads `count` elements, PartsOf(dtype) numbers each. REQUIRES:
// FitsDouble(dtype).
void LoadDoubles(DType dtype, const char* elements, size_t count,
                 double* numbers);
// Does the same for all dtypes. Represents 64-bit integers exactly, because a
// long double's mantissa has 64 bits or more.
void LoadLongDoubles(DType dtype, const char* elements, size_t count,
                     long double* numbers);

}  // namespace holdfast
